"""Training and test rows of a seed, standardized with training statistics, and the attacker's auxiliary rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tune_vfl.data.base import Columns, Dataset, Split
from tune_vfl.data.reserve import reserve_rows
from tune_vfl.errors import DataError
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import RowsUsed

_COLUMNS_AT_ONCE = 64


def split(dataset: Dataset, seed: int, rows: RowsUsed = "all") -> Split:
    """Cut a data set into training and test rows for one seed, and standardize it.

    The test rows are the official ones where there are any, else a drawn share of every class. Sizes do not depend on
    the seed, so that the splits of several seeds stack. Rows are in the data set's order. A missing value becomes the
    training mean of its column; ``scaled`` columns get training mean 0 and training standard deviation 1 (a constant
    one becomes 0). Images and tokens are untouched.

    Args:
        dataset: the data set to split.
        seed: draws the held-out rows, from the stream ``split``.
        rows: ``all``; ``selection``, which leaves the reserve out of both parts; or ``report``, the training rows of
            ``selection`` and the reserve as test rows, the same for every seed. Without a reserve all three are one.

    Raises:
        DataError: when a class has too few rows to be in both parts.
    """
    return _cut(dataset, *_parts(dataset, seed, rows))


def stacked_split(dataset: Dataset, seeds: Sequence[int], rows: RowsUsed = "all") -> Split:
    """Return the stacked splits of several seeds; seeds of the same rows, the official ones, share one copy of them."""
    splits: list[Split] = []
    for seed in seeds:
        train_rows, test_rows = _parts(dataset, seed, rows)
        alike = (s for s in splits if s.train_rows.equal(train_rows) and s.test_rows.equal(test_rows))
        splits.append(next(alike, None) or _cut(dataset, train_rows, test_rows))
    return Split.stack(splits)


def _cut(dataset: Dataset, train_rows: Tensor, test_rows: Tensor) -> Split:
    passive = [standardized(columns, train_rows) for columns in dataset.passive]
    active = None if dataset.active is None else standardized(dataset.active, train_rows)
    return Split(
        passive_train=tuple(_rows_of(x, train_rows) for x in passive),
        passive_test=tuple(_rows_of(x, test_rows) for x in passive),
        active_train=None if active is None else _rows_of(active, train_rows),
        active_test=None if active is None else _rows_of(active, test_rows),
        y_train=dataset.y[train_rows],
        y_test=dataset.y[test_rows],
        train_rows=train_rows,
        test_rows=test_rows,
    )


def training_rows(dataset: Dataset, seed: int, rows: RowsUsed = "all") -> Tensor:
    """Return the rows ``(n,)`` that :func:`split` trains on, in rising order."""
    return _parts(dataset, seed, rows)[0]


def _rows_of(x: Tensor, rows: Tensor) -> Tensor:
    """Return rows, listed in rising order; consecutive rows are a view and not copied."""
    first, last = int(rows[0]), int(rows[-1])
    return x[first : last + 1] if last - first + 1 == len(rows) else x[rows]


def held_out_sizes(counts: Tensor, share: float) -> list[int]:
    """Share out the test rows over the classes by largest remainder; each class keeps a row for training and testing.

    Args:
        counts: ``(K,)`` rows of each class, each at least 2.
        share: the share of test rows.
    """
    quotas = [float(n) * share for n in counts.tolist()]
    sizes = [int(q) for q in quotas]
    left = round(sum(quotas)) - sum(sizes)
    by_remainder = sorted(range(len(quotas)), key=lambda k: (sizes[k] - quotas[k], k))
    for k in by_remainder[:left]:
        sizes[k] += 1
    return [min(max(size, 1), int(n) - 1) for size, n in zip(sizes, counts.tolist(), strict=True)]


def _parts(dataset: Dataset, seed: int, rows: RowsUsed) -> tuple[Tensor, Tensor]:
    """Return the training and the test rows, each in rising order."""
    reserve = torch.empty(0, dtype=torch.int64) if rows == "all" else reserve_rows(dataset)
    reserved = _marked(reserve, dataset)
    test = _marked(_held_out(dataset, seed, ~reserved) if dataset.test_rows is None else dataset.test_rows, dataset)
    train_rows = (~test & ~reserved).nonzero().squeeze(1)
    if rows == "report" and len(reserve):
        return train_rows, reserve
    return train_rows, (test & ~reserved).nonzero().squeeze(1)


def _marked(rows: Tensor, dataset: Dataset) -> Tensor:
    marks = torch.zeros(len(dataset.y), dtype=torch.bool)
    marks[rows] = True
    return marks


def _held_out(dataset: Dataset, seed: int, open_rows: Tensor) -> Tensor:
    """Draw a share of every class among the rows that are open, ``(N,)`` bool."""
    counts = torch.bincount(dataset.y[open_rows], minlength=dataset.num_classes)
    for k, n in enumerate(counts.tolist()):
        if n < 2:
            raise DataError(
                f"dataset {dataset.name!r}: class {dataset.class_names[k]!r} has {n} row(s); a split into training and "
                "test rows needs at least 2 of every class: remove the class or add rows"
            )
    rng = numpy_rng(seed, "split")
    labels, is_open = dataset.y.numpy(), open_rows.numpy()
    drawn = [
        rng.permutation(np.flatnonzero((labels == k) & is_open))[:size]
        for k, size in enumerate(held_out_sizes(counts, dataset.test_share))
    ]
    return torch.from_numpy(np.concatenate(drawn))


def standardized(columns: Columns, train_rows: Tensor) -> Tensor:
    """Return all rows of a party, standardized with statistics of the training rows, without missing values.

    Args:
        columns: the party's columns.
        train_rows: ``(n,)`` rows whose statistics count.

    Returns:
        ``(N, d)`` float32, or images and tokens as they are.
    """
    if len(columns.shape) != 1 or not columns.x.is_floating_point():
        return columns.x
    if columns.scaled is not None and not columns.scaled.any() and not columns.x.isnan().any():
        return columns.x
    scaled = torch.zeros(columns.x.shape[1], dtype=torch.bool) if columns.scaled is None else columns.scaled
    parts = zip(torch.split(columns.x, _COLUMNS_AT_ONCE, dim=1), torch.split(scaled, _COLUMNS_AT_ONCE), strict=True)
    return torch.cat([_standardize(x, s, train_rows) for x, s in parts], dim=1)


def _standardize(x: Tensor, scaled: Tensor, train_rows: Tensor) -> Tensor:
    # In float64: with a large offset (a year, a time stamp), float32 would leave no digits for the variance.
    wide = x.double()
    train = wide[train_rows]
    known = ~train.isnan()
    count = known.sum(0).clamp(min=1)
    mean = train.nan_to_num(nan=0.0).sum(0) / count
    deviation = torch.where(known, train - mean, 0.0)
    std = (deviation.square().sum(0) / count).sqrt()
    low, high = torch.where(known, train, torch.inf).amin(0), torch.where(known, train, -torch.inf).amax(0)
    # A constant column is found by its range. Rounding can leave it a tiny deviation above 0, and test rows divided by
    # that would become huge.
    std = torch.where(high > low, std, 1.0)
    filled = torch.where(wide.isnan(), mean, wide)
    return torch.where(scaled, (filled - mean) / std, filled).float()


def auxiliary_rows(
    y_train: Tensor,
    *,
    per_class: int | None = None,
    total: int | None = None,
    how: Literal["per_class", "random"] = "per_class",
    seed: int,
    num_classes: int | None = None,
) -> Tensor:
    """Draw the training rows whose labels the attacker knows, from the stream ``auxiliary``.

    Args:
        y_train: ``(n,)`` training labels.
        per_class: rows of each class; give this or ``total``.
        total: rows in all; with ``how="per_class"`` a multiple of K.
        how: ``per_class`` draws equally many of each class, ``random`` regardless of class.
        seed: the seed.
        num_classes: K; by default one more than the largest label.

    Returns:
        ``(A,)`` sorted positions among the training rows; A does not depend on the seed. With the same seed and
        ``how``, a smaller draw is a part of every larger one.

    Raises:
        DataError: when a class, or all training rows together, are too few; one row at least must stay unlabeled.
    """
    classes = num_classes or int(y_train.max()) + 1
    if (per_class is None) == (total is None):
        raise DataError(
            f"auxiliary labels: give per_class or total, one of them; got per_class={per_class}, total={total}"
        )
    rng = numpy_rng(seed, "auxiliary")
    if how == "random":
        drawn = _any_rows(len(y_train), total if total is not None else (per_class or 0) * classes, rng)
    else:
        drawn = _rows_of_each(y_train.numpy(), _each(per_class, total, classes), classes, rng)
    return torch.from_numpy(np.sort(drawn))


def _each(per_class: int | None, total: int | None, classes: int) -> int:
    if per_class is not None:
        return per_class
    if total is None or total % classes:
        raise DataError(
            f"auxiliary labels: {total} rows cannot be shared out equally over {classes} classes; give a multiple of "
            f"{classes}, or how='random'"
        )
    return total // classes


def _any_rows(n: int, size: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if not 1 <= size < n:
        raise DataError(f"auxiliary labels: asked for {size} of {n} training rows; give 1 to {n - 1}")
    return rng.permutation(n)[:size]


def _rows_of_each(
    labels: np.ndarray[tuple[int], np.dtype[np.int64]], each: int, classes: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rows = [np.flatnonzero(labels == k) for k in range(classes)]
    scarce = min(range(classes), key=lambda k: len(rows[k]))
    if not 1 <= each < len(rows[scarce]):
        most = len(rows[scarce]) - 1
        advice = f"give 1 to {most}" if most >= 1 else "add rows"
        raise DataError(
            f"auxiliary labels: asked for {each} rows of each class, but class {scarce} has {len(rows[scarce])} "
            f"training rows and at least one must stay unlabeled; {advice}"
        )
    return np.concatenate([rng.permutation(r)[:each] for r in rows])
