"""One federation of clients in a user's own loop: its initial models, its uploads, and the attacks on it."""

from __future__ import annotations

import time
from typing import cast

import torch
from torch import Tensor, nn

from tune_vfl.defenses.base import Defense
from tune_vfl.errors import UsageError
from tune_vfl.evaluation.federations.horizontal import Horizontal
from tune_vfl.evaluation.measuring import measured
from tune_vfl.evaluation.table import Table, write_seconds
from tune_vfl.evaluation.task import Task
from tune_vfl.horizontal.cohort import Cohort
from tune_vfl.protocol.loop import learning_rate, torchs_optimizer
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.spec import Strict, Training


class Client:
    """One client: its rows, its models and its defense, set up.

    Attributes:
        rows: its training rows: ``batches(size)`` yields a pass over them.
        bottom: ``(B, *shape) -> (B, d)``, with the layers that the defense has put into it.
        top: ``(B, d) -> (B, K)``.
        defense: the exported setting, with the client's own noise and secrets.
    """

    def __init__(self, cohort: Cohort, training: Training) -> None:
        self._cohort, self._training = cohort, training
        self.rows: Rows = cohort.rows
        self.bottom: nn.Module = cohort.network.bottoms[0]
        self.top: nn.Module = cohort.network.top or nn.Identity()
        self.defense = cast("Defense", cohort.defense)
        self.models = cohort.network

    @property
    def count(self) -> int:
        """The number of training rows."""
        return self.rows.count

    def shared(self) -> Tensor:
        """Return ``(n,)`` the current parameters that the client shares with the server."""
        return self._cohort.shared()[0, 0]

    def hidden(self) -> Tensor:
        """Return ``(n,)`` parameters averaged out of the server's sight: SplitFed's bottom model, else none."""
        return self._cohort.hidden()[0, 0]

    def statistics(self) -> Tensor:
        """Return ``(n,)`` the running statistics of the shared batch norms."""
        return self._cohort.statistics()[0, 0]

    def take(self, shared: Tensor, statistics: Tensor, hidden: Tensor) -> None:
        """Load ``(n,)`` averaged parameters into the client's models; private ones stay."""
        self._cohort.take(shared[None], statistics[None], hidden[None])

    def optimizer(self, epoch: int) -> torch.optim.Optimizer:
        """Return a fresh recipe optimizer, with the learning rate of a pass over the rows, counted from 0."""
        made = torchs_optimizer(list(self.models.parameters()), self._training)
        for group in made.param_groups:
            group["lr"] = learning_rate(self._training, epoch)
        return made

    def upload(self, update: Tensor) -> Tensor:
        """Return ``(n,)`` the upload under the client's defense for an update ``(n,)`` of the shared parameters."""
        row = update.unsqueeze(0)
        return self.defense.client_update(row, taking=torch.ones(1, 1, dtype=torch.bool)).reshape(-1)


class OwnRounds:
    """One training of a federation with one seed, as a loop of your own begins it and has it attacked.

    Rows, starting weights, orders of rows, noise and secrets come from the named streams of the seed, so a loop that
    does what the search did gets its numbers.

    Args:
        task: the task of the measured setting, which is horizontal.
        params: the defense's parameters.
        seed: decides all draws.

    Attributes:
        clients: all of them, in order; the first one is under attack.
        in_turn: clients train the shared part one after the other (SplitFed V2), not side by side.
        left_out: the attacks that take part in a training; there are none in this setting.
        table: the measurements; empty before :meth:`measure`.
    """

    def __init__(self, task: Task, params: Strict, *, seed: int) -> None:
        self.seed, self.task, self._started = seed, task, time.perf_counter()
        self.in_turn, self.left_out = task.defense.in_turn(params), tuple[str, ...]()
        self._training = Horizontal(task, [params], Pack((seed,), None), task.watching)
        self.clients = [Client(cohort, task.cell.training) for cohort in self._training.cohorts]
        self.table: Table = {}

    def measure(self) -> None:
        """Measure the utility of the clients' current models, and run the attacks.

        Raises:
            UsageError: when it was called before.
        """
        if self.table:
            raise UsageError("this training was measured before; make another one with own_rounds(seed=...)")
        self._training.rounds.settle()
        run = self._training.finish()
        write_seconds(run.table, {"train": time.perf_counter() - self._started})
        self.table = measured(run, self.task.watching)
