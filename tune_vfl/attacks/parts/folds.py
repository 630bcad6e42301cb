"""Labeled rows, their folds of cross-validation, and the score of the rows held out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tune_vfl.protocol.folds import folds_of
from tune_vfl.protocol.view import Auxiliary
from tune_vfl.seeds import Stream

FOLDS, REPEATS = 5, 3
_ROUNDING = 1e-6  # of a matrix's trace, which no eigenvalue exceeds: some units of single precision
SHARPER = (1.0, 3.0, 9.0)
"""Factors of a least-squares fit's logits, of which the best is taken: it is less sure of rows than it could be."""


@dataclass(frozen=True, eq=False)
class Labeled:
    """Labeled rows and their folds, those of all repeats one after the other.

    Attributes:
        ids: ``(*trials, A)`` positions in the training split.
        y: ``(*trials, A)`` labels.
        places: ``(*trials, R, m)`` which of the labeled rows each fold holds out; A in the place of a missing last one.
        num_classes: K.
    """

    ids: Tensor
    y: Tensor
    places: Tensor
    num_classes: int

    @classmethod
    def draw(cls, known: Auxiliary, stream: Stream, num_classes: int) -> Labeled:
        """Draw the folds: sizes and class shares differ by at most one row."""
        rows = known.ids.shape[-1]
        count = min(FOLDS, rows)
        y = known.labels.unsqueeze(-2)
        folds = folds_of(y.expand(*y.shape[:-2], REPEATS, rows), stream.uniform(REPEATS, rows), count)
        sizes = [len(range(f, rows, count)) for f in range(count)]
        parts = torch.split(folds.argsort(dim=-1, stable=True), sizes, -1)
        places = torch.stack([pad(p, (0, sizes[0] - p.shape[-1]), value=rows) for p in parts], -2)
        return cls(known.ids, known.labels, places.flatten(-3, -2), num_classes)

    @property
    def targets(self) -> Tensor:
        """``(*trials, A, K)`` one-hot labels."""
        return one_hot(self.y, self.num_classes).float()

    @property
    def held_out(self) -> Tensor:
        """``(*trials, R, A)``: 1 where a fold holds a row out."""
        rows = self.y.shape[-1]
        zeros = self.places.new_zeros(*self.places.shape[:-1], rows + 1, dtype=torch.float32)
        return zeros.scatter(-1, self.places, 1.0)[..., :rows]

    @property
    def apart(self) -> Tensor:
        """``(*trials, REPEATS, A, A)`` bool: rows that are in different folds of a repeat."""
        by_repeat = self.held_out.view(*self.y.shape[:-1], REPEATS, -1, self.y.shape[-1])
        return torch.matmul(by_repeat.transpose(-1, -2), by_repeat) == 0

    def said_of_held_out(self, logits: Tensor) -> Tensor:
        """Return held-out predictions of each row: log probabilities ``(*trials, ..., REPEATS, K, A)``.

        Args:
            logits: ``(*trials, ..., R, K, A)`` of all rows under the fits without each fold.
        """
        mask = self._among(self.held_out, logits.dim() - self.places.dim() - 1).unsqueeze(-2)
        heard = logits * mask
        own = heard.view(*heard.shape[:-3], REPEATS, -1, *heard.shape[-2:]).sum(-3)
        return own - own.logsumexp(-2, keepdim=True)

    def log_loss(self, said: Tensor) -> Tensor:
        """Return the mean log loss ``(*trials, ...)`` of :meth:`said_of_held_out`."""
        target = self._among(self.targets.transpose(-1, -2), said.dim() - self.y.dim() - 1)
        return -(said * target).sum(-2).mean((-1, -2))

    def ridge_loss(self, columns: Tensor, penalties: Tensor) -> Tensor:
        """Return the log loss of least-squares fits ``(*trials, H, S)`` in the first repeat, in closed form.

        Logits are those of the first Newton step of a logistic regression with ``C = K / penalty``, made as sharp as
        suits them best. What a fit without some rows says of them follows from the fit with all: with P the map from
        labels to what is fitted, the residuals r of these rows become ``(1 - P)^-1 r``.

        Args:
            columns: ``(*trials, H, A, width)``.
            penalties: ``(S,)``.
        """
        lead, rows, k = self.y.shape[:-1], self.y.shape[-1], self.num_classes
        centered = (columns - columns.mean(-2, keepdim=True)).unsqueeze(-3)
        moments = centered.transpose(-1, -2) @ centered
        eye = torch.eye(moments.shape[-1], device=columns.device)
        root = root_of(moments + penalties.view(-1, 1, 1) * eye)
        half = torch.linalg.solve_triangular(root, centered.transpose(-1, -2), upper=False).transpose(-1, -2)
        half = pad(half, (0, 1), value=rows**-0.5)  # P = half half', the last column being the intercept's
        target = self._among(self.targets, 2)
        residual = target - half @ (half.transpose(-1, -2) @ target)
        places = self.places[..., : self.places.shape[-2] // REPEATS, :]
        heads, (folds, size) = half.shape[len(lead) : -2], places.shape[-2:]
        at = self._among(places, 2).expand(*lead, *heads, folds, size)
        flat = at.flatten(-2).unsqueeze(-1)

        def by_fold(x: Tensor) -> Tensor:
            whole = pad(x, (0, 0, 0, 1)).expand(*lead, *heads, rows + 1, x.shape[-1])
            return whole.gather(-2, flat.expand(*flat.shape[:-1], x.shape[-1])).view(*at.shape, x.shape[-1])

        mine, left, truth = by_fold(half), by_fold(residual), by_fold(target)
        outside = torch.eye(size, device=half.device) - mine @ mine.transpose(-1, -2)
        without = torch.cholesky_solve(left, root_of(outside))
        logits = (k * (truth - without)).transpose(-1, -2).contiguous()
        truth = truth.transpose(-1, -2)
        own, real = (logits * truth).sum(-2), truth.sum(-2)
        losses = [((logits * s).logsumexp(-2) * real - own * s).sum((-1, -2)) for s in SHARPER]
        return torch.stack(losses).amin(0) / rows

    def _among(self, x: Tensor, extra: int) -> Tensor:
        """Put ``extra`` axes of length 1 behind the leading ones."""
        lead = self.y.dim() - 1
        return x.reshape(*x.shape[:lead], *[1] * extra, *x.shape[lead:])


def root_of(matrices: Tensor) -> Tensor:
    """Return Cholesky's roots of matrices that are positive definite but for the rounding of their own entries.

    Few labels, and columns of few distinct values as discrete defenses make them, leave eigenvalues near zero, which
    rounding turns negative. Only matrices without a root get as much on their diagonal as rounding may have taken.

    Args:
        matrices: ``(..., n, n)``.

    Raises:
        torch.linalg.LinAlgError: for a matrix far from positive definite.
    """
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(matrices)
    if not failed.any():
        return root
    lifted = matrices.to(torch.float64, copy=True)
    lifted.diagonal(dim1=-2, dim2=-1).add_(_ROUNDING * lifted.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True))
    whole = (failed == 0)[..., None, None]
    # A root that exists is not computed again, so that no member of a pack changes with its neighbors.
    again = torch.linalg.cholesky(torch.where(whole, torch.eye(lifted.shape[-1]).to(lifted), lifted))
    return torch.where(whole, root, again.to(root.dtype))
