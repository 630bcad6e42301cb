"""CIFAR-100: small photographs of a hundred kinds of things, cut into a left and a right half."""

from __future__ import annotations

from pathlib import Path

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.fetching import by_torchvision
from tune_vfl.data.reading.batches import images_of, names_of
from tune_vfl.data.reading.public_images import ImageSet, fu_training, image_set
from tune_vfl.data.sample import SampledOptions
from tune_vfl.errors import DataError

_FOLDER = "cifar-100-python"
_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
_CLASSES = 100


@dataset("cifar100")
class Cifar100(Loader[SampledOptions]):
    """60,000 images ``(3, 32, 32)`` in [0, 1], neither normalized nor augmented; the official 10,000 are the test rows.

    The labels are the 100 fine classes, so the metric is top-5. Halves of 16 pixel columns, 400 labeled rows and the
    training are those of Fu et al. 2022; the nets (ResNet-20, FCNN-4) are also LADSG's. Training takes hours without a
    GPU; ``model: lenet`` and fewer epochs take less.
    """

    summary = "50,000 + 10,000 photographs of 32x32 pixels, 100 classes, left and right halves"
    reference = "Krizhevsky 2009, CIFAR-100 (python version)"
    Options = SampledOptions
    kept = True

    def fetch(self, root: Path) -> Path:
        """Download the files through torchvision."""
        return by_torchvision("CIFAR100", root, _FOLDER)

    def load(self, options: SampledOptions, root: Path) -> Dataset:
        """Read ``train``, ``test`` and ``meta`` of the folder ``cifar-100-python``."""
        hint = f"{_ADDRESS}, unpacked under the data root as {_FOLDER}; or by tune-vfl data fetch cifar100"
        classes = names_of(root, f"{_FOLDER}/meta", MD5["meta"], "fine_label_names", hint)
        if len(classes) != _CLASSES:
            raise DataError(f"{root / _FOLDER / 'meta'}: names {len(classes)} classes, expected 100; fetch it again")
        train, test = (
            images_of(root, _FOLDER, {part: MD5[part]}, labels="fine_labels", classes=_CLASSES, address=hint)
            for part in ("train", "test")
        )
        known = ImageSet(
            name="cifar100",
            shape=(32, 32, 3),
            classes=tuple(classes),
            recipe=Recipe.of("resnet20", fu_training(epochs=150), 4, embedding_dim=100, top_hidden=[200, 100, 100]),
        )
        return image_set(known, [train], test, options, path=root / _FOLDER)
