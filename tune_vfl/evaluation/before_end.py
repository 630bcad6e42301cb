"""A probe of convergence: the model's scores shortly before the end of a training."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from tune_vfl.evaluation.checks import NEARLY_DONE
from tune_vfl.protocol.hooks import Hooks


class BeforeEnd(Hooks):
    """Scores a network when most of its steps are done; changes nothing and draws nothing.

    Attributes:
        look: returns the class scores of the test rows as the network is now; set before the training.
        scores: ``(*trials, n_test, K)``; None before that moment.
    """

    look: Callable[[], Tensor]

    def __init__(self, steps: int) -> None:
        self._left = max(1, math.floor(NEARLY_DONE * steps))
        self.scores: Tensor | None = None

    def top_step(self) -> None:
        """Count a step, and score the network after the chosen one."""
        self._left -= 1
        if self._left == 0:
            self.scores = self.look().cpu()
