"""Linear heads that predict classes from blocks of columns, fitted and compared on a few labeled rows alone.

The comparison is the attacker's own: the mean log loss of labeled rows that were held out, five folds, three times
over. Accuracy would tie on twenty rows. Least squares, whose folds have a closed form, say which strength suits a head
and which heads are worth the folds of a logistic regression.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from tune_vfl.attacks.parts.blocks import Block
from tune_vfl.attacks.parts.folds import Labeled, root_of
from tune_vfl.attacks.parts.logistic import fit_logistic
from tune_vfl.protocol.members import gather_rows

STRENGTHS = (0.01, 0.3, 10.0)
NEIGHBORS = 5
SHORTLIST = 2
"""Of heads alike, so many get the folds of a logistic regression."""
SHARPNESS = 10.0
"""How much the blend prefers heads: by how many times, in logs, for a log loss that is less by 1."""
_RAREST = 1e-6
_STEPS = 12
_CHUNK = 4096


class Head(ABC):
    """A way to say classes, fitted.

    Attributes:
        name: of the variant.
        said: ``(*trials, REPEATS, K, A)`` log probabilities of the labeled rows, each by the fit without it.
        loss: ``(*trials,)`` the log loss of these; infinite where it was not on the shortlist.
    """

    name: str
    said: Tensor
    loss: Tensor

    @abstractmethod
    def scores(self) -> Tensor:
        """Return class probabilities of all rows of the training split, ``(*trials, N, K)``."""


class LinearHead(Head):
    """A logistic regression on blocks."""

    def __init__(self, name: str, blocks: Sequence[Block], labeled: Labeled) -> None:
        self.name, self._blocks = name, blocks
        held = [block.at(labeled.ids).nan_to_num() for block in blocks]
        self._widths = [x.shape[-1] for x in held]
        self._held = torch.cat(held, -1)
        self._root: Tensor | None = None
        rows = labeled.ids.shape[-1]
        if self._held.shape[-1] > rows:
            # A ridge-penalized model's coefficients lie in the span of the labeled rows: the root of their products
            # is the same model with as many columns as rows.
            products = (self._held @ self._held.transpose(-1, -2)).double()
            tiny = 1e-6 * products.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=1e-6)
            diagonal = torch.eye(rows, dtype=torch.float64, device=products.device) * tiny[..., None, None]
            self._root = root_of(products + diagonal)
        self.columns = self._held if self._root is None else self._root.to(self._held.dtype)

    def take(self, coefficients: Tensor, said: Tensor, loss: Tensor) -> None:
        """Take the coefficients ``(*trials, >= width + 1, K)`` found for :attr:`columns`, the intercept last."""
        self.said, self.loss = said, loss
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
        return shares_of(logits).nan_to_num()


def shares_of(logits: Tensor) -> Tensor:
    """Return the softmax along the last axis; for few classes torch's own takes several times as long."""
    raised = (logits - logits.amax(-1, keepdim=True)).exp_()
    return raised / raised.sum(-1, keepdim=True)


def fit_alike(heads: Sequence[LinearHead], labeled: Labeled, among: Sequence[float] = STRENGTHS) -> None:
    """Fit heads in one pass, each with the strength of ``among`` that suits it, and measure those that are best."""
    widest = max(head.columns.shape[-1] for head in heads)
    columns = torch.stack([pad(h.columns, (0, widest - h.columns.shape[-1])) for h in heads], -3)
    strengths = torch.tensor(among, device=columns.device)
    screened, strength = labeled.ridge_loss(columns, labeled.num_classes / strengths).min(-1)
    listed = screened.topk(min(SHORTLIST, len(heads)), dim=-1, largest=False).indices
    at = listed[..., None, None].expand(*listed.shape, *columns.shape[-2:])
    chosen = strengths[strength].unsqueeze(-1)
    heard = _said_of_held_out(columns.gather(-3, at), labeled, chosen.gather(-2, listed.unsqueeze(-1)))
    losses = torch.full_like(screened, torch.inf).scatter(-1, listed, labeled.log_loss(heard))
    places = listed[..., None, None, None].expand(heard.shape)
    said = heard.new_zeros(*screened.shape, *heard.shape[-3:]).scatter(-4, places, heard)
    whole = _fit(columns, labeled, torch.ones_like(labeled.y).unsqueeze(-2).float(), chosen)
    for i, head in enumerate(heads):
        head.take(whole[..., i, 0, 0, :, :], said[..., i, :, :, :], losses[..., i])


def _said_of_held_out(columns: Tensor, labeled: Labeled, strengths: Tensor) -> Tensor:
    """Return held-out predictions of logistic regressions of strengths ``(*trials, H, 1)``."""
    fitted = _fit(columns, labeled, 1 - labeled.held_out, strengths)
    weights = fitted.transpose(-1, -2)
    logits = weights[..., :-1] @ columns.transpose(-1, -2)[..., None, None, :, :] + weights[..., -1:]
    return labeled.said_of_held_out(logits).squeeze(-4)


def _fit(columns: Tensor, labeled: Labeled, weights: Tensor, strengths: Tensor) -> Tensor:
    """Fit heads ``(*trials, H, A, width)`` with row weights ``(*trials, F, A)`` that they share."""
    lead = labeled.y.dim() - 1
    y, weights = (x.unsqueeze(lead).expand(*columns.shape[:-2], *x.shape[lead:]) for x in (labeled.y, weights))
    return fit_logistic(columns, y, weights, strengths, num_classes=labeled.num_classes, steps=_STEPS)


class Blend(Head):
    """The weighted mean of heads' log probabilities; heads with better held-out predictions weigh more.

    Args:
        heads: of which at least one was measured.
        labeled: the labeled rows they were fitted to.
    """

    name = "blend"

    def __init__(self, heads: Sequence[Head], labeled: Labeled) -> None:
        self._heads = heads
        self._weights = (-SHARPNESS * torch.stack([head.loss for head in heads])).softmax(0)
        self.said = self._mean([head.said for head in heads]).log_softmax(-2)
        self.loss = labeled.log_loss(self.said)

    def scores(self) -> Tensor:
        """Return class probabilities of all rows of the training split, ``(*trials, N, K)``."""
        return self.of([head.scores() for head in self._heads])

    def of(self, scores: Sequence[Tensor]) -> Tensor:
        """Return :meth:`scores` from those of its heads ``(*trials, N, K)``, in order."""
        return shares_of(self._mean([s.clamp(min=_RAREST).log() for s in scores]))

    def _mean(self, logs: Sequence[Tensor]) -> Tensor:
        zero = torch.zeros_like(logs[0])
        for weight, log in zip(self._weights, logs, strict=True):
            zero += weight.view(*weight.shape, *[1] * (log.dim() - weight.dim())) * log
        return zero


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
        self._classes = labeled.targets
        cosines = self._near @ self._near.transpose(-1, -2)
        # Rows that are held out together are no neighbors.
        kept = torch.where(labeled.apart, cosines.unsqueeze(-3), -2.0)
        self.said = _shares(kept, self._classes.unsqueeze(-3)).log().transpose(-1, -2)
        self.loss = labeled.log_loss(self.said)

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
    rank = max(cosines.shape[-1] - NEIGHBORS, 0)
    last = torch.from_numpy(np.partition(cosines.numpy(), rank, axis=-1)[..., rank, None])
    near = (cosines >= last - 1e-5).to(classes.dtype)
    return (near @ classes + 1 / classes.shape[-1]) / (near.sum(-1, keepdim=True) + 1)
