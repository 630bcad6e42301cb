"""The clients of the horizontal setting: their rows, networks and utilities, and the client under attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from tune_vfl.data.base import Dataset, Split
from tune_vfl.data.split import split as split_for_seed
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.row_variance import row_variance
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import build_defense, build_network, by_member, set_up
from tune_vfl.horizontal.cohort import Cohort
from tune_vfl.horizontal.rounds import Rounds
from tune_vfl.horizontal.shards import client_seed, shards
from tune_vfl.horizontal.vector import Vector
from tune_vfl.metrics.utility import utility
from tune_vfl.models.base import VflNetwork
from tune_vfl.models.layers import select_members
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Streams
from tune_vfl.spec import Federation, RowsUsed, Strict

VICTIM = 0
"""The client whose rows are under attack."""
_TEST_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class Clients:
    """The rows of all clients, for the seeds of a pack.

    Attributes:
        task: the task to evaluate.
        pack: the members of the training, each with all clients.
    """

    task: Task
    pack: Pack

    @property
    def federation(self) -> Federation:
        """The cell's federation."""
        return self.task.cell.federation

    @property
    def splits(self) -> list[list[Split]]:
        """Each client's rows by seed: the client's training rows, and the seed's test rows."""
        return _client_splits(self.task.dataset, self.pack.seeds, self.task.cell.rows, self.federation)

    @property
    def counts(self) -> Tensor:
        """Number of rows by client: ``(members, clients)``."""
        by_seed = torch.tensor([[s.y_train.shape[-1] for s in of_seed] for of_seed in self.splits])
        return by_seed.repeat(self.pack.trials or 1, 1).float()

    def rows_of(self, clients: list[int]) -> tuple[Split, Pack]:
        """Return the training rows of some clients as a pack whose seeds are those of each client of each seed."""
        held = [of_seed[c] for of_seed in self.splits for c in clients]
        pack = Pack(tuple(client_seed(seed, c) for seed in self.pack.seeds for c in clients), self.pack.trials)
        return (held[0] if self.pack.trials is None else Split.stack([_train_only(s) for s in held])), pack

    def victim(self) -> Split:
        """Return the rows of the client under attack, seeds stacked as the pack has them."""
        held = [of_seed[VICTIM] for of_seed in self.splits]
        return held[0] if self.pack.trials is None else Split.stack(held)

    def cohort(self, clients: list[int], params: list[Strict], device: str) -> Cohort:
        """Return a cohort with freshly built networks and a defense that is set up.

        Args:
            clients: which.
            params: one set of defense parameters per trial.
            device: where the networks are trained.
        """
        split, pack = self.rows_of(clients)
        defense = build_defense(self.task, params, pack)
        network = build_network(self.task, split, pack, Streams(self._seeds(clients))).to(device)
        split = split.to(device)
        set_up(defense, network, split, pack)
        _see_a_row(network, split, pack)
        return Cohort(
            clients,
            network,
            Rows(split, pack),
            self.task.cell.training,
            defense=defense,
            bottom=defense.capabilities.client_bottom,
            lead=pack.lead,
        )

    def begin(self, params: list[Strict], device: str = "cpu") -> tuple[list[Cohort], Rounds]:
        """Return all clients, freshly built, and their training loop; ``params`` as of :meth:`cohort`."""
        in_turn, count = self.task.defense.in_turn(params[0]), self.federation.clients
        together = self.pack.trials is not None and not in_turn
        groups = [list(range(count))] if together else [[c] for c in range(count)]
        cohorts = [self.cohort(group, params, device) for group in groups]
        if self.task.defense.capabilities.client_bottom == "kept":
            _start_alike(cohorts)
        counts, seeds = self.counts.to(device), self.pack.member_seeds
        return cohorts, Rounds(cohorts, self.federation, counts, seeds, in_turn=in_turn)

    def _seeds(self, clients: list[int]) -> int | list[int]:
        """Return the initial seed of a member's clients, the same one for all of them."""
        if self.pack.trials is None:
            return self.pack.seeds[0]
        return [seed for seed in self.pack.seeds for _ in clients] * self.pack.trials


@lru_cache(maxsize=4)
def _client_splits(
    dataset: Dataset, seeds: tuple[int, ...], rows: RowsUsed, federation: Federation
) -> list[list[Split]]:
    found = []
    for seed in seeds:
        whole = split_for_seed(dataset, seed, rows)
        holders = None if dataset.holders is None else dataset.holders.at(whole.train_rows)
        found.append([_part(whole, at) for at in shards(whole.y_train, federation, seed, holders)])
    return found


