"""Parameters of a model as one flat vector per member: the format of uploads and broadcasts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from tune_vfl.models.images import BATCH_NORMS


class Vector:
    """The numbers of some tensors of a model, read and written as ``(members, n)``.

    Args:
        tensors: ``(*lead, ...)`` each.
        lead: their leading axes: none for one network, ``(members,)`` for a pack.
    """

    def __init__(self, tensors: Sequence[Tensor], lead: tuple[int, ...]) -> None:
        self._tensors, self._lead = list(tensors), lead
        self.members = lead[0] if lead else 1

    @classmethod
    def of_parameters(cls, modules: Iterable[nn.Module], lead: tuple[int, ...]) -> Vector:
        """Return the trainable parameters of the modules."""
        return cls([p for module in modules for p in module.parameters()], lead)

    @classmethod
    def of_statistics(cls, modules: Iterable[nn.Module], lead: tuple[int, ...]) -> Vector:
        """Return the running means and variances of the modules."""
        norms = [m for module in modules for m in module.modules() if isinstance(m, BATCH_NORMS)]
        return cls([b for norm in norms for b in norm.buffers() if b.is_floating_point()], lead)

    @property
    def width(self) -> int:
        """N."""
        return sum(t.numel() for t in self._tensors) // self.members

    def read(self) -> Tensor:
        """Return a copy ``(members, n)``."""
        if not self._tensors:
            return torch.zeros(self.members, 0)
        return torch.cat([t.detach().reshape(self.members, -1) for t in self._tensors], -1)

    def write(self, values: Tensor) -> None:
        """Put numbers ``(members, n)`` in."""
        start = 0
        for tensor in self._tensors:
            width = tensor.numel() // self.members
            tensor.data.copy_(values[:, start : start + width].reshape(tensor.shape))
            start += width
