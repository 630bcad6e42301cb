"""CIFAR-10: small photographs of ten kinds of things, cut into a left and a right half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.fetching import by_torchvision
from tune_vfl.data.reading.batches import images_of
from tune_vfl.data.reading.files import find, holds
from tune_vfl.data.reading.public_images import ImageSet, Part, fu_training, image_set, read_parts
from tune_vfl.data.sample import SampledOptions
from tune_vfl.spec import Training

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = "cifar-10-batches-py"
_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
_OFFICIAL = (50_000, 10_000)
_KNOWN = ImageSet(
    name="cifar10", shape=(32, 32, 3), classes=_CLASSES, recipe=Recipe.of("resnet20", fu_training(epochs=100), 4)
)
_SAMPLE = replace(_KNOWN, recipe=Recipe.of("lenet", Training(epochs=30, batch_size=128, lr=1e-3), 4, channels=[32, 64]))


@dataset("cifar10")
class Cifar10(Loader[SampledOptions]):
    """60,000 images ``(3, 32, 32)`` in [0, 1], neither normalized nor augmented; the official 10,000 are the test rows.

    Halves of 16 pixel columns, 40 labeled rows and the training are those of Fu et al. 2022; the nets (ResNet-20,
    FCNN-4) are also LADSG's. Training takes hours without a GPU. Where the official batches are missing, a sample of
    them in one npz file is read, with small nets and a short training, and a note says so.
    """

    summary = "50,000 + 10,000 photographs of 32x32 pixels, 10 classes, left and right halves"
    reference = "Krizhevsky 2009, CIFAR-10 (python version)"
    Options = SampledOptions
    kept = True

    def fetch(self, root: Path) -> Path:
        """Download the files through torchvision."""
        return by_torchvision("CIFAR10", root, _BATCHES)

    def load(self, options: SampledOptions, root: Path) -> Dataset:
        """Read the folder ``cifar-10-batches-py``, else ``cifar10/cifar10.npz``."""
        if holds(root, _BATCHES):
            folder = root / _BATCHES
            return image_set(_KNOWN, [_official(root, train=True)], _official(root, train=False), options, path=folder)
        path = find(
            root,
            "cifar10/cifar10.npz",
            f"{_ADDRESS}, unpacked under the data root as {_BATCHES}; or by tune-vfl data fetch cifar10",
        )
        train, test = read_parts(path, _SAMPLE, [("x_train", "y_train"), ("x_test", "y_test")])
        sizes = (len(train[1]), len(test[1]))
        notes = () if sizes == _OFFICIAL else ("the file holds {:,} + {:,} of 50,000 + 10,000 rows".format(*sizes),)
        return image_set(_SAMPLE, [train], test, options, path=path, notes=notes)


def _official(root: Path, *, train: bool) -> Part:
    names = [name for name in MD5 if name.startswith("data" if train else "test")]
    md5s = {name: MD5[name] for name in names}
    return images_of(root, _BATCHES, md5s, labels="labels", classes=len(_CLASSES), address=_ADDRESS)