def _part(whole: Split, at: Tensor) -> Split:
    return replace(
        whole,
        passive_train=tuple(x[at] for x in whole.passive_train),
        y_train=whole.y_train[at],
        train_rows=whole.train_rows[at],
    )


def _train_only(split: Split) -> Split:
    """Return a split without test rows; all clients share those, so that no copy is stacked for each."""
    return replace(
        split,
        passive_test=tuple(x[:0] for x in split.passive_test),
        y_test=split.y_test[:0],
        test_rows=split.test_rows[:0],
    )


def _start_alike(cohorts: Sequence[Cohort]) -> None:
    """Copy the first client's initial bottom model to all others, encoders and decoders of passports included.

    So they may agree before the first round, without the server: what lies above the bottom models is averaged, and
    what it reads should mean the same everywhere. Passports are no parameters; they stay each client's own.
    """
    bottoms = [Vector.of_parameters(cohort.network.bottoms, cohort.lead) for cohort in cohorts]
    first = bottoms[0].read().view(cohorts[0].members, len(cohorts[0].clients), -1)[:, 0]
    for cohort, bottom in zip(cohorts, bottoms, strict=True):
        bottom.write(first.repeat_interleave(len(cohort.clients), 0))


def _see_a_row(network: VflNetwork, split: Split, pack: Pack) -> None:
    """Feed every bottom model one row: a passport layer draws its passport at the shape of its first input."""
    with torch.no_grad():
        network.eval()
        row = split.passive_train[0][:1] if pack.trials is None else split.passive_train[0][:, :1]
        network.bottoms[0](pack.spread(row))
        network.train()


def select_client(network: nn.Module, client: int, clients: int) -> nn.Module:
    """Return one client's networks out of a cohort of all clients of several members."""
    first = next(network.parameters())
    return select_members(network, torch.arange(client, first.shape[0], clients))


def victims_defense(task: Task, params: list[Strict], clients: Clients, split: Split) -> Defense:
    """Return the defense of the client under attack, set up on that client's rows."""
    pack = Pack(tuple(client_seed(seed, VICTIM) for seed in clients.pack.seeds), clients.pack.trials)
    defense = build_defense(task, params, pack)
    y = pack.spread(split.y_train)
    defense.setup(y, torch.arange(y.shape[-1]).expand(y.shape), seed=pack.member_seeds)
    return defense


@torch.no_grad()
def utilities_by_client(clients: Clients, cohorts: Sequence[Cohort]) -> tuple[Tensor, Tensor]:
    """Return the utility ``(members, clients)`` of each client's network on the seed's test rows, and its variances."""
    task, pack = clients.task, clients.pack
    splits = [of_seed[0] for of_seed in clients.splits]
    x_test, y_test = [s.passive_test[0] for s in splits], [s.y_test for s in splits]
    labels = torch.stack(y_test).repeat(pack.trials or 1, 1)
    metric = task.cell.metric
    found, variances = [], []
    for cohort in cohorts:
        scores = _scores(cohort, x_test, pack).cpu()
        shared = labels.repeat_interleave(len(cohort.clients), 0)
        found.append(torch.tensor(by_member(utility, metric, scores, shared)).view(cohort.members, -1))
        variances.append(torch.tensor(by_member(row_variance, metric, scores, shared)).view(cohort.members, -1))
    return torch.cat(found, 1), torch.cat(variances, 1)


def _scores(cohort: Cohort, x_test: list[Tensor], pack: Pack) -> Tensor:
    """Return class scores ``(members x clients, n_test, K)`` in chunks, since every network reads all test rows."""
    network, defense = cohort.network, cohort.defense
    network.eval()
    device = next(network.parameters()).device
    rows = x_test[0].shape[0]
    networks = cohort.members * len(cohort.clients)
    at_once = max(1, _TEST_BYTES // max(1, networks * x_test[0][:1].nbytes))
    parts = []
    for first in range(0, rows, at_once):
        if not cohort.lead:
            x = x_test[0][first : first + at_once]
        else:
            by_seed = torch.stack([x[first : first + at_once] for x in x_test])
            x = by_seed.repeat_interleave(len(cohort.clients), 0).repeat(pack.trials or 1, *[1] * (by_seed.dim() - 1))
        x = x.to(device)
        embedding = defense.send_embedding(network.bottoms[0](x), party=0)
        parts.append(defense.decode(network.head(embedding)))
    network.train()
    whole = torch.cat(parts, -2)
    return whole if cohort.lead else whole.unsqueeze(0)
