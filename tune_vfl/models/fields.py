"""Columns of a table by the field that they came from: numbers as they are, categories as learned vectors."""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import groupby
from typing import TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.models.base import Architecture, ModelOptions, Width
from tune_vfl.models.layers import stack_of
from tune_vfl.seeds import Stream


class FieldOptions(ModelOptions):
    """Options of nets that know which columns are one category."""

    category_dim: int = Field(16, ge=1, description="width of the vector that stands for a category's value")
    top_hidden: tuple[Width, ...] = Field((), description="hidden widths of the top model; none make it one layer")


F_co = TypeVar("F_co", bound=FieldOptions, covariant=True)


class FieldNet(Architecture[F_co]):
    """Base: a bottom model that knows which columns are one category, and an MLP on top.

    Where the data do not mark categories, as in hashed columns and in matrices, each column counts as a number.
    """

    modalities = frozenset({"table"})

    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the bottom for ``shape`` (d,) columns, each a number."""
        return self.bottom_of_fields((1,) * shape[0], d_out, stream)

    def bottom_of(self, shape: tuple[int, ...], fields: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the bottom for columns that ``fields`` became; with no ``fields``, each column is a number."""
        return self.bottom_of_fields(fields, d_out, stream) if fields else self.bottom(shape, d_out, stream)

    @abstractmethod
    def bottom_of_fields(self, fields: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build the bottom for fields of these widths, in columns."""

    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build ``d_in - hidden... - d_out``."""
        return nn.Sequential(*stack_of([d_in, *self.options.top_hidden, d_out], nn.ReLU, stream=stream))


class FieldVectors(nn.Module):
    """Replaces each category by a learned vector: ``(*trials, B, d)`` to ``(*trials, B, width)``.

    A category of k columns is multiplied by k vectors; for 0/1 columns this picks the vector of its value. A number
    stays as it is, or, with ``numbers=True``, is multiplied by a vector of its own. Fields keep their order.

    Args:
        fields: how many columns each field became, in order; 1 for a number.
        dim: width of the vectors.
        stream: where the starting vectors come from.
        numbers: whether numbers have vectors too.

    Attributes:
        width: the width of the result.
        vectors: ``(*trials, columns that have vectors, dim)``; None where there are none.
    """

    vectors: nn.Parameter | None

    def __init__(self, fields: tuple[int, ...], dim: int, *, stream: Stream, numbers: bool = False) -> None:
        super().__init__()
        # (how many columns, whether they are one category); neighboring numbers are one run, handled in one step.
        self._runs: list[tuple[int, bool]] = []
        for number, run in groupby(fields, lambda k: k == 1):
            widths = list(run)
            self._runs += [(len(widths), False)] if number else [(k, True) for k in widths]
        self._numbers = numbers
        held = sum(k for k, category in self._runs if category or numbers)
        self.width = sum(dim if category else k * (dim if numbers else 1) for k, category in self._runs)
        bound = 1 / math.sqrt(dim)
        self.vectors = nn.Parameter((stream.uniform(held, dim) * 2 - 1) * bound) if held else None

    def forward(self, x: Tensor) -> Tensor:
        """Map the columns of each row."""
        parts, at = [], 0
        for run, (k, category) in zip(x.split_with_sizes([k for k, _ in self._runs], -1), self._runs, strict=True):
            if self.vectors is None or not (category or self._numbers):
                parts.append(run)
                continue
            own = self.vectors[..., at : at + k, :]
            parts.append(run @ own if category else (run.unsqueeze(-1) * own.unsqueeze(-3)).flatten(-2))
            at += k
        return torch.cat(parts, -1)
