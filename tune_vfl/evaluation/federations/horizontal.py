"""The horizontal federation: clients hold different rows, and a server averages what they train in rounds."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import cast

import torch

from tune_vfl.data.base import DATASETS, Dataset
from tune_vfl.data.split import training_rows
from tune_vfl.defenses.base import Defense
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.clients import VICTIM, Clients, select_client, utilities_by_client, victims_defense
from tune_vfl.evaluation.federations.base import FederatedTraining, federation
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.grants.client_gradients import SingleSteps
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import put, write_training
from tune_vfl.evaluation.task import Task
from tune_vfl.horizontal.shards import shards
from tune_vfl.models.base import VflNetwork
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Rows
from tune_vfl.spec import Federation, Named, StudySpec, Training


@federation("horizontal")
class Horizontal(FederatedTraining):
    """A network of each client, trained round by round; one client is under attack.

    Its finished training is that of the client under attack: its rows, its network. The table's utility is the mean
    over all clients, each with its own network, on the test rows that all share.

    Attributes:
        cohorts: all clients.
        rounds: their training; a step of it is a round.
    """

    rows_there = "a client has"
    more_rows = ", or lower federation.clients"

    def __post_init__(self) -> None:
        """Build all clients, and the keepers of the one under attack."""
        task, params, recipe = self.task, list(self.params), self.task.cell.training
        self._clients = Clients(task, self.pack)
        self.cohorts, self.rounds = self._clients.begin(params, self.device)
        self.per_epoch, self.total = 1, task.cell.federation.rounds or 1
        self._split = self._clients.victim()
        rows = self._split.y_train.shape[-1]
        self._keepers = {kind: kind(self.attacks, recipe, rows) for kind in keepers_for(self.attacks)}
        if self._keepers:
            # One for both moments: what it draws before the first round it does not draw again after the last one.
            self._defense = victims_defense(task, params, self._clients, self._split)
            loop = self._victims_loop(self._victims_network())
            for keeper in self._keepers.values():
                keeper.begin(loop)

    @classmethod
    def laid_out(cls, spec: StudySpec) -> Named:
        """Return the spec's data set with all columns at one party, unless the spec splits them.

        Every client has all columns, so there is one party to a client. The column that assigns rows to clients is
        passed on.
        """
        given, name = dict(spec.dataset.options), spec.dataset.name
        if name not in DATASETS:
            return spec.dataset
        known, column = DATASETS[name].Options.model_fields, spec.federation.shards.column
        if "split" in known and not given.get("parties"):
            given.setdefault("split", 1.0)
        if column is not None and "client" not in known:
            able = ", ".join(n for n in DATASETS if "client" in DATASETS[n].Options.model_fields)
            raise SpecError(f"federation.shards.column: rows by a column are for dataset {able}, not {name!r}")
        if column is not None and str(given.setdefault("client", column)) != column:
            raise SpecError(
                f"federation.shards.column is {column!r}, dataset.client {given['client']!r}; leave one out"
            )
        return Named(name=name, **given)

    @classmethod
    def recipe(cls, spec: StudySpec, dataset: Dataset) -> tuple[Federation, Training]:
        """Return the federation and the training recipe, whose ``epochs`` are a client's passes over its rows."""
        federation, training = super().recipe(spec, dataset)
        if any(name == "training.epochs" for name in spec.searched):
            raise SpecError("training.epochs: follows from federation.rounds in the horizontal setting; fix the rounds")
        federation = _as_many_as_hold_rows(federation, dataset)
        if federation.rounds is None:
            rounds = max(1, training.epochs // federation.passes(1))
            federation = federation.model_copy(update={"rounds": rounds})
        elif "epochs" in spec.training.model_fields_set:
            raise SpecError("training.epochs: follows from federation.rounds, and both are given; leave one out")
        passes = federation.passes(federation.rounds or 1)
        return federation, training.model_copy(update={"epochs": passes})

    @classmethod
    def problems(cls, task: Task) -> Iterator[str]:
        """Yield reasons why data, model and defense do not make such a federation."""
        federation, dataset, defense = task.cell.federation, task.dataset, task.defense
        if dataset.active is not None or len(dataset.passive) > 1:
            yield (
                f"dataset {dataset.name!r}: in a horizontal federation every client holds all columns, here they lie "
                f"at {len(dataset.parties)} parties; leave out split and parties"
            )
        if dataset.holders is not None and federation.shards.name != "column":
            yield (
                "dataset.client says whose each row is, and federation.shards shares them out "
                f"{federation.shards.name}; write shards: {{column: NAME}}, or leave client out"
            )
        if task.architecture.options.top == "none" and defense.capabilities.client_bottom != "shared":
            yield f"model.top: none leaves nothing to share, since {defense.name!r} keeps the bottom model"

    @classmethod
    def rows_under_attack(cls, task: Task) -> Iterator[int]:
        """Yield the number of training rows of the client under attack, of each seed."""
        for seed in task.cell.seeds:
            rows, holders = training_rows(task.dataset, seed, task.cell.rows), task.dataset.holders
            held = shards(task.dataset.y[rows], task.cell.federation, seed, holders and holders.at(rows))
            yield len(held[VICTIM])

    @classmethod
    def of_one(cls, dataset: Dataset) -> Dataset | None:
        """Return all columns: each client has them."""
        return dataset

    def steps(self, *, deadline: float | None = None) -> Iterator[int]:
        """Train round by round; the deadline is looked at before a cohort's training."""
        return self.rounds.steps(deadline=deadline)

    def apart(self) -> Iterator[None]:
        """Train every client on its own rows, as often as a client of the federation does."""
        return self.rounds.apart()

    def utilities(self) -> list[float]:
        """Return each member's mean utility over clients."""
        means: list[float] = utilities_by_client(self._clients, self.cohorts)[0].mean(-1).tolist()
        return means

    def finish(self) -> Run:
        """Return the training, over, as the client under attack has it."""
        reached, variances = utilities_by_client(self._clients, self.cohorts)
        network = self._victims_network()
        if self._keepers:
            loop = self._victims_loop(network)
            for keeper in self._keepers.values():
                keeper.end(loop)
        run = Run(self.task, self.pack, self._split, network, self._keepers)
        lost = self.rounds.diverged.cpu() | ~torch.isfinite(reached).all(-1)
        defense, clients = cast("Defense", self.cohorts[0].defense), reached.shape[-1]
        spread = reached.std(-1) if clients > 1 else torch.zeros(len(lost))
        put(run.table, ("logged",), {"utility_std_over_clients": spread.nan_to_num().tolist()})
        if SingleSteps in run.keepers:
            defense.also_uploaded(run.kept(SingleSteps).uploads)
        # Clients share their test rows, so that their mean moves with other rows no more than each of them does.
        means = (reached.mean(-1).tolist(), variances.mean(-1).tolist())
        write_training(run.table, lost.tolist(), *means, defense, networks=len(self.cohorts[0].clients))
        return run

    def _victims_network(self) -> VflNetwork:
        """Return a copy of the current network of the client under attack."""
        cohort = self.cohorts[0]
        together = len(cohort.clients) > 1
        network = select_client(cohort.network, VICTIM, len(cohort.clients)) if together else cohort.network
        return cast("VflNetwork", copy.deepcopy(network).cpu().eval())

    def _victims_loop(self, network: VflNetwork) -> SplitTraining:
        """Return a loop over this client's rows for keepers to read; it is never run."""
        hooks, rows = [self._defense, *self._keepers.values()], Rows(self._split, self.pack)
        return SplitTraining(network, rows, self.task.cell.training, hooks, self.pack.lead)


def _as_many_as_hold_rows(federation: Federation, dataset: Dataset) -> Federation:
    """Return the federation with one client per value of the column that assigns rows to clients."""
    if federation.shards.name != "column" or dataset.holders is None:
        return federation
    count = len(dataset.holders.names)
    if "clients" in federation.model_fields_set and federation.clients != count:
        raise SpecError(
            f"federation.clients: column {federation.shards.column!r} has {count} values, and each is a client, got "
            f"{federation.clients}; leave clients out"
        )
    return federation.model_copy(update={"clients": count})
