"""What the data sets that come with scikit-learn share."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tune_vfl.data.assemble import assemble
from tune_vfl.data.partition import matrix_parties
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.data.base import Dataset, Recipe
    from tune_vfl.data.options import PartyOptions


def bundled_rows(file: str, *, header: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read a table that comes with scikit-learn; that is not imported for it, which takes longer than all the rest.

    Args:
        file: its name there.
        header: lines before the rows.

    Returns:
        Features ``(n, d)``, and the column after them, the classes ``(n,)``.

    Raises:
        DataError: when the file is not there.
    """
    found = find_spec("sklearn")
    folders = list(found.submodule_search_locations or ()) if found else []
    paths = [path for folder in folders if (path := Path(folder, "datasets", "data", file)).is_file()]
    if not paths:
        raise DataError(f"{file}, which comes with scikit-learn, is not there; install scikit-learn again")
    rows = np.loadtxt(paths[0], delimiter=",", skiprows=header)
    return rows[:, :-1], rows[:, -1].astype(np.int64)


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
    """Build the data set of a numeric table of scikit-learn, its columns shared out in their order."""
    features = torch.tensor(x, dtype=torch.float32)
    parties = matrix_parties(features, [*columns], options.share, options.passive_parties, name)
    labels = torch.tensor(y, dtype=torch.int64)
    return assemble(name, parties, labels, class_names, metric=options.metric, recipe=recipe)
