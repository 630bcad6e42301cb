"""The reserve: rows that no search trains or measures on, left for the confirmation of its results.

It is drawn once a data set, whatever the seed: a fifth of the rows of each class, or half of the official test rows
where there are any; a column of the data may say which rows it is. Small data sets have none: a handful of rows would
say less than fresh seeds do.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from tune_vfl.data.base import Dataset
from tune_vfl.seeds import numpy_rng

SHARE = 0.2
SHARE_OF_OFFICIAL = 0.5
LEAST_ROWS = 1000
"""Data sets with fewer rows have no reserve."""
LEAST_OF_A_CLASS = 50
"""A reserve with fewer rows of its rarest class is not drawn."""

# Any seed would do, but it must be one: every search of a data set leaves the same rows alone.
_SEED = 0


@lru_cache(maxsize=4)
def reserve_rows(dataset: Dataset) -> Tensor:
    """Return the rows ``(R,)`` of the reserve, in rising order; empty where there is none.

    Args:
        dataset: as loaded; its rows must have the same order every time.
    """
    if why_no_reserve(dataset):
        return torch.empty(0, dtype=torch.int64)
    if dataset.reserved is not None:
        return dataset.reserved
    pool, sizes = _pool(dataset), reserve_sizes(dataset)
    labels, rng = dataset.y[pool].numpy(), numpy_rng(_SEED, "reserve")
    drawn = [rng.permutation(np.flatnonzero(labels == k))[:size] for k, size in enumerate(sizes)]
    return pool[torch.from_numpy(np.sort(np.concatenate(drawn)))]


def why_no_reserve(dataset: Dataset) -> str:
    """Return a sentence on why a data set has no reserve; empty if it has one."""
    if len(dataset.y) < LEAST_ROWS:
        return f"no reserve: {dataset.name} has {len(dataset.y)} rows, and under {LEAST_ROWS} none is set aside"
    sizes = reserve_sizes(dataset)
    rarest = min(range(len(sizes)), key=sizes.__getitem__)
    if sizes[rarest] < LEAST_OF_A_CLASS:
        return (
            f"no reserve: that of {dataset.name} would hold {sizes[rarest]} rows of class "
            f"{dataset.class_names[rarest]!r}, and under {LEAST_OF_A_CLASS} none is set aside"
        )
    return ""


def reserve_sizes(dataset: Dataset) -> list[int]:
    """Return how many rows of each class a reserve holds, or would hold: K numbers, rounded to the nearest row."""
    if dataset.reserved is not None:
        return [int(n) for n in torch.bincount(dataset.y[dataset.reserved], minlength=dataset.num_classes)]
    share = SHARE if dataset.test_rows is None else SHARE_OF_OFFICIAL
    counts = torch.bincount(dataset.y[_pool(dataset)], minlength=dataset.num_classes)
    return [round(share * n) for n in counts.tolist()]


def _pool(dataset: Dataset) -> Tensor:
    """Return the rows that the reserve is drawn from, in rising order."""
    return torch.arange(len(dataset.y)) if dataset.test_rows is None else dataset.test_rows.sort().values
