"""Kernel ridge regression of labels on an attacker's own columns, every row scored by the fit without it.

The kernel is a Gaussian one plus a linear one. A landmark is a row to which all others are compared; a few hundred
turn the kernel into as many columns, whose eigenvectors then give every fit, every ridge and every leave-one-out score
in closed form. Soft labels of all rows are fitted as easily as a few known ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tune_vfl.attacks.parts.columns import WIDEST, evenly, principal, ranked, standardized
from tune_vfl.attacks.parts.nearest_rows import by_nearest_rows
from tune_vfl.protocol.granted import Auxiliary

LANDMARKS = 300
"""Rows, evenly spread over the order of the split, to which rows are compared; of few rows every third one."""
RIDGES = tuple(10 ** (-4 + step / 2) for step in range(12))
"""Ridges, in units of a row's mean square, of which leave-one-out errors choose one."""
SHARPNESS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Factors that turn least-squares scores into logits, of which the likeliest is taken."""
SURE = 3.0
"""Standard errors by which leave-one-out errors must be smaller with nearest rows for these to be used."""
_LEAST, _OUTSIDE, _PRECISION = 1e-6, 1e-3, 1e-6


class ColumnRegression:
    """Logits of the classes by own columns, of members side by side.

    Args:
        sets: columns ``(T, N, m)`` of every training row; of several sets each member takes the one of least
            leave-one-out error.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks.parts.own_columns import ColumnRegression
        >>> x = torch.linspace(-1, 1, 40).view(1, 40, 1)
        >>> said = ColumnRegression.of([x]).by_known(torch.tensor([[5, 30]]), torch.tensor([[0, 1]]), num_classes=2)
        >>> said.argmax(-1)[0, [0, 10, 35]].tolist()
        [0, 0, 1]
    """

    def __init__(self, *sets: Tensor) -> None:
        self._sets = sets
        self._kernels = [_Kernel(columns) for columns in sets]

    @property
    def columns(self) -> Tensor:
        """Columns ``(T, N, m)`` of the last set."""
        return self._sets[-1]

    @classmethod
    def of(cls, *sets: Sequence[Tensor]) -> Self:
        """Return a regression on groups of columns ``(T, N, ...)``: however wide, one weighs as much as another."""
        return cls(*(torch.cat([_weighed(group) for group in groups], -1) for groups in sets))

    @classmethod
    def held(cls, x: Tensor, *made: Tensor, known: tuple[Tensor, Tensor, int]) -> Self:
        """Return that of features ``(T, N, ...)``: alone, and beside what was made of them or received for them.

        Tokens of a text stand for words: their numbers mean nothing, and are left out. Of others ranks are taken.
        Members whose known rows are beyond doubt told better by them take the features' nearest rows in.

        Args:
            x: features.
            made: further groups ``(T, N, ...)``.
            known: what :meth:`by_known` takes.
        """
        own = [_weighed(ranked(x.flatten(2)))] if x.is_floating_point() else []
        beside = [*own, *map(_weighed, made)]
        plain = cls(*own, *([torch.cat(beside, -1)] if made else []))
        if not own:
            return plain
        near = cls(torch.cat([*beside, by_nearest_rows(x)], -1))
        ids, labels, num_classes = known
        target = one_hot(labels, num_classes).float()
        fall = plain._of_few(ids, target)[1] - near._of_few(ids, target)[1]
        spread, mean = torch.std_mean(fall, -1)
        sure = (mean > 0) & (mean > SURE * spread / fall.shape[-1] ** 0.5)
        if not sure.any():
            return plain
        if sure.all():
            return near
        (columns,) = near._sets
        # A column of zeros changes no distance and no product: members are side by side whichever columns they take.
        filled = [pad(columns_of, (0, columns.shape[-1] - columns_of.shape[-1])) for columns_of in plain._sets]
        return cls(*(torch.where(sure[:, None, None], columns, columns_of) for columns_of in filled))

    def beside(self, *more: Tensor) -> Self:
        """Return a regression on the columns of the last set and more groups ``(T, N, ...)``."""
        return type(self)(torch.cat([self._sets[-1], *map(_weighed, more)], -1))

    def by_known(self, ids: Tensor, labels: Tensor, num_classes: int) -> Tensor:
        """Return logits ``(T, N, K)`` fitted to a few known rows; those of a known row are the fit's without it.

        Args:
            ids: ``(T, A)`` positions of known rows.
            labels: ``(T, A)`` their classes.
            num_classes: K.
        """
        target = one_hot(labels, num_classes).float()
        scores, _ = self._of_few(ids, target)
        known = scores.gather(-2, ids.unsqueeze(-1).expand_as(target))
        said = [(target * (known * s).log_softmax(-1)).sum((-1, -2)) for s in SHARPNESS]
        return scores * torch.tensor(SHARPNESS)[torch.stack(said, -1).argmax(-1)][:, None, None]

    def by_all(self, shares: Tensor) -> Tensor:
        """Return scores ``(T, N, K)`` fitted to class probabilities ``(T, N, K)`` of all rows, each without its own.

        They estimate probabilities, and may lie outside of 0 and 1: times a number they are logits.
        """
        return self.of_all.scores(shares)

    @cached_property
    def of_all(self) -> RegressionOfAll:
        """The regression to class probabilities of all rows, whose eigenvectors are found once."""
        return RegressionOfAll([kernel.whole() for kernel in self._kernels])

    def _of_few(self, ids: Tensor, target: Tensor) -> Fitted:
        return _best([kernel.by_few(ids, target) for kernel in self._kernels])


def by_columns(x: Tensor, known: Auxiliary, num_classes: int) -> Tensor:
    """Return logits ``(*trials, N, K)`` by columns ``(*trials, N, d)``, those of a known row by the other ones."""
    ids, labels = (t.reshape(-1, t.shape[-1]) for t in (known.ids, known.labels))
    taught = (ids, labels, num_classes)
    rows = x.reshape(len(ids), *x.shape[-2:])
    said = ColumnRegression.held(rows, known=taught).by_known(*taught)
    return said.view(*x.shape[:-1], num_classes)


class RegressionOfAll:
    """Scores by own columns, fitted to class probabilities of all rows, of members side by side.

    Args:
        spectra: of each set of columns.
    """

    def __init__(self, spectra: Sequence[_Spectrum]) -> None:
        self._spectra = spectra

    def scores(self, shares: Tensor) -> Tensor:
        """Return what :meth:`ColumnRegression.by_all` says: each member's fit of least mean error."""
        fits = [spectrum.fitted(shares) for spectrum in self._spectra]
        best: list[int] = _least(torch.stack([fit.errors for fit in fits])).tolist()
        if len(set(best)) == 1:
            return fits[best[0]].left_out(shares)
        return torch.cat([fits[of].of_member(m).left_out(shares[m : m + 1]) for m, of in enumerate(best)])

    def of_members(self, members: Tensor) -> RegressionOfAll:
        """Return that of some members, by position or mask."""
        return RegressionOfAll([spectrum.of_members(members) for spectrum in self._spectra])


