"""Pneumonia: X-ray pictures of children's chests, cut into a left and a right half."""

from __future__ import annotations

from pathlib import Path

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.reading.files import find
from tune_vfl.data.reading.public_images import ImageSet, image_set, read_parts
from tune_vfl.data.sample import SampledOptions
from tune_vfl.spec import Training

_KNOWN = ImageSet(
    name="pneumonia",
    shape=(28, 28),
    classes=("normal", "pneumonia"),
    recipe=Recipe.of("lenet", Training(epochs=20, batch_size=64, lr=1e-3), 30),
)


@dataset("pneumonia")
class Pneumonia(Loader[SampledOptions]):
    """5,856 images ``(1, 28, 28)`` in [0, 1]: official training and validation rows to train on, the 624 test rows.

    Batches of 64 and 30 labeled rows a class are what Fu et al. and LADSG use on BHI, which are medical images too.
    """

    summary = "5,232 + 624 X-ray pictures of 28x28 pixels, pneumonia or not, left and right halves"
    reference = "Yang et al. 2023, MedMNIST v2 (PneumoniaMNIST)"
    Options = SampledOptions
    kept = True

    def load(self, options: SampledOptions, root: Path) -> Dataset:
        """Read ``pneumoniamnist/pneumoniamnist.npz``."""
        path = find(root, "pneumoniamnist/pneumoniamnist.npz", "https://medmnist.com")
        names = [(f"{part}_images", f"{part}_labels") for part in ("train", "val", "test")]
        *train, test = read_parts(path, _KNOWN, names)
        return image_set(_KNOWN, train, test, options, path=path)
