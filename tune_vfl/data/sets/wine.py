"""Wine recognition: 13 chemical measurements, three cultivars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.reading.bundled import bundled_table
from tune_vfl.spec import Named, Training

if TYPE_CHECKING:
    from pathlib import Path


@dataset("wine")
class Wine(Loader[PartyOptions]):
    """178 x 13, bundled with scikit-learn."""

    summary = "178 wines x 13 measurements, 3 classes, bundled with scikit-learn"
    reference = "Aeberhard and Forina 1991, UCI Wine"
    Options = PartyOptions

    def load(self, options: PartyOptions, root: Path) -> Dataset:
        """Load it; the data root is not needed."""
        from sklearn.datasets import load_wine

        bunch = load_wine()
        recipe = Recipe(model=Named(name="mlp"), training=Training(epochs=50, batch_size=32, lr=1e-3))
        return bundled_table(
            "wine", bunch, y=bunch.target, class_names=[*map(str, bunch.target_names)], options=options, recipe=recipe
        )
