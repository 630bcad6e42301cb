"""Prediction of the label by single columns: a near-perfect column was probably derived from the label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from tune_vfl.data.base import ColumnKind, Columns
from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.arrays import Floats, Ints

THRESHOLD = 0.98
"""``data check`` warns of a column whose score is above this."""
MOST_ROWS = 20_000
LEAST_ROWS = 5
_BINS = 64


def measure(num_classes: int) -> str:
    """Return the name of the score: ``auc`` for two classes, else ``balanced_accuracy``."""
    return "auc" if num_classes == 2 else "balanced_accuracy"


def chance(num_classes: int) -> float:
    """Return the score of a column that tells nothing: an AUC of 1/2 for two classes, else 1/K."""
    return 0.5 if num_classes == 2 else 1 / num_classes


def noise(y: torch.Tensor, num_classes: int) -> float:
    """Return the standard error under :func:`scores_alone` of the score of an uninformative column.

    Args:
        y: ``(N,)`` int64 labels.
        num_classes: K.
    """
    counts = np.bincount(y.numpy(), minlength=num_classes) * min(1.0, MOST_ROWS / len(y)) / 2
    judged = counts[counts >= LEAST_ROWS]
    if num_classes == 2:
        return float(np.sqrt((counts.sum() + 1) / (12 * counts.prod()))) if counts.all() else 0.5
    p = 1 / num_classes
    return float(np.sqrt((p * (1 - p) / judged).sum()) / max(len(judged), 1))


def scores_alone(columns: Columns, y: torch.Tensor, num_classes: int) -> list[float | None]:
    """Score every column of a party's file as a predictor of the label.

    At most 20,000 rows are used. On one half of the rows of each class the shares of the classes are counted for each
    value of the column, or for each of 64 ranges that hold about equally many rows; missing values are a value of their
    own. The other half is scored by those shares. For two classes it is also scored by the number itself, and the
    better score counts. Only the order of the values matters, so that neither their scale nor outliers change a score.

    Args:
        columns: the party's columns, a table.
        y: ``(N,)`` int64 labels.
        num_classes: K.

    Returns:
        A score in [0, 1] for each column of the file, or of ``x`` where the file's columns are not known: the ROC AUC
        for two classes, else the mean over the classes of the share of rows predicted correctly. None where fewer than
        two classes have 5 rows in the half that is scored.
    """
    labels = y.numpy()
    fit, held = _halves(labels, num_classes, numpy_rng(0, "halves"))
    judged = np.flatnonzero(np.bincount(labels[held], minlength=num_classes) >= LEAST_ROWS)
    if len(judged) < 2:
        return [None for _ in file_columns(columns)]
    held = held[np.isin(labels[held], judged)]
    used, count = np.concatenate([fit, held]), len(fit)
    columns, labels = replace(columns, x=columns.x[torch.from_numpy(used)]), labels[used]
    scores: list[float | None] = []
    for name, kind, a, b in file_columns(columns):
        values = values_of(columns, name, kind, a, b)
        rates = _rates(values, labels, count, num_classes, is_number=kind == "number")
        if num_classes == 2:
            scores.append(max(_auc(rates[:, 1], labels[count:]), _ordered_auc(values, labels, count)))
        else:
            right = rates.argmax(1) == labels[count:]
            scores.append(float(np.mean([right[labels[count:] == k].mean() for k in judged])))
    return scores


def file_columns(columns: Columns) -> Iterator[tuple[str, ColumnKind, int, int]]:
    """Yield for each column of a party's file its name, kind, and encoded columns ``[begin, end)``."""
    if not columns.sources:
        for k in range(columns.x.shape[1]):
            yield columns.names[k] if columns.names else str(k), "number", k, k + 1
        return
    begin = 0
    for source in columns.sources:
        yield source.name, source.kind, begin, begin + source.width
        begin += source.width


def values_of(columns: Columns, name: str, kind: ColumnKind, a: int, b: int) -> Floats:
    """Return ``(N,)`` numbers of one column of a file, or the index of each row's category; NaN where missing."""
    x = columns.x[:, a:b]
    if kind != "category":
        return x[:, 0].double().numpy()
    codes = x.argmax(1).double()
    missing = [k for k in range(b - a) if columns.names[a + k] == f"{name}=missing"]
    return torch.where(torch.isin(codes, torch.tensor(missing, dtype=codes.dtype)), torch.nan, codes).numpy()


def _halves(labels: Ints, num_classes: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    fit, held = [], []
    for k in range(num_classes):
        rows = rng.permutation(np.flatnonzero(labels == k))
        rows = rows[: max(2 * LEAST_ROWS, len(rows) * MOST_ROWS // max(len(labels), MOST_ROWS))]
        fit.append(rows[: len(rows) // 2])
        held.append(rows[len(rows) // 2 :])
    return np.concatenate(fit), np.concatenate(held)


def _rates(values: Floats, labels: Ints, fit: int, num_classes: int, *, is_number: bool) -> Floats:
    """Return ``(N - fit, K)`` for the rows that are scored: the share of each class among fitted ones of their value.

    Of many numbers it is among those of their range. The shares are shrunk toward those of all fitted rows, as if one
    more row had them.

    Args:
        values: ``(N,)``, the first ``fit`` of which are fitted to.
        labels: ``(N,)``.
        fit: the number of fitted rows.
        num_classes: K.
        is_number: whether values are put into ranges.
    """
    known = _sorted_known(values[:fit])
    edges = known[np.concatenate([[True], known[1:] != known[:-1]])] if len(known) else known
    most = max(_BINS, 4 * num_classes)
    if is_number and len(edges) > most:
        edges = known[_places_of_quantiles(len(known), most)]  # equal ones only leave bins without a row
    bins = np.searchsorted(edges, values, side="right")
    bins[np.isnan(values)] = len(edges) + 1
    cells = np.bincount(bins[:fit] * num_classes + labels[:fit], minlength=(len(edges) + 2) * num_classes)
    counts = cells.reshape(-1, num_classes)
    prior = counts.sum(0) / counts.sum()
    rates: Floats = (counts + prior) / (counts.sum(1, keepdims=True) + 1.0)
    return rates[bins[fit:]]


def _sorted_known(values: Floats) -> Floats:
    """Return the values that are not NaN in rising order."""
    ordered = np.sort(values)
    return ordered[: len(ordered) - int(np.isnan(ordered).sum())]


@cache
def _places_of_quantiles(count: int, parts: int) -> Ints:
    """Return the places of the values at the borders of equal parts among ``count`` sorted ones."""
    places = np.quantile(np.arange(count), np.arange(1, parts) / parts, method="nearest")
    return np.asarray(places, dtype=np.int64)


def _ordered_auc(values: Floats, labels: Ints, fit: int) -> float:
    if np.isnan(values).any():
        known = _sorted_known(values[:fit])
        values = np.where(np.isnan(values), np.median(known) if len(known) else 0.0, values)
    rising = _auc(values[:fit], labels[:fit]) >= 0.5
    return _auc(values[fit:] if rising else -values[fit:], labels[fit:])


def _auc(scores: Floats, labels: Ints) -> float:
    # Imported here: all data sets are imported together, and importing scipy takes longer than loading one of them.
    from tune_vfl.metrics.utility import auc

    return auc(scores, labels)
