"""An attacker's coordinates of a row: features, the input of the bottom model's last layer, the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tune_vfl.models.joined import JoinedBottoms
from tune_vfl.models.layers import Linear
from tune_vfl.protocol.members import gather_rows

GROUP_WEIGHT = 32.0
"""Summed variance of each group of columns: a wide group must not drown a narrow one in a ridge penalty."""
_SAMPLED = 4096


class RowCoordinates:
    """Maps rows to coordinates in which a ridge-penalized linear model of the labeled rows can be fitted.

    Columns are standardized by a sample of the rows and weighted so that each group counts as much as any other. Such a
    model's coefficients lie in the span of the labeled rows, so rows are expressed in an orthonormal basis of it: the
    same model, with as many columns as there are labeled rows at most.

    Args:
        bottom: the attacker's bottom model, in eval mode.
        x: ``(*trials, n, ...)`` its features.
        labeled: ``(*trials, A)`` which rows have labels.
    """

    def __init__(self, bottom: nn.Module, x: Tensor, labeled: Tensor) -> None:
        self._bottom, self._axis = bottom, labeled.dim() - 1
        # A view: selecting by an index would first copy all rows for each member that shares them.
        every = slice(None, None, max(1, x.shape[self._axis] // _SAMPLED))
        sample = self._groups(x[(slice(None),) * self._axis + (every,)])
        self._centers = [g.mean(-2, keepdim=True) for g in sample]
        self._scales = [_scale(g) for g in sample]
        self._basis: Tensor | None = None
        known = self(gather_rows(x, labeled))
        if known.shape[-1] > known.shape[-2]:
            self._basis = torch.linalg.svd(known, full_matrices=False).Vh.transpose(-1, -2)

    def __call__(self, x: Tensor) -> Tensor:
        """Map rows ``(*trials, n, ...)`` to ``(*trials, n, width)``."""
        parts = zip(self._groups(x), self._centers, self._scales, strict=True)
        held = torch.cat([(group - center) * scale for group, center, scale in parts], -1)
        return held if self._basis is None else held @ self._basis

    @torch.no_grad()
    def _groups(self, x: Tensor) -> list[Tensor]:
        hidden: dict[nn.Module, Tensor] = {}  # what each layer got when it was first called
        bottoms = self._bottom.parts if isinstance(self._bottom, JoinedBottoms) else [self._bottom]
        last = [m for b in bottoms for m in _linear_layers(b)[-1:]]

        def note(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            hidden.setdefault(layer, given[0])

        handles = [m.register_forward_pre_hook(note) for m in last]
        embedding = self._bottom(x)
        for handle in handles:
            handle.remove()
        # Tokens of a text stand for words: their numbers mean nothing.
        own = [x.flatten(self._axis + 1)] if x.is_floating_point() else []
        # A member whose training diverged must not disturb the others of its pack.
        inputs = [hidden[m].flatten(self._axis + 1) for m in last if m in hidden]
        return [g.nan_to_num() for g in (*own, *([torch.cat(inputs, -1)] if inputs else []), embedding)]


def _linear_layers(bottom: nn.Module) -> list[nn.Module]:
    return [m for m in bottom.modules() if isinstance(m, (Linear, nn.Linear))]


def _scale(group: Tensor) -> Tensor:
    spread = group.std(-2, keepdim=True)
    weight = (GROUP_WEIGHT / group.shape[-1]) ** 0.5
    return torch.where(spread > 0, weight / spread, 0.0)
