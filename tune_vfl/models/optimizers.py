"""Adam and SGD by torch's own arithmetic, without its compiler.

The first of torch's optimizers imports the compiler, which takes a second of a process, and each of their steps asks
for it and for the profiler. These call the functions that do the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd


class Optimizer:
    """Base class of optimizers; a subclass implements the step.

    Args:
        parameters: what is trained, or groups of it: under ``params``, with options of their own.
        options: of every group that has none of its own, by name.

    Attributes:
        param_groups: by group the parameters under ``params``, and the options, which may change from step to step.
        state: what is remembered of each parameter.
    """

    def __init__(self, parameters: Iterable[Tensor] | Iterable[dict[str, Any]], **options: Any) -> None:
        given = list(parameters)
        groups = [part for part in given if isinstance(part, dict)] or [{"params": given}]
        self.param_groups: list[dict[str, Any]] = [{**options, **group} for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    def step(self) -> None:
        """Change the parameters that have a gradient."""
        with torch.no_grad():
            for group in self.param_groups:
                trained = [p for p in group["params"] if p.grad is not None]
                if trained:
                    self.change(trained, [p.grad for p in trained], group)

    def change(self, trained: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """Change parameters of one group by their gradients."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill them with zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                keep = not set_to_none and parameter.grad is not None
                parameter.grad = torch.zeros_like(parameter.grad) if keep else None


AnyOptimizer: TypeAlias = torch.optim.Optimizer | Optimizer


class Adam(Optimizer):
    """torch's Adam, of the same options."""

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {"weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize, "fused": fused}
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, **options)

    def change(self, trained: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """Take a step; see torch's own."""
        held = [self.state[p] or self._begin(p, group) for p in trained]
        beta1, beta2 = group["betas"]
        adam(
            trained,
            gradients,
            [state["exp_avg"] for state in held],
            [state["exp_avg_sq"] for state in held],
            [state["max_exp_avg_sq"] for state in held] if group["amsgrad"] else [],
            [state["step"] for state in held],
            beta1=beta1,
            beta2=beta2,
            **{name: group[name] for name in ("lr", "eps", "weight_decay", "amsgrad", "maximize", "fused")},
        )

    def _begin(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        state = self.state[parameter]
        # The fused function counts where the parameter is.
        state["step"] = torch.zeros((), device=parameter.device if group["fused"] else None)
        for name in ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ())):
            state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return state


class Sgd(Optimizer):
    """torch's SGD, of the same options."""

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        fused: bool | None = None,
    ) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, fused=fused)

    def change(self, trained: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> None:
        """Take a step; see torch's own."""
        momenta = [self.state[p].get("momentum_buffer") for p in trained]
        given = {name: group[name] for name in ("lr", "momentum", "weight_decay", "fused")}
        sgd(trained, gradients, momenta, dampening=0.0, nesterov=False, maximize=False, **given)
        if group["momentum"]:
            for parameter, momentum in zip(trained, momenta, strict=True):
                if momentum is not None:
                    self.state[parameter]["momentum_buffer"] = momentum
