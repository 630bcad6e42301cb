"""The malicious optimizer of an attacker whose bottom model should dominate the joint training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tune_vfl.models.optimizers import Optimizer
from tune_vfl.spec import Training

Scaling = Literal["clean", "fu_pt17", "constant"]
HIGHEST = 5.0
_TINY = 1e-7


class MaliciousOptimizer(Optimizer):
    """Takes the recipe's steps, longer where they keep their direction (Fu et al. 2022, section 4.3).

    Entry by entry, hence the same alone or in a pack. With v the recipe's step before the learning rate (SGD's momentum
    buffer, or Adam's ratio) and s the step that was taken before, a step is ``s = v * clip(1 + gamma * v / s, 1, 5)``;
    the first one is v itself. Where the sign changes the ratio is clipped to 1.

    Args:
        parameters: of the attacker's bottom model.
        training: the recipe that it pretends to follow.
        mode: ``clean`` as above; ``fu_pt17`` as the released code did under the PyTorch of its time: there one tensor
            was gradient, momentum and step at once and was wiped each step, which leaves v = 2 * momentum * gradient
            after the first; ``constant`` is ``s = alpha * v``.
        gamma: how strongly kept directions are favored.
        alpha: the factor of ``constant``.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        training: Training,
        *,
        mode: Scaling = "clean",
        gamma: float = 1.0,
        alpha: float = 10.0,
    ) -> None:
        super().__init__(parameters, lr=training.lr)
        self._training, self._mode, self._gamma, self._alpha = training, mode, gamma, alpha

    def change(self, trained: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """Take one step."""
        for p, gradient in zip(trained, gradients, strict=True):
            p.sub_(group["lr"] * self._taken(p, gradient + self._training.weight_decay * p))

    def _taken(self, p: Tensor, gradient: Tensor) -> Tensor:
        """Return the step for one parameter, before the learning rate."""
        state = self.state[p]
        wanted = _adam(state, gradient) if self._training.optimizer == "adam" else self._momentum(state, gradient)
        if self._mode == "constant":
            return self._alpha * wanted
        before = state.get("taken")
        if before is None:
            taken = wanted.clone()
        else:
            # Where both are zero the ratio is undefined, and the entry keeps its gradient as it is.
            ratio = (1 + self._gamma * wanted / (before + _TINY)).nan_to_num(nan=1.0).clamp(1.0, HIGHEST)
            taken = wanted * ratio
        state["taken"] = taken
        return taken

    def _momentum(self, state: dict[str, Any], gradient: Tensor) -> Tensor:
        momentum = self._training.momentum
        if "velocity" not in state:
            state["velocity"] = gradient.clone()
        elif self._mode == "fu_pt17" and momentum:
            return 2 * momentum * gradient
        else:
            state["velocity"] = momentum * state["velocity"] + gradient
        velocity: Tensor = state["velocity"]
        return velocity


def _adam(state: dict[str, Any], gradient: Tensor, betas: tuple[float, float] = (0.9, 0.999)) -> Tensor:
    """Return Adam's step before the learning rate, with torch's defaults."""
    state["count"] = state.get("count", 0) + 1
    corrected: list[Tensor] = []
    for name, beta, value in (("first", betas[0], gradient), ("second", betas[1], gradient.square())):
        moment = state.get(name, torch.zeros_like(gradient)).lerp(value, 1 - beta)
        state[name] = moment
        corrected.append(moment / (1 - beta ** state["count"]))
    return corrected[0] / (corrected[1].sqrt() + 1e-8)
