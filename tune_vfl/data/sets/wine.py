"""Wine recognition: 13 chemical measurements, three cultivars."""

from __future__ import annotations

from pathlib import Path

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.reading.bundled import bundled_rows, bundled_table
from tune_vfl.spec import Training

COLUMNS = (
    *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids"),
    *("nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines", "proline"),
)


@dataset("wine")
class Wine(Loader[PartyOptions]):
    """178 x 13, bundled with scikit-learn."""

    summary = "178 wines x 13 measurements, 3 classes, bundled with scikit-learn"
    reference = "Aeberhard and Forina 1991, UCI Wine"
    Options = PartyOptions

    def load(self, options: PartyOptions, root: Path) -> Dataset:
        """Load the bundled table; the data root is not needed."""
        x, y = bundled_rows("wine")
        recipe = Recipe.of("mlp", Training(epochs=50, batch_size=32, lr=1e-3))
        names = [f"class_{k}" for k in range(3)]
        return bundled_table("wine", x, y, columns=COLUMNS, class_names=names, options=options, recipe=recipe)
