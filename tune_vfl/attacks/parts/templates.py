"""Class templates of gradients that move slowly over a training, and the evidence of each row's visits."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tune_vfl.attacks.parts.columns import shrunk
from tune_vfl.attacks.parts.folded_rows import others

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.visits_by_step import VisitsByStep

KNOTS = (0.0, 0.5, 1.25, 2.5, 5.0, 9.0, 16.0, 30.0, 60.0)
"""Epochs between which templates are linear; the end of the training is another one."""
SMOOTH, RIDGE, RIDGE_OF_REST = 0.1, 1e-3, 1e-6
"""Penalties on the difference of neighboring knots, on templates and on the rest, in units of a class's weight."""
MIXED = 0.2
"""Share of the shape of both classes' noise in that of either."""
EVEN = 1e-3
"""Share of noise of one size in such a shape: what is narrow in most directions may tell the classes by these alone."""
OF_SHAPES = 0.03
"""Power of a class's own shape where rows are blurred between the classes."""
QUIET = 0.03
"""The least noise of a step, in units of the gradients' mean square: where nearly nothing is sent rounding is left."""


class Templates:
    """Maps class probabilities of rows to the evidence of their gradients.

    The gradient of a visit is taken to be ``A(t) [1, embedding] + M(t) [class] + noise(s_t)``: A and the templates M
    are linear between :data:`KNOTS`, and the noise of a step has one size, measured from that step's residuals. A
    row's evidence is computed with templates of the other folds.

    Args:
        visits: gradients and embeddings.
        num_classes: K.
    """

    def __init__(self, visits: VisitsByStep, num_classes: int) -> None:
        self._visits, self._classes = visits, num_classes
        self._hats = hats(visits.times, knots_of(visits.times))
        self._products = visits.columns.mT @ visits.columns  # (T, S, F, w, w)
        whole, p = self._products.sum(2), visits.explaining
        self._rows = whole[..., 0, 0].clamp(min=1)
        self._width = visits.columns.shape[-1] - p
        spread = whole[..., p:, p:].diagonal(dim1=-1, dim2=-2).sum(-1)
        self._noise = (spread / self._rows / self._width).clamp(min=1e-12)

    def of_members(self, members: Tensor) -> Templates:
        """Return those of some members, by position or mask, with the noise as it was measured last."""
        found = copy(self)
        found._visits = self._visits.of_members(members)
        found._products, found._rows, found._noise = (x[members] for x in (self._products, self._rows, self._noise))
        return found

    def evidence(self, shares: Tensor, known: Tensor | None = None) -> list[Tensor]:
        """Return log likelihoods of the classes, each ``(T, n, K)``, up to a constant of each row.

        The first takes the noise to be of one size in all columns, the second of the shape that residuals have. Of two
        classes a third one lets each class have a variance of its own along the difference of the templates, and a
        fourth one a shape of its own in all columns, since a defense's noise may depend on the class.

        Args:
            shares: ``(T, n, K)`` class probabilities; 0 of all classes for a row that is not to count.
            known: ``(T, n)`` 1 for the rows that count, if not all do; the noise then stays as it was measured last,
                and the first likelihood is the only one.
        """
        sums, products = self._class_sums(shares), self._products
        if known is not None:
            columns = self._visits.columns
            products = (columns * self._visits.gather(known.unsqueeze(-1))).mT @ columns
        p = self._visits.explaining
        own = _System.of(products, sums, p)
        rest = _System(*(others(part, 2) for part in own))
        fitted = self._solved(rest)
        if known is not None:
            return [self._visits.total(self._visits.columns @ self._weights(fitted, fitted))]
        precision = self._measured(own, rest, fitted)
        weights = [self._weights(fitted, fitted), self._weights(fitted, fitted @ precision)]
        said = self._visits.columns @ torch.cat(weights, -1)
        found = list(self._visits.total(said).chunk(2, -1))
        if self._classes == 2:
            more = (self._curved(said[..., :2], shares), self._shaped(fitted, shares))
            found += [self._visits.total(one) for one in more]
        return found

    def _measured(self, own: _System, rest: _System, fitted: Tensor) -> Tensor:
        """Measure the noise from what the templates of other folds leave of gradients; return its precision by fold.

        The size is each step's own, by the rows of each fold. The shape moves slowly, and is that of the rows of the
        other folds, left by the same templates: no row's own label is in it.
        """
        left = own.left(fitted).sum(2)
        self._noise = (left / self._rows / self._width).clamp(min=QUIET)
        left_of_others = rest.products_left(fitted) / self._noise[..., None, None, None]
        by_knot = torch.einsum("sa,tsfde->tafde", self._hats, left_of_others)
        by_knot = (by_knot + by_knot.mT) / 2
        counts = torch.einsum("sa,tsfk->taf", self._hats, rest.counts)
        shape = by_knot / counts.clamp(min=1e-6)[..., None, None]
        return torch.einsum("sa,tafde->tsfde", self._hats, torch.linalg.inv(shrunk(shape.double())).float())

    def _class_sums(self, shares: Tensor) -> Tensor:
        """Return ``(T, S, F, K, w)`` sums of the visits' columns times the class probabilities of their rows."""
        return self._visits.gather(shares).mT @ self._visits.columns

    def _solved(self, system: _System) -> Tensor:
        """Return slopes and templates at each step, ``(T, S, F, p + K, d)``."""
        p, knots, size = self._visits.explaining, self._hats.shape[-1], system.matrix.shape[-1]
        weight = 1 / self._noise
        pairs = torch.einsum("sa,sb,ts->tabs", self._hats, self._hats, weight).flatten(1, 2)
        members, _, folds = system.matrix.shape[:3]
        matrix = (pairs @ system.matrix.flatten(2)).view(members, knots, knots, folds, size, size)
        matrix = matrix.permute(0, 3, 1, 4, 2, 5).reshape(members, folds, knots * size, knots * size).double()
        one = torch.einsum("sa,ts->tas", self._hats, weight)
        right = (one @ system.cross.flatten(2)).view(members, knots, folds, size, -1)
        right = right.transpose(1, 2).flatten(2, 3).double()
        typical = torch.einsum("tsfk,ts->tf", system.counts, weight).double() / self._classes / knots
        ridge = torch.tensor([RIDGE_OF_REST] * p + [RIDGE] * self._classes, dtype=torch.float64).repeat(knots)
        penalty = (typical.clamp(min=1e-30))[..., None, None] * (SMOOTH * roughness(knots, size) + ridge.diag())
        fitted = torch.linalg.solve(matrix + penalty, right).float().view(members, folds, knots, size, -1)
        return torch.einsum("sa,tfaid->tsfid", self._hats, fitted)

    def _weights(self, fitted: Tensor, shaped: Tensor) -> Tensor:
        """Return the weights ``(T, S, F, w, K)`` of a visit's columns in its evidence of the classes.

        That is ``(r . P M_k - M_k . P M_k / 2) / s_t^2``, where r is the gradient less its slopes.

        Args:
            fitted: ``(T, S, F, p + K, d)`` slopes and templates.
            shaped: the same times the precision P of the noise's shape.
        """
        p = self._visits.explaining
        slopes, templates, shaped = fitted[..., :p, :], fitted[..., p:, :], shaped[..., p:, :]
        along = -(slopes @ shaped.mT)
        along[..., :1, :] -= (shaped * templates).sum(-1).unsqueeze(-2) / 2
        return torch.cat([along, shaped.mT], -2) / self._noise[:, :, None, None, None]

    def _curved(self, said: Tensor, shares: Tensor) -> Tensor:
        """Return log densities of two classes, of scores ``(T, S, F, B, 2)`` of visits: those of the other folds."""
        score, held = said[..., 1] - said[..., 0], self._visits.gather(shares)
        powers = torch.stack([others((held * score.unsqueeze(-1) ** power).sum(-2), 2) for power in range(3)])
        count, first, second = torch.einsum("sa,xtsfk->xtafk", self._hats, powers)
        count = count.clamp(min=1)
        mean = first / count
        spread = (second / count - mean.square()).clamp(min=1e-12)
        mean, spread = (torch.einsum("sa,tafk->tsfk", self._hats, x).unsqueeze(-2) for x in (mean, spread))
        return -((score.unsqueeze(-1) - mean).square() / spread + spread.log()) / 2

    def _shaped(self, fitted: Tensor, shares: Tensor) -> Tensor:
        """Return log densities ``(T, S, F, B, 2)`` of two classes whose gradients have a mean and a shape of their own.

        Both move slowly, and are those of the rows of the other folds, left by the same slopes. A class that sends
        nearly nothing for a while has no shape: then nothing is said.
        """
        columns, p = self._visits.columns, self._visits.explaining
        eye = torch.eye(self._width)
        left = torch.cat([-fitted[..., :p, :], eye.expand(*fitted.shape[:3], -1, -1)], -2)
        left = left / self._noise.sqrt()[..., None, None, None]
        second = (columns * self._visits.gather(shares[..., 1:])).mT @ columns
        by_class = torch.stack([self._products - second, second])
        rest = others(by_class, 3)
        sums = [rest[..., 0, :1], (rest[..., :1, :] @ left).squeeze(-2), left.mT @ rest @ left]
        count, first, product = (torch.einsum("sa,xts...->xta...", self._hats, part) for part in sums)
        count = count.clamp(min=1)
        mean = first / count
        own = product / count.unsqueeze(-1) - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        common = (own * count.unsqueeze(-1)).sum(0) / count.sum(0).unsqueeze(-1)
        shape = shrunk(((1 - MIXED) * own + MIXED * common + 1e-6 * eye).double(), EVEN)
        width = own.diagonal(dim1=-1, dim2=-2).mean(-1)
        silent = ((width < QUIET) & (count.squeeze(-1) > 1)).movedim(1, 0).flatten(1).any(-1)
        size = torch.logdet(shape).float()
        precisions = torch.einsum("sa,xta...->xts...", self._hats.double(), torch.linalg.inv(shape))
        roots, found = torch.linalg.cholesky_ex(precisions).L.float(), []
        for root, *by_knot in zip(roots, mean, size, strict=True):
            middle, volume = (torch.einsum("sa,ta...->ts...", self._hats, x).unsqueeze(-1) for x in by_knot)
            weights = left @ root  # a product with them is of the length that the density asks for
            weights[..., :1, :] -= middle.mT @ root
            found.append(-((columns @ weights).square().sum(-1) + volume) / 2)
        return torch.where(silent[:, None, None, None, None], 0.0, torch.stack(found, -1))


