"""Adam and SGD as torch has them, without its compiler.

The first of torch's own optimizers imports the compiler, which takes more than a second of a process, and each of their
steps asks for it and for the profiler. Nothing here is compiled: the same methods are called as they were written.
"""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def _as_written(method: Callable[..., Any]) -> Any:
    """Return a method without what torch has wrapped around it."""
    return unwrap(method)


def _step_of(kind: type[torch.optim.Optimizer]) -> Any:
    """Return the step as it was written; nothing of it is differentiated."""
    step = torch.no_grad()(_as_written(kind.step))
    step.hooked = True  # torch wraps its profiler around a step without this mark
    return step


class Optimizer(torch.optim.Optimizer):
    """Base of optimizers; a subclass says what a step does."""

    add_param_group = _as_written(torch.optim.Optimizer.add_param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, which torch's own reports to its profiler."""
        if not set_to_none:
            _as_written(torch.optim.Optimizer.zero_grad)(self, set_to_none=False)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class Adam(Optimizer, torch.optim.Adam):
    """torch's Adam; the fused one of the plain method calls what does the work and nothing else."""

    _step_as_written = _step_of(torch.optim.Adam)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step; see torch's own."""
        if closure is not None or not all(map(_is_plain, self.param_groups)):
            return self._step_as_written(closure)
        for group in self.param_groups:
            lists: tuple[list[Tensor], ...] = ([], [], [], [], [], [])
            self._init_group(group, *lists)  # type: ignore[no-untyped-call]
            if lists[0]:
                torch._foreach_add_(lists[-1], 1)
                beta1, beta2 = group["betas"]
                torch._fused_adam_(
                    *lists,
                    amsgrad=False,
                    lr=group["lr"],
                    beta1=beta1,
                    beta2=beta2,
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    maximize=False,
                )
        return None

    step.hooked = True  # type: ignore[attr-defined]  # as in _step_of


def _is_plain(group: dict[str, Any]) -> bool:
    """Say whether a group is the fused method's, of one device and kind, without variants."""
    first = group["params"][0]
    alike = all(p.device == first.device and p.dtype == first.dtype for p in group["params"])
    variants = ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay")
    return bool(group["fused"]) and alike and first.device.type == "cpu" and not any(group[name] for name in variants)


class Sgd(Optimizer, torch.optim.SGD):
    """torch's SGD."""

    step = _step_of(torch.optim.SGD)
