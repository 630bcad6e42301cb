"""CIFAR-10: small photographs of ten kinds of things, cut into a left and a right half."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.public_images import ImageSet, Part, image_set, read_parts
from tune_vfl.data.root import find
from tune_vfl.data.sample import SampledOptions
from tune_vfl.errors import DataError
from tune_vfl.spec import Named, Training
from tune_vfl.vision import import_torchvision

if TYPE_CHECKING:
    from pathlib import Path

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = "cifar-10-batches-py"
_OFFICIAL = (50_000, 10_000)
_KNOWN = ImageSet(
    name="cifar10",
    shape=(32, 32, 3),
    classes=_CLASSES,
    recipe=Recipe(
        model=Named.model_validate({"name": "lenet", "channels": [32, 64]}),
        training=Training(epochs=30, batch_size=128, lr=1e-3),
        auxiliary_per_class=4,
    ),
)


@dataset("cifar10")
class Cifar10(Loader[SampledOptions]):
    """60,000 images ``(3, 32, 32)`` in [0, 1], neither normalised nor augmented; the official 10,000 are the test rows.

    Halves of 16 pixel columns and 40 labelled rows are those of Fu et al. 2022. Where the official batches are not
    there, a sample of them in one npz is read, and said so.
    """

    summary = "50,000 + 10,000 photographs of 32x32 pixels, 10 classes, left and right halves"
    reference = "Krizhevsky 2009, CIFAR-10 (python version)"
    Options = SampledOptions
    kept = True

    def load(self, options: SampledOptions, root: Path) -> Dataset:
        """Read the folder ``cifar-10-batches-py``, else ``cifar10/cifar10.npz``."""
        if (root / _BATCHES).is_dir():
            folder = root / _BATCHES
            return image_set(_KNOWN, [_official(root, train=True)], _official(root, train=False), options, path=folder)
        path = find(
            root,
            "cifar10/cifar10.npz",
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz, unpacked there as cifar-10-batches-py; or "
            "torchvision.datasets.CIFAR10(root, download=True)",
        )
        train, test = read_parts(path, _KNOWN, [("x_train", "y_train"), ("x_test", "y_test")])
        sizes = (len(train[1]), len(test[1]))
        notes = () if sizes == _OFFICIAL else ("the file holds {:,} + {:,} of 50,000 + 10,000 rows".format(*sizes),)
        return image_set(_KNOWN, [train], test, options, path=path, notes=notes)


def _official(root: Path, *, train: bool) -> Part:
    """Read the official batches; torchvision compares each with its published MD5 before it unpickles any."""
    names = [f"data_batch_{k}" for k in range(1, 6)] if train else ["test_batch"]
    for name in (*names, "batches.meta"):
        find(root, f"{_BATCHES}/{name}", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz")
    import_torchvision()
    from torchvision.datasets import CIFAR10

    try:
        read = CIFAR10(str(root), train=train, download=False)
    except RuntimeError as error:
        raise DataError(
            f"{root / _BATCHES}: a batch has not its published MD5, it is corrupt or cut off ({error}); fetch "
            "cifar-10-python.tar.gz again"
        ) from error
    return np.asarray(read.data), np.asarray(read.targets, dtype=np.int64)