class ClassShapes:
    """Evidence of the mean and shape that each of two classes' gradients have, at a fixed power.

    Where each row's gradient is that of a number of its own between the classes, visits of a row err alike: the
    evidence of many visits is much too sure of itself, and agreement with own columns that say little does not show it.

    Args:
        templates: of two classes.
    """

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def of_members(self, members: Tensor) -> ClassShapes:
        """Return those of some members, by position or mask."""
        return ClassShapes(self._templates.of_members(members))

    def evidence(self, shares: Tensor) -> list[Tensor]:
        """Return log likelihoods of the classes ``(T, n, 2)``, tempered, of class probabilities ``(T, n, 2)``."""
        return [OF_SHAPES * self._templates.evidence(shares)[-1]]


class _System(NamedTuple):
    """Normal equations of each step and fold.

    Attributes:
        matrix: ``(T, S, F, p + K, p + K)`` products of explaining columns and classes.
        cross: ``(T, S, F, p + K, d)`` their products with gradients.
        counts: ``(T, S, F, K)`` rows of each class.
        squares: ``(T, S, F, d, d)`` products of the gradients.
    """

    matrix: Tensor
    cross: Tensor
    counts: Tensor
    squares: Tensor

    @classmethod
    def of(cls, products: Tensor, sums: Tensor, p: int) -> _System:
        # A row is of one class alone, only of which one is not known: the expected products of two classes are 0.
        counts = sums[..., 0]
        upper = torch.cat([products[..., :p, :p], sums[..., :p].mT], -1)
        lower = torch.cat([sums[..., :p], torch.diag_embed(counts)], -1)
        cross = torch.cat([products[..., :p, p:], sums[..., p:]], -2)
        return cls(torch.cat([upper, lower], -2), cross, counts, products[..., p:, p:])

    def left(self, fitted: Tensor) -> Tensor:
        """Return ``(T, S, F)`` squares of what slopes and templates, ``(T, S, F, p + K, d)``, leave, summed."""
        explained = (fitted * (self.matrix @ fitted - 2 * self.cross)).sum((-1, -2))
        return self.squares.diagonal(dim1=-1, dim2=-2).sum(-1) + explained

    def products_left(self, fitted: Tensor) -> Tensor:
        """Return ``(T, S, F, d, d)`` products of what is left, as a matrix whose symmetric part they are."""
        return self.squares + fitted.mT @ (self.matrix @ fitted - 2 * self.cross)


