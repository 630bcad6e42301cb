"""Train a federation of clients: from a task and settings to trained networks and the material of attacks."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.checks import NEARLY_DONE
from tune_vfl.evaluation.clients import VICTIM, Clients, select_client, victims_defense
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.grants.client_gradients import SingleSteps
from tune_vfl.evaluation.row_variance import row_variance
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import Trained, write_training
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, undefended, utilities_of
from tune_vfl.horizontal.cohort import Cohort
from tune_vfl.horizontal.rounds import Rounds
from tune_vfl.horizontal.vector import Vector
from tune_vfl.models.base import VflNetwork
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.members import Rows as TrainingRows
from tune_vfl.spec import Strict

_TEST_BYTES = 64 * 2**20


def train(
    task: Task,
    params: Sequence[Strict],
    pack: Pack,
    attacks: Sequence[Attack[Strict]] = (),
    *,
    deadline: float | None = None,
    device: str = "cpu",
) -> Run:
    """Train a pack in the setting of its task; see :func:`train_pack` and :func:`train_clients`."""
    of_setting = train_clients if task.cell.federation.horizontal else train_pack
    return of_setting(task, params, pack, attacks, deadline=deadline, device=device)


def train_clients(
    task: Task,
    params: Sequence[Strict],
    pack: Pack,
    attacks: Sequence[Attack[Strict]] = (),
    *,
    deadline: float | None = None,
    device: str = "cpu",
) -> Run:
    """Train all clients of a pack under its defense, with keepers for the attacks on one of them.

    Args:
        task: of a horizontal cell.
        params: one set of defense parameters per trial, of equal structure.
        pack: the members of the training.
        attacks: those that watch.
        deadline: ``time.monotonic()`` after which TimeoutError is raised.
        device: where the networks are trained.

    Returns:
        The training, over, as the client under attack has it: its rows, its network. The table's utility is the mean
        over all clients, each with its own network, on the test rows that all share.
    """
    start, clients = time.perf_counter(), Clients(task, pack)
    cohorts, rounds = begin(clients, list(params), device)
    victim = Victim(clients, list(params), attacks, cohorts)
    ready = time.perf_counter()
    before_end: list[Tensor] = []
    nearly = max(1, math.floor(NEARLY_DONE * (task.cell.federation.rounds or 1)))

    def look(done: int) -> None:
        if done == nearly and undefended(task):
            before_end.append(utilities_by_client(clients, cohorts)[0])

    rounds.run(deadline=deadline, after_round=look)
    reached, variances = utilities_by_client(clients, cohorts)
    trained = time.perf_counter()
    run = victim.trained()
    lost = rounds.diverged.cpu() | ~torch.isfinite(reached).all(-1)
    fill_clients(run, cohorts, lost, (reached, variances), {"setup": ready - start, "train": trained - ready})
    if before_end:
        run.table["before_end", "utility"] = before_end[0].mean(-1).tolist()
    return run


def begin(clients: Clients, params: list[Strict], device: str = "cpu") -> tuple[list[Cohort], Rounds]:
    """Return all clients of a pack, freshly built, and their training loop."""
    federation, count = clients.federation, clients.federation.clients
    in_turn = clients.task.defense.in_turn(params[0])
    together = clients.pack.trials is not None and not in_turn
    groups = [list(range(count))] if together else [[c] for c in range(count)]
    cohorts = [clients.cohort(group, params, device) for group in groups]
    if clients.task.defense.capabilities.client_bottom == "kept":
        _start_alike(cohorts)
    rounds = Rounds(cohorts, federation, clients.counts.to(device), clients.pack.member_seeds, in_turn=in_turn)
    return cohorts, rounds


def _start_alike(cohorts: Sequence[Cohort]) -> None:
    """Copy the first client's initial bottom model to all others, encoders and decoders of passports included.

    So they may agree before the first round, without the server: what lies above the bottom models is averaged, and
    what it reads should mean the same everywhere. Passports are no parameters; they stay each client's own.
    """
    bottoms = [Vector.of_parameters(cohort.network.bottoms, cohort.lead) for cohort in cohorts]
    first = bottoms[0].read().view(cohorts[0].members, len(cohorts[0].clients), -1)[:, 0]
    for cohort, bottom in zip(cohorts, bottoms, strict=True):
        bottom.write(first.repeat_interleave(len(cohort.clients), 0))


class Victim:
    """The client under attack, as keepers see it before and after its training."""

    def __init__(
        self, clients: Clients, params: list[Strict], attacks: Sequence[Attack[Strict]], cohorts: list[Cohort]
    ) -> None:
        self._clients, self._cohorts = clients, cohorts
        self._split = clients.victim()
        recipe, rows = clients.task.cell.training, self._split.y_train.shape[-1]
        self._keepers = {kind: kind(attacks, recipe, rows) for kind in keepers_for(attacks)}
        # One for both moments: what it draws before the first round it does not draw again after the last one.
        self._defense = victims_defense(clients.task, params, clients, self._split)
        if self._keepers:
            loop = self._loop(self._network())
            for keeper in self._keepers.values():
                keeper.begin(loop)

    def trained(self) -> Run:
        """Return the finished training of this client."""
        network = self._network()
        if self._keepers:
            loop = self._loop(network)
            for keeper in self._keepers.values():
                keeper.end(loop)
        return Run(self._clients.task, self._clients.pack, self._split, network, self._keepers)

    def _network(self) -> VflNetwork:
        """Return a copy of the client's current network."""
        cohort = self._cohorts[0]
        together = len(cohort.clients) > 1
        network = select_client(cohort.network, VICTIM, len(cohort.clients)) if together else cohort.network
        return cast("VflNetwork", copy.deepcopy(network).cpu().eval())

    def _loop(self, network: VflNetwork) -> SplitTraining:
        """Return a loop over this client's rows for keepers to read; it is never run."""
        rows = TrainingRows(self._split, self._clients.pack)
        recipe = self._clients.task.cell.training
        return SplitTraining(network, rows, recipe, [self._defense, *self._keepers.values()], self._clients.pack.lead)


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
        by_member = scores.reshape(cohort.members, len(cohort.clients), *scores.shape[-2:])
        each = [utilities_of(metric, of, y.expand(len(of), -1)) for of, y in zip(by_member, labels, strict=True)]
        found.append(torch.tensor(each))
        variances.append(_variances(metric, by_member, labels))
    return torch.cat(found, 1), torch.cat(variances, 1)


