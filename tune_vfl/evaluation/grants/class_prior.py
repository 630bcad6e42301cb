"""The shares of the classes among the training rows."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.run import Run
from tune_vfl.spec import Strict


@grant("class_prior")
class ClassPrior(Grant):
    """Shares of the classes, without any row's label."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> Tensor:
        """Return ``(*trials, K)`` shares."""
        return one_hot(run.y_train, run.task.dataset.num_classes).float().mean(-2)
