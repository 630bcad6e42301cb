"""Shared parts of the data sets that scikit-learn bundles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Recipe
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.partition import matrix_parties


def bundled_rows(name: Literal["breast_cancer", "digits", "wine"]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the features ``(n, d)`` and classes ``(n,)`` of a table that comes with scikit-learn."""
    from sklearn import datasets

    rows, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    return rows, classes.astype(np.int64)


def bundled_table(
    name: str,
    x: NDArray[np.float64],
    y: NDArray[np.int64],
    *,
    columns: Sequence[str],
    class_names: Sequence[str],
    options: PartyOptions,
    recipe: Recipe,
) -> Dataset:
    """Build the data set of a numeric table of scikit-learn, its columns partitioned in order."""
    features = torch.tensor(x, dtype=torch.float32)
    parties = matrix_parties(features, [*columns], options.share, options.passive_parties, name)
    labels = torch.tensor(y, dtype=torch.int64)
    return assemble(name, parties, labels, class_names, metric=options.metric, recipe=recipe)