def _variances(metric: str, scores: Tensor, labels: Tensor) -> Tensor:
    """Return :func:`row_variance` of ``(members, clients, n, K)`` scores; NaN for scores that are not finite."""
    found = torch.full(scores.shape[:2], math.nan)
    for m, c in torch.isfinite(scores).all(-1).all(-1).nonzero().tolist():
        found[m, c] = row_variance(metric, scores[m, c].double().numpy(), labels[m].numpy())
    return found


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


def fill_clients(
    run: Run, cohorts: Sequence[Cohort], lost: Tensor, utilities: tuple[Tensor, Tensor], seconds: Mapping[str, float]
) -> None:
    """Write a training's results into its table, one row per member; utilities and variances by client."""
    reached, variances = utilities
    defense, clients = cast("Defense", cohorts[0].defense), reached.shape[-1]
    spread = reached.std(-1) if clients > 1 else torch.zeros(len(lost))
    if SingleSteps in run.keepers:
        defense.also_uploaded(run.kept(SingleSteps).uploads)
    logged = {"utility_std_over_clients": spread.nan_to_num().tolist()}
    for name, values in defense.logged().items():
        logged[name] = [float(v) for v in list(values)[:: len(cohorts[0].clients)]]
    notes = [defense.notes(m * len(cohorts[0].clients)) for m in range(len(lost))]
    # Clients share their test rows, so that their mean moves with other rows no more than each of them does.
    means = (reached.mean(-1).tolist(), variances.mean(-1).tolist())
    write_training(run.table, Trained(lost.tolist(), *means, notes, logged, seconds))