def knots_of(times: Tensor, among: Sequence[float] = KNOTS) -> Tensor:
    """Return those of some knots that come well before the end of a training with steps at these times, and its end."""
    end = float(times.max()) + float(times.diff()[-1:].sum())
    return torch.tensor([0.0, *(k for k in among[1:] if k < 0.9 * end), max(end, 1e-3)])


def roughness(knots: int, size: int) -> Tensor:
    """Return the matrix of the squared differences between neighboring knots, of ``size`` numbers at each."""
    steps = torch.eye(knots, dtype=torch.float64).diff(dim=0)
    return torch.kron(steps.mT @ steps, torch.eye(size, dtype=torch.float64))


def hats(times: Tensor, knots: Tensor | Sequence[float]) -> Tensor:
    """Return weights ``(S, Q)`` by which values at knots give those at times, linear in between.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks.parts.templates import hats
        >>> hats(torch.tensor([0.0, 0.5, 3.0]), [0.0, 2.0, 4.0]).tolist()
        [[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]
    """
    at = torch.as_tensor(knots)
    left = (torch.searchsorted(at, times, right=True) - 1).clamp(0, len(at) - 2)
    share = ((times - at[left]) / (at[left + 1] - at[left])).clamp(0, 1).unsqueeze(-1)
    found = times.new_zeros(len(times), len(at))
    found.scatter_(-1, left.unsqueeze(-1), 1 - share)
    return found.scatter_add_(-1, left.unsqueeze(-1) + 1, share)