Fitted = tuple[Tensor, Tensor]
"""Scores ``(T, N, K)`` and leave-one-out errors ``(T, n)`` of rows, some of all or the known ones."""


class _Kernel:
    """A kernel by its columns: products of rows are its values. Members that share a seed's rows share one.

    Args:
        columns: ``(T, N, m)`` of every row.
    """

    def __init__(self, columns: Tensor) -> None:
        columns, self._of = torch.unique(columns, dim=0, return_inverse=True)
        features = torch.cat([_gaussian(columns), columns], -1)
        self.features = features - features.mean(-2, keepdim=True)  # of members that differ, (D, N, m)
        self.unit = self.features.square().sum((-1, -2)).unsqueeze(-1) / columns.shape[-2]  # (D, 1)

    def whole(self) -> _Spectrum:
        """Return the spectrum of all rows."""
        values, axes = torch.linalg.eigh(self.features.mT @ self.features)
        values = values.clamp(min=_PRECISION * values.amax(-1, keepdim=True).clamp(min=1e-30))
        main = self.features @ (axes * values.rsqrt().unsqueeze(-2))
        return _Spectrum(main, values, self.unit).of_members(self._of)

    def by_few(self, ids: Tensor, target: Tensor) -> Fitted:
        features, at = self.features[self._of], ids.unsqueeze(-1)
        known = features.gather(-2, at.expand(*ids.shape, features.shape[-1]))
        center, mean = known.mean(-2, keepdim=True), target.mean(-2, keepdim=True)
        known = known - center
        values, axes = torch.linalg.eigh((known @ known.mT).double())
        few = _Spectrum(axes.float(), values.clamp(min=0).float(), self.unit[self._of])
        fit = few.fitted(target)
        weights = known.mT @ (few.main @ (fit.along / few.values.clamp(min=1e-30).unsqueeze(-1)))
        scores = features @ weights - center @ weights + mean
        return scores.scatter(-2, at.expand(*ids.shape, target.shape[-1]), fit.left_out(target)), fit.errors


