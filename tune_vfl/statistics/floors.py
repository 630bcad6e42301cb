"""Cross-fitted success against true labels: each fold is scored with choices that were fitted on the others.

An AUC that is turned to the larger side afterwards succeeds on pure noise. Here every choice that needs labels is
fitted on the other folds; the floor is then 1/2 exactly, because a fold's labels are exchangeable given the choices.
numpy in, float out; larger is more leakage; undefined values (fewer than two rows of a class) are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import Floats, Ints
from tune_vfl.statistics.labelings import Labelings, cross_fitted_aucs

FOLDS = 10
"""The most folds. Leaving one row out would not do: with 6 positives it is .014 below 1/2 on noise."""


def stratified_folds(y: ArrayLike, rng: np.random.Generator) -> Ints:
    """Deal rows into ``min(10, positives, negatives)`` folds, each class evenly.

    Args:
        y: ``(n,)`` labels 0 or 1.
        rng: assigns rows to folds; the same state gives the same folds.

    Returns:
        ``(n,)`` the number of each row's fold, from 0. A class with fewer than two rows leaves a single fold, by which
        nothing can be fitted: what is computed with it is NaN.

    Raises:
        ShapeError: for another shape.
        UsageError: for other labels.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import stratified_folds
        >>> stratified_folds([0, 0, 0, 1, 1], np.random.default_rng(0)).tolist()
        [1, 0, 0, 1, 0]
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ShapeError(f"labels: expected (rows,), got shape {labels.shape}")
    if not np.isin(labels, (0, 1)).all():
        raise UsageError("labels: expected 0 and 1 only")
    members = [np.flatnonzero(labels == c) for c in (0, 1)]
    count = max(1, min(FOLDS, *(len(m) for m in members)))
    folds = np.zeros(len(labels), dtype=np.int64)
    for rows in members:
        folds[rng.permutation(rows)] = np.arange(len(rows)) % count
    return folds


def auc_pieces(scores: Floats, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return, for each positive, the share of negatives below it, and for each negative that of positives above it.

    Ties count one half. Either mean is the AUC; their spreads give DeLong's variance.

    Args:
        scores: ``(n,)`` finite, larger is more positive.
        y: ``(n,)`` 0 or 1, both present.

    Returns:
        ``(positives,)`` and ``(negatives,)``, in the order of the rows.
    """
    labels = np.asarray(y)
    positive, negative = scores[labels == 1], scores[labels == 0]
    high, low = np.sort(positive), np.sort(negative)
    below = (low.searchsorted(positive, "left") + low.searchsorted(positive, "right")) / (2 * len(low))
    beneath = (high.searchsorted(negative, "left") + high.searchsorted(negative, "right")) / (2 * len(high))
    return below, 1 - beneath


def auc_by_fold(scores: ArrayLike, y: ArrayLike, folds: ArrayLike) -> float:
    """AUC within each fold, averaged with weights ``n1 n0 / (n1 + n0)`` of the folds.

    Args:
        scores: ``(n,)``, each row's from what was fitted without its fold. Of answers that are 0 or 1 the AUC is the
            balanced accuracy. A row with NaN is not counted.
        y: ``(n,)`` 0 or 1.
        folds: ``(n,)`` from :func:`stratified_folds`.

    Returns:
        A number in [0, 1]; NaN where there is one fold only, or none with both classes.

    Raises:
        ShapeError: for arrays of different shapes.

    Example:
        >>> from tune_vfl.statistics import auc_by_fold
        >>> auc_by_fold([0.1, 0.2, 0.8, 0.9], y=[0, 1, 0, 1], folds=[0, 0, 1, 1])
        1.0
    """
    values, labels, numbers = _rows(scores, y, folds)
    total = weight = 0.0
    for fold in _several(numbers):
        held = (numbers == fold) & ~np.isnan(values)
        positives = int((labels[held] == 1).sum())
        negatives = int(held.sum()) - positives
        if positives and negatives:
            share = positives * negatives / (positives + negatives)
            total += share * float(auc_pieces(values[held], labels[held])[0].mean())
            weight += share
    return total / weight if weight else float("nan")


def cross_fitted_auc_of_each(scores: Sequence[ArrayLike], y: ArrayLike, folds: ArrayLike) -> list[float]:
    """AUC of each of several scores of the same rows, of unknown sign, oriented on the other folds.

    The larger of AUC and 1 - AUC is above 1/2 on noise; here the other folds choose the side, and the fold is scored
    with it.

    Args:
        scores: ``(n,)`` each.
        y: ``(n,)`` 0 or 1.
        folds: ``(n,)`` from :func:`stratified_folds`.

    Returns:
        Numbers in [0, 1], in order: 1/2 on noise, below it where the folds disagree; NaN with a score that is not
        finite, or with fewer than two rows of a class.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import cross_fitted_auc_of_each, stratified_folds
        >>> y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
        >>> folds = stratified_folds(y, np.random.default_rng(0))
        >>> cross_fitted_auc_of_each([-y.astype(float)], y, folds)
        [1.0]
    """
    rows = [_rows(one, y, folds)[0] for one in scores]
    finite = [place for place, values in enumerate(rows) if np.isfinite(values).all()]
    found = [float("nan")] * len(rows)
    if finite and len(_several(np.asarray(folds))):
        labeling = Labelings(np.asarray(y)[None] == 1)
        areas = cross_fitted_aucs([rows[place] for place in finite], labeling, np.asarray(folds))[:, 0]
        for place, area in zip(finite, areas.tolist(), strict=True):
            found[place] = area
    return found


def _rows(scores: ArrayLike, y: ArrayLike, folds: ArrayLike) -> tuple[Floats, Ints, Ints]:
    values, labels, numbers = np.asarray(scores, dtype=np.float64), np.asarray(y), np.asarray(folds)
    if values.ndim != 1 or not values.shape == labels.shape == numbers.shape:
        raise ShapeError(
            f"expected scores, labels and folds (rows,), got {values.shape}, {labels.shape} and {numbers.shape}"
        )
    return values, labels, numbers


def _several(folds: Ints) -> Ints:
    """Return the folds' numbers; none for a single fold, because nothing is left to fit on."""
    numbers = np.unique(folds)
    return numbers if len(numbers) > 1 else numbers[:0]
