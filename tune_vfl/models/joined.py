"""Several parties as one: rows side by side, and one bottom model made of the parties' own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SideBySide:
    """Layout of several parties' rows side by side: their own columns first, then extension columns.

    Attributes:
        shapes: for each party the shape of one of its rows.
        added: for each party how many of its last columns a defense had it add to its own.
    """

    shapes: tuple[tuple[int, ...], ...]
    added: tuple[int, ...]

    def joined(self, rows: Sequence[Tensor]) -> Tensor:
        """Return ``(*trials, n, width)`` of each party's ``(*trials, n, *shape)``."""
        flat = [x.flatten(x.dim() - len(shape)) for x, shape in zip(rows, self.shapes, strict=True)]
        own, added = zip(*(torch.split(x, s, -1) for x, s in zip(flat, self._sizes, strict=True)), strict=True)
        return torch.cat([*own, *added], -1)

    def parted(self, line: Tensor) -> list[Tensor]:
        """Return each party's ``(*trials, n, *shape)`` of ``(*trials, n, width)``, the inverse of :meth:`joined`."""
        own, added = zip(*self._sizes, strict=True)
        parts = torch.split(line, [*own, *added], -1)
        rows = [torch.cat(both, -1) for both in zip(parts[: len(own)], parts[len(own) :], strict=True)]
        return [x.reshape(*x.shape[:-1], *shape) for x, shape in zip(rows, self.shapes, strict=True)]

    @property
    def _sizes(self) -> list[list[int]]:
        return [[math.prod(s) - a, a] for s, a in zip(self.shapes, self.added, strict=True)]


class JoinedBottoms(nn.Module):
    """A bottom model that maps several parties' rows side by side to their embeddings side by side."""

    def __init__(self, parts: Sequence[nn.Module], layout: SideBySide) -> None:
        super().__init__()
        self.parts, self._layout = nn.ModuleList(parts), layout

    def forward(self, line: Tensor) -> Tensor:
        """Return ``(*trials, B, embeddings)`` of rows ``(*trials, B, width)``."""
        rows = self._layout.parted(line)
        return torch.cat([bottom(x) for bottom, x in zip(self.parts, rows, strict=True)], -1)
