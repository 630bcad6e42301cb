"""Active label inference: a malicious optimizer during training, then model completion on the bottom it made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.completion import PmcParams
from tune_vfl.attacks.parts.malicious import MaliciousOptimizer
from tune_vfl.attacks.pmc import Pmc
from tune_vfl.models.optimizers import AnyOptimizer
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import learning_rate
from tune_vfl.protocol.view import View
from tune_vfl.spec import Training


class ActiveParams(PmcParams):
    """Parameters of :class:`Active`; those of model completion and how the optimizer cheats."""

    mode: Literal["clean", "fu_pt17", "constant"] = Field(
        "clean",
        description="clean: steps grow where they keep their direction; fu_pt17: the same as the released code worked "
        "under the PyTorch of its time (needs training.optimizer: sgd); constant: every step is alpha times as long",
    )
    gamma: float = Field(1.0, gt=0, description="how strongly a kept direction lengthens a step (clean, fu_pt17)")
    alpha: float = Field(10.0, ge=1, le=100, description="factor of every step (constant)")


@attack("active")
class Active(Pmc):
    """Takes longer steps than agreed, so that the top model relies on the attacker's bottom model; then completes that.

    Only the attacker's own optimizer differs from what was agreed; what it sends and receives follows the protocol.
    It is trained apart, and the utility under attack is reported beside its success. Answers are those of model
    completion (``pmc``), and so is its floor on an untrained bottom model.
    """

    summary = "a malicious local optimizer during training, then model completion (pmc)"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    Params = ActiveParams
    capabilities = AttackCapabilities(
        modes=frozenset({"split"}), sees=frozenset({"features", "bottom", "auxiliary"}), acts=True
    )

    params: ActiveParams

    def hooks(self, training: Training, view: View) -> Sequence[Hooks]:
        """Return the attacker's part in the training."""
        return (_Accelerated(self.params, training),)

    def training_problems(self, training: Training) -> list[str]:
        """Refuse ``fu_pt17`` where the recipe is not SGD's."""
        if self.params.mode != "fu_pt17" or training.optimizer == "sgd":
            return []
        problem = (
            f"attack 'active': mode fu_pt17 is an SGD optimizer, this training uses {training.optimizer}; "
            "set training.optimizer: sgd, or mode: clean"
        )
        return [problem]


class _Accelerated(Hooks):
    """H8 and H9 of the first passive party: its own optimizer, on the recipe's learning rate schedule."""

    def __init__(self, params: ActiveParams, training: Training) -> None:
        self._params, self._training = params, training
        self._own: AnyOptimizer | None = None

    def local_optimizer(self, bottom: nn.Module, *, party: int) -> AnyOptimizer | None:
        """Return the malicious optimizer for the first party's bottom model."""
        if party != 0:
            return None
        p = self._params
        self._own = MaliciousOptimizer(bottom.parameters(), self._training, mode=p.mode, gamma=p.gamma, alpha=p.alpha)
        return self._own

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Follow the schedule: the gradient arrives before the step is taken."""
        if self._own is not None:
            for group in self._own.param_groups:
                group["lr"] = learning_rate(self._training, epoch)
