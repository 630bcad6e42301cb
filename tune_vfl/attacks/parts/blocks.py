"""Blocks of columns for linear heads: an attacker's own columns, and columns derived from received gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.attacks.parts.coordinates import GROUP_WEIGHT
from tune_vfl.attacks.parts.kmeans import unit
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Recording

KINDS = ("gradient", "direction", "norm")
WIDEST = 64
"""Principal components that are kept of a block of gradients."""
_QUIETEST = 1e-4


class Block:
    """Rows, standardized and weighted so that a block counts as much as any other, however many columns it has.

    Nothing is copied: a linear model's coefficients are mapped to the columns as they are.

    Args:
        rows: ``(*trials, N, d)`` of the training split, in its order.
        widest: principal components of the standardized rows that are kept where there are more columns; None: all.
    """

    def __init__(self, rows: Tensor, *, widest: int | None = None) -> None:
        self._rows = rows
        spread, center = torch.std_mean(rows, -2, keepdim=True)
        # A member whose training diverged must not disturb the others of its pack; equal rows differ by rounding only.
        varies = torch.isfinite(spread) & (spread > 1e-6 * center.abs())
        self._center = torch.where(varies, center, 0.0)
        weight = (GROUP_WEIGHT / rows.shape[-1]) ** 0.5
        self._scale = torch.where(varies, weight / spread, 0.0)
        self._axes = _principal(self._standard(rows), widest) if widest and rows.shape[-1] > widest else None

    def at(self, ids: Tensor) -> Tensor:
        """Return the block of the rows ``(*trials, A)``: ``(*trials, A, width)``."""
        held = self._standard(gather_rows(self._rows, ids))
        return held if self._axes is None else held @ self._axes

    def logits(self, coefficients: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the logits ``(*trials, n, K)`` of a model with coefficients ``(*trials, width, K)``, of all rows.

        Args:
            coefficients: of the block's columns.
            rows: ``(n,)`` which rows; None: all.
        """
        of_columns = coefficients if self._axes is None else self._axes @ coefficients
        scaled = self._scale.transpose(-1, -2) * of_columns
        held = self._rows if rows is None else self._rows.index_select(-2, rows)
        return held @ scaled - self._center @ scaled

    def _standard(self, rows: Tensor) -> Tensor:
        return (rows - self._center) * self._scale


def _principal(rows: Tensor, count: int) -> Tensor:
    """Return the ``count`` main axes ``(*trials, d, count)`` of centered rows ``(*trials, N, d)``."""
    moments = rows.transpose(-1, -2).double() @ rows.double()
    axes: Tensor = torch.linalg.eigh(moments.nan_to_num()).eigenvectors
    return axes[..., -count:].to(rows.dtype)


def rows_of(seen: Recording) -> Tensor:
    """Return the gradient of each row's own loss, ``(*trials, N, d)`` in the order of the training split.

    What was received is the gradient of a batch's mean, so it is taken times the rows of its batch, or the rows of a
    smaller last batch would stand out.
    """
    return gather_rows(seen.gradients * seen.batch_rows.unsqueeze(-1), seen.ids.argsort(-1)).nan_to_num()


def log_norms(rows: Tensor) -> Tensor:
    """Return ``(*trials, N, 1)`` log lengths of rows, over their mean; a row of length 0 is among the quietest."""
    lengths = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    mean = lengths.mean(-2, keepdim=True)
    shares = torch.where((mean > 0) & torch.isfinite(mean), lengths / mean, 1.0)
    return shares.clamp(min=_QUIETEST).log()


def blocks_of(seen: Recording) -> tuple[dict[str, Block], Tensor]:
    """Return the blocks ``gradient``, ``direction`` and ``norm`` of a recording, and the directions themselves.

    Args:
        seen: of a moment in which every training row was sent once.
    """
    rows = rows_of(seen)
    directions = unit(rows)
    blocks = {
        "gradient": Block(rows, widest=WIDEST),
        "direction": Block(directions, widest=WIDEST),
        "norm": Block(log_norms(rows)),
    }
    return blocks, directions
