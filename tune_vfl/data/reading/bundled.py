"""What the data sets that come with scikit-learn share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tune_vfl.data.assemble import assemble
from tune_vfl.data.partition import matrix_parties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.data.base import Dataset, Recipe
    from tune_vfl.data.options import PartyOptions


def bundled_table(
    name: str, bunch: Any, *, y: Any, class_names: Sequence[str], options: PartyOptions, recipe: Recipe
) -> Dataset:
    """Build the data set of a numeric table of scikit-learn, its columns shared out in their order."""
    x = torch.tensor(bunch.data, dtype=torch.float32)
    parties = matrix_parties(x, [str(n) for n in bunch.feature_names], options.split, options.passive_parties, name)
    labels = torch.tensor(y, dtype=torch.int64)
    return assemble(name, parties, labels, class_names, metric=options.metric, recipe=recipe)
