"""Breast Cancer Wisconsin: 30 measurements of cell nuclei, malignant or benign."""

from __future__ import annotations

from pathlib import Path

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.reading.bundled import bundled_rows, bundled_table
from tune_vfl.spec import Training

_MEASURED = (
    *("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points"),
    *("symmetry", "fractal dimension"),
)
COLUMNS = (
    *(f"mean {name}" for name in _MEASURED),
    *(f"{name} error" for name in _MEASURED),
    *(f"worst {name}" for name in _MEASURED),
)


@dataset("breast_cancer")
class BreastCancer(Loader[PartyOptions]):
    """569 x 30, bundled with scikit-learn; the positive class is ``malignant``, there it is benign."""

    summary = "569 tumors x 30 measurements, binary, bundled with scikit-learn"
    reference = "Wolberg, Mangasarian, Street 1995, UCI Breast Cancer Wisconsin (Diagnostic)"
    Options = PartyOptions

    def load(self, options: PartyOptions, root: Path) -> Dataset:
        """Load the bundled table; the data root is not needed."""
        x, benign = bundled_rows("breast_cancer")
        recipe = Recipe.of("mlp", Training(epochs=30, batch_size=32, lr=1e-3))
        names = ("benign", "malignant")
        return bundled_table(
            "breast_cancer", x, 1 - benign, columns=COLUMNS, class_names=names, options=options, recipe=recipe
        )
