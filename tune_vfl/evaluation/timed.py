"""One training, timed step by step: the basis of estimates of time and of cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.task import Task
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict


class _HandedOver(Hooks):
    """Passes gradients from party to party, with or without a defense that screens them.

    Without a screening hook the loop backpropagates through both sides in one pass, which no two parties could.
    """

    def screen(self, gradients: list[Tensor]) -> list[Tensor]:
        """Return the gradients unchanged."""
        return gradients


class TimedTraining:
    """A training that its caller advances step by step.

    Args:
        task: the task to train.
        params: one set of defense parameters per trial.
        pack: the members of the training.
        clock: returns seconds.
        device: where the network is trained.

    Attributes:
        setup: seconds before the first step: rows, network, teachers, codecs, tables.
        steps: seconds of each step so far.
        per_epoch, total: steps of an epoch, and of the whole training. In the horizontal setting a step is a round.
    """

    def __init__(
        self, task: Task, params: Sequence[Strict], pack: Pack, *, clock: Callable[[], float], device: str = "cpu"
    ) -> None:
        self._clock = clock
        self.steps: list[float] = []
        begun = clock()
        kind = FEDERATIONS[task.cell.federation.name]
        training = kind(task, params, pack, hooks=[_HandedOver()], device=device)
        self._left = training.steps()
        self.setup = clock() - begun
        self.per_epoch, self.total = training.per_epoch, training.total

    def step(self) -> bool:
        """Take a step; False if none is left."""
        begun = self._clock()
        if next(self._left, self) is self:
            return False
        self.steps.append(self._clock() - begun)
        return True

    @property
    def pace(self) -> float:
        """Seconds of a mean step so far.

        Without the first, which sets up what all later ones use; and without the first epoch, in which some defenses
        do other work, where more than one was taken.
        """
        first = self.per_epoch if len(self.steps) > 2 * self.per_epoch else 1
        later = self.steps[first:] or self.steps
        return sum(later) / len(later)

    @property
    def whole(self) -> float:
        """Estimated seconds of the whole training at the pace so far."""
        return self.setup + sum(self.steps) + (self.total - len(self.steps)) * self.pace
