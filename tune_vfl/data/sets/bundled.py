"""Data that scikit-learn bundles: handwritten digits, tumors, wines."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.files import find
from tune_vfl.spec import Training

_MEASURED = (
    *("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points"),
    *("symmetry", "fractal dimension"),
)


@dataset("digits")
class Digits(PublicSet[PartyOptions]):
    """1,797 images ``(1, 8, 8)`` in [0, 1], bundled with scikit-learn; ``split`` cuts them along the width."""

    summary = "1,797 handwritten digits of 8x8 pixels, 10 classes, bundled with scikit-learn"
    reference = "Alpaydin and Kaynak 1998, UCI Optical Recognition of Handwritten Digits (test part)"
    Options = PartyOptions
    kept = True
    classes = tuple("0123456789")
    recipe = Recipe.of("mlp", Training(epochs=30, batch_size=64, lr=3e-3))

    def read(self, options: PartyOptions, root: Path) -> Rows:
        """Load the bundled images; the data root is not needed."""
        del options, root
        pixels, y = _bundled("digits")
        return Rows(pixels.view(-1, 1, 8, 8) / 16, y, Path(self.name))


@dataset("breast_cancer")
class BreastCancer(PublicSet[PartyOptions]):
    """569 x 30, bundled with scikit-learn; the positive class is ``malignant``, there it is benign."""

    summary = "569 tumors x 30 measurements, binary, bundled with scikit-learn"
    reference = "Wolberg, Mangasarian, Street 1995, UCI Breast Cancer Wisconsin (Diagnostic)"
    Options = PartyOptions
    kept = True
    columns = (
        *(f"mean {name}" for name in _MEASURED),
        *(f"{name} error" for name in _MEASURED),
        *(f"worst {name}" for name in _MEASURED),
    )
    classes = ("benign", "malignant")
    recipe = Recipe.of("mlp", Training(epochs=30, batch_size=32, lr=1e-3))

    def read(self, options: PartyOptions, root: Path) -> Rows:
        """Load the bundled table; the data root is not needed."""
        del options, root
        x, benign = _bundled("breast_cancer")
        return Rows(x, 1 - benign, Path(self.name), names=self.columns)


@dataset("wine")
class Wine(PublicSet[PartyOptions]):
    """178 x 13, bundled with scikit-learn: chemical measurements, and which of three cultivars it is."""

    summary = "178 wines x 13 measurements, 3 classes, bundled with scikit-learn"
    reference = "Aeberhard and Forina 1991, UCI Wine"
    Options = PartyOptions
    kept = True
    columns = (
        *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids"),
        *("nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines"),
        "proline",
    )
    classes = ("class_0", "class_1", "class_2")
    recipe = Recipe.of("mlp", Training(epochs=50, batch_size=32, lr=1e-3))

    def read(self, options: PartyOptions, root: Path) -> Rows:
        """Load the bundled table; the data root is not needed."""
        del options, root
        x, y = _bundled("wine")
        return Rows(x, y, Path(self.name), names=self.columns)


def _bundled(name: Literal["breast_cancer", "digits", "wine"]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features ``(N, d)`` float32 and classes ``(N,)`` int64 of a table that comes with scikit-learn.

    Another scikit-learn has another ``__init__.py``: prepared data of this one are not used with it.
    """
    import sklearn  # takes a second of CPU, the reason why these small tables are prepared too
    from sklearn import datasets

    find(Path(sklearn.__file__).parent, "__init__.py")
    rows: NDArray[np.float64]
    rows, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
    return torch.from_numpy(rows).float(), torch.from_numpy(classes.astype(np.int64))
