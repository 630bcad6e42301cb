"""The attacker's own bottom model, or the bottom models of several parties as one."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.run import Run
from tune_vfl.spec import Strict


@grant("bottom")
class OwnBottom(Grant):
    """The attacker's own bottom model, trained; or untrained for views before a training."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> Callable[[], nn.Module]:
        """Return a factory of fresh copies."""
        return run.bottom