class _Spectrum:
    """Ridge regressions on orthonormal columns.

    Args:
        main: ``(T, n, m)`` eigenvectors of the kernel.
        values: ``(T, m)`` its eigenvalues.
        unit: ``(T, 1)`` the mean square of a row.
    """

    def __init__(self, main: Tensor, values: Tensor, unit: Tensor) -> None:
        self.main, self.values = main, values
        ridges = torch.tensor(RIDGES) * unit.unsqueeze(-1)
        self._kept = values.unsqueeze(-1) / (values.unsqueeze(-1) + ridges).clamp(min=1e-30)  # (T, m, R)
        self._own = main.square() @ self._kept + 1 / main.shape[-2]  # (T, n, R): a row's part in its own fit

    def of_members(self, members: Tensor) -> _Spectrum:
        """Return that of some members, by position or mask."""
        found = copy(self)
        found.main, found.values, found._kept, found._own = (
            part[members] for part in (self.main, self.values, self._kept, self._own)
        )
        return found

    def fitted(self, target: Tensor) -> _Ridge:
        """Return the fit to class probabilities ``(T, n, K)`` at the ridge of least error on rows evenly spread."""
        at = evenly(target.shape[-2], LANDMARKS)  # errors of so many rows say which ridge is best
        mean = target.mean(-2, keepdim=True)
        along = _few(self.main.mT, target - mean)
        wanted, own = target[:, at].unsqueeze(-2), self._own[:, at].unsqueeze(-1)
        by_ridge = self.main[:, at] @ (self._kept.unsqueeze(-1) * along.unsqueeze(-2)).flatten(-2)
        fits = by_ridge.view(*own.shape[:-1], -1) + mean.unsqueeze(-2)  # (T, n, R, K)
        errors = ((fits - own * wanted) / (1 - own).clamp(min=_OUTSIDE) - wanted).square().mean(-1)
        best = errors.mean(1).nan_to_num(torch.inf).argmin(-1)
        least, kept, own = (x[torch.arange(len(best)), :, best] for x in (errors, self._kept, self._own))
        return _Ridge(self.main, kept.unsqueeze(-1) * along, mean, own.unsqueeze(-1), least)


class _Ridge(NamedTuple):
    """A ridge regression on orthonormal columns.

    Attributes:
        main: ``(T, n, m)`` the columns.
        along: ``(T, m, K)`` their coefficients.
        mean: ``(T, 1, K)`` of what is fitted.
        own: ``(T, n, 1)`` each row's part in its own fit.
        errors: ``(T, r)`` leave-one-out errors of rows that are evenly spread.
    """

    main: Tensor
    along: Tensor
    mean: Tensor
    own: Tensor
    errors: Tensor

    def of_member(self, member: int) -> _Ridge:
        """Return that of one member."""
        return _Ridge(*(part[member : member + 1] for part in self))

    def left_out(self, target: Tensor) -> Tensor:
        """Return scores ``(T, n, K)`` of each row by the fit without it, of what was fitted."""
        fit = _few(self.main, self.along) + self.mean
        return (fit - self.own * target) / (1 - self.own).clamp(min=_OUTSIDE)


def _best(fits: Sequence[Fitted]) -> Fitted:
    """Return each member's fit of least mean error."""
    scores, errors = (torch.stack(part) for part in zip(*fits, strict=True))
    best, members = _least(errors), torch.arange(errors.shape[1])
    return scores[best, members], errors[best, members]


def _least(errors: Tensor) -> Tensor:
    """Return which of several fits has each member's least mean error, ``(T,)``, of errors ``(C, T, r)``."""
    return errors.mean(-1).nan_to_num(torch.inf).argmin(0)


def _few(many: Tensor, columns: Tensor) -> Tensor:
    """Return the product of ``(T, n, m)`` and few columns ``(T, m, K)``, for which the usual order is slow."""
    return (columns.mT.contiguous() @ many.mT).mT


def _gaussian(columns: Tensor) -> Tensor:
    """Return columns ``(T, N, m)`` whose products are a Gaussian kernel, as well as landmarks can say it."""
    rows = columns.shape[-2]
    at = evenly(rows, max(1, min(LANDMARKS, rows // 3)))
    distances = torch.cdist(columns, columns[:, at]).square()
    width = distances[:, at].flatten(1).median(-1).values.clamp(min=1e-30)
    kernel = (-distances / width[:, None, None]).exp()
    among = kernel[:, at].double()
    eye = torch.eye(len(at), dtype=among.dtype)
    root = torch.linalg.cholesky(among + _LEAST * len(at) * eye)
    features: Tensor = kernel @ torch.linalg.solve_triangular(root, eye, upper=False).mT.float()
    return features


def _weighed(group: Tensor) -> Tensor:
    """Return the main directions of columns ``(T, N, ...)``, so that the mean square of a row is 1."""
    main = principal(standardized(group.flatten(2)), WIDEST)
    size = main.square().sum(-1).mean(-1)[:, None, None].sqrt()
    return torch.where(size > 0, main / size.clamp(min=1e-30), 0.0)
