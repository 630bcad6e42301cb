"""Heads that say classes of rows from blocks of columns, fitted to a few labeled rows and compared on those alone.

The comparison is the attacker's own: the mean log loss on rows that were held out, folds by repeats. Accuracy would tie
on twenty rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tune_vfl.attacks.parts.logistic import fit_logistic, logits_of
from tune_vfl.protocol.folds import folds_of
from tune_vfl.protocol.members import gather_rows

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.blocks import Block
    from tune_vfl.protocol.view import Auxiliary
    from tune_vfl.seeds import Stream

FOLDS, REPEATS = 5, 3
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
NEIGHBORS = 5
_STEPS = 20
_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Labeled:
    """The labeled rows and the folds that they are held out in.

    Attributes:
        ids: ``(*trials, A)`` positions in the training split.
        y: ``(*trials, A)`` labels.
        held_out: ``(*trials, R, A)`` 1 where a row is held out of a fold, of all repeats one after the other.
        num_classes: K.
    """

    ids: Tensor
    y: Tensor
    held_out: Tensor
    num_classes: int

    @classmethod
    def draw(cls, known: Auxiliary, stream: Stream, num_classes: int) -> Labeled:
        """Draw the folds."""
        rows = known.ids.shape[-1]
        count = min(FOLDS, rows)
        y = known.labels.unsqueeze(-2)
        folds = folds_of(y.expand(*y.shape[:-2], REPEATS, rows), stream.uniform(REPEATS, rows), count)
        held_out = torch.stack([folds == f for f in range(count)], -2).flatten(-3, -2).float()
        return cls(known.ids, known.labels, held_out, num_classes)

    def log_loss(self, log_shares: Tensor) -> Tensor:
        """Return the mean loss of held-out rows ``(*trials, ...)``.

        Args:
            log_shares: ``(*trials, ..., R, A, K)`` log probabilities that the fits without each fold give.
        """
        extra = log_shares.dim() - self.held_out.dim() - 1
        y, held_out = (_after_trials(x, len(self.y.shape) - 1, extra) for x in (self.y.unsqueeze(-2), self.held_out))
        said = log_shares.gather(-1, y.unsqueeze(-1).expand(*log_shares.shape[:-1], 1)).squeeze(-1)
        return -(said * held_out).sum((-1, -2)) / (REPEATS * self.y.shape[-1])


def _after_trials(x: Tensor, lead: int, extra: int) -> Tensor:
    return x.view(*x.shape[:lead], *[1] * extra, *x.shape[lead:])


class Head(ABC):
    """A way to say classes, fitted.

    Attributes:
        name: of the variant.
        loss: ``(*trials,)`` its log loss on held-out labeled rows.
    """

    name: str
    loss: Tensor

    @abstractmethod
    def scores(self) -> Tensor:
        """Return class probabilities of all rows of the training split, ``(*trials, N, K)``."""


class LinearHead(Head):
    """A logistic regression on blocks, of the strength that held-out rows are said best with.

    Args:
        name: of the variant.
        blocks: what it reads.
        labeled: what it is fitted to.
    """

    def __init__(self, name: str, blocks: Sequence[Block], labeled: Labeled) -> None:
        self.name, self._blocks = name, blocks
        held = [block.at(labeled.ids) for block in blocks]
        self._widths = [x.shape[-1] for x in held]
        self._held = torch.cat(held, -1)
        self._root: Tensor | None = None
        rows = labeled.ids.shape[-1]
        if self._held.shape[-1] > rows:
            # A ridge-penalized model's coefficients lie in the span of the labeled rows: the root of their products
            # is the same model with as many columns as rows.
            products = (self._held @ self._held.transpose(-1, -2)).double().nan_to_num()
            tiny = 1e-6 * products.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=1e-6)
            diagonal = torch.eye(rows, dtype=torch.float64, device=products.device) * tiny[..., None, None]
            self._root = torch.linalg.cholesky(products + diagonal)
        self.columns = self._held.nan_to_num() if self._root is None else self._root.to(self._held.dtype)

    def take(self, coefficients: Tensor, loss: Tensor) -> None:
        """Take the coefficients ``(*trials, width + 1, K)`` that were found for :attr:`columns`, and their loss."""
        self.loss = loss
        self._intercept = coefficients[..., -1:, :]
        found = coefficients[..., : self.columns.shape[-1], :]
        if self._root is not None:
            dual = torch.linalg.solve_triangular(self._root.transpose(-1, -2), found.double(), upper=True)
            found = self._held.transpose(-1, -2) @ dual.to(found.dtype)
        self._coefficients = torch.split(found, self._widths, -2)

    def scores(self) -> Tensor:
        """Return class probabilities of all rows of the training split, ``(*trials, N, K)``."""
        parts = zip(self._blocks, self._coefficients, strict=True)
        logits = sum((block.logits(mine) for block, mine in parts), start=self._intercept)
        return logits.softmax(-1).nan_to_num()


def fit_alike(heads: Sequence[LinearHead], labeled: Labeled) -> None:
    """Fit heads, all in one pass: of as many columns as the widest has."""
    widest = max(head.columns.shape[-1] for head in heads)
    columns = torch.stack([pad(h.columns, (0, widest - h.columns.shape[-1])) for h in heads], -3)
    lead = labeled.y.dim() - 1
    y = _after_trials(labeled.y, lead, 1).expand(columns.shape[:-1])
    weights = torch.cat([1 - labeled.held_out, torch.ones_like(labeled.held_out[..., :1, :])], -2)
    weights = _after_trials(weights, lead, 1).expand(*columns.shape[:-2], *weights.shape[-2:])
    strengths = torch.tensor(STRENGTHS, device=columns.device)
    fitted = fit_logistic(columns, y, weights, strengths, num_classes=labeled.num_classes, steps=_STEPS)
    logits = logits_of(columns[..., None, None, :, :], fitted[..., :-1, :, :])
    loss = labeled.log_loss(logits.log_softmax(-1))  # (*trials, heads, strengths)
    best = loss.argmin(-1)
    whole = fitted[..., -1, :, :]
    at = best[..., None, None, None].expand(*best.shape, 1, *whole.shape[-2:])
    chosen = whole.gather(-3, at).squeeze(-3)
    for i, head in enumerate(heads):
        mine = chosen[..., i, :, :]
        width = head.columns.shape[-1]
        head.take(torch.cat([mine[..., :width, :], mine[..., -1:, :]], -2), loss[..., i, :].amin(-1))


class NearestHead(Head):
    """The shares of classes among the labeled rows of nearest direction; all of equally near ones have their say.

    Args:
        name: of the variant.
        directions: ``(*trials, N, d)`` of length 1 or 0.
        labeled: its neighbors.
    """

    def __init__(self, name: str, directions: Tensor, labeled: Labeled) -> None:
        self.name, self._directions = name, directions
        self._near = gather_rows(directions, labeled.ids)
        self._classes = one_hot(labeled.y, labeled.num_classes).to(directions.dtype)
        cosines = self._near @ self._near.transpose(-1, -2)
        # A row that is held out is nobody's neighbor in that fold.
        kept = cosines.unsqueeze(-3).masked_fill(labeled.held_out.unsqueeze(-2) > 0, -2.0)
        self.loss = labeled.log_loss(_shares(kept, self._classes.unsqueeze(-3)).log())

    def scores(self) -> Tensor:
        """Return class probabilities of all rows of the training split, ``(*trials, N, K)``."""
        parts = torch.split(self._directions, _CHUNK, -2)
        return torch.cat([_shares(part @ self._near.transpose(-1, -2), self._classes) for part in parts], -2)


def _shares(cosines: Tensor, classes: Tensor) -> Tensor:
    """Return ``(..., n, K)`` class shares among the nearest of each row, as if one more row had all classes alike.

    Args:
        cosines: ``(..., n, A)`` with each labeled row.
        classes: ``(..., A, K)`` one-hot.
    """
    count, k = min(NEIGHBORS, cosines.shape[-1]), classes.shape[-1]
    last = cosines.topk(count, -1).values[..., -1:]
    near = (cosines >= last - 1e-5).to(classes.dtype)
    return (near @ classes + 1 / k) / (near.sum(-1, keepdim=True) + 1)
