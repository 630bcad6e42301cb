"""Adam and SGD as torch has them, without its compiler.

The first of torch's own optimizers imports the compiler, which takes more than a second of a process, and each of their
steps asks for it and for the profiler. Nothing here is compiled: the same methods are called as they were written.
"""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING, Any

import torch

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
    zero_grad = _as_written(torch.optim.Optimizer.zero_grad)


class Adam(Optimizer, torch.optim.Adam):
    """torch's Adam."""

    step = _step_of(torch.optim.Adam)


class Sgd(Optimizer, torch.optim.SGD):
    """torch's SGD."""

    step = _step_of(torch.optim.SGD)
