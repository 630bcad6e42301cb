"""Small photographs of ten or a hundred kinds of things (CIFAR-10, CIFAR-100, CINIC-10), cut into two halves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.fetching import by_torchvision
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.batches import images_of, names_of
from tune_vfl.data.reading.files import find_folder, holds
from tune_vfl.data.reading.pictures import pictures_of, read_pictures
from tune_vfl.data.reading.public_images import Part, read_parts
from tune_vfl.data.sample import SampledOptions, incomplete
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""Of CIFAR-10 and CINIC-10."""
MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""Of CIFAR-10's batches, the training ones first."""
MD5_100 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
_BATCHES, _BATCHES_100 = "cifar-10-batches-py", "cifar-100-python"
_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
_SHAPE = (32, 32, 3)


def _recipe(epochs: int, **options: Any) -> Recipe:
    """Return ResNet-20 with options, trained as Fu et al. 2022 train on CIFAR's pictures."""
    training = Training(
        epochs=epochs,
        batch_size=32,
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=5e-4,
        lr_schedule="multistep",
        milestones=(50, 85),
    )
    return Recipe.of("resnet20", training, 4, **options)


@dataset("cifar10")
class Cifar10(PublicSet[SampledOptions]):
    """60,000 images ``(3, 32, 32)`` in [0, 1], neither normalized nor augmented; the official 10,000 are the test rows.

    Halves of 16 pixel columns, 40 labeled rows and the training are those of Fu et al. 2022; the nets (ResNet-20,
    FCNN-4) are also LADSG's. Training takes hours without a GPU. Where the official batches are missing, a sample of
    them in one npz file is read, with small nets and a short training, and a note says so.
    """

    summary = "50,000 + 10,000 photographs of 32x32 pixels, 10 classes, left and right halves"
    reference = "Krizhevsky 2009, CIFAR-10 (python version)"
    Options = SampledOptions
    kept = True
    files = ("cifar10/cifar10.npz",)
    source = f"{_ADDRESS}, unpacked under the data root as {_BATCHES}; or by tune-vfl data fetch cifar10"
    classes = CLASSES
    recipe = _recipe(epochs=100)

    def fetch(self, root: Path) -> Path:
        """Download the files through torchvision."""
        return by_torchvision("CIFAR10", root, _BATCHES)

    def read(self, options: SampledOptions, root: Path) -> Rows:
        """Read the folder ``cifar-10-batches-py``, else the sample in ``cifar10/cifar10.npz``."""
        del options
        if holds(root, _BATCHES):
            train, test = ({n: MD5[n] for n in MD5 if n.startswith(part)} for part in ("data", "test"))
            parts = [
                images_of(root, _BATCHES, md5s, labels="labels", classes=len(CLASSES), address=_ADDRESS)
                for md5s in (train, test)
            ]
            return Rows.of_images(parts[:1], parts[1], root / _BATCHES)
        path = self.file(root)
        images, tests = read_parts(path, _SHAPE, len(CLASSES), [("x_train", "y_train"), ("x_test", "y_test")])
        fewer = incomplete("the file holds", (len(images[1]), len(tests[1])), (50_000, 10_000))
        small = Recipe.of("lenet", Training(epochs=30, batch_size=128, lr=1e-3), 4, channels=[32, 64])
        return replace(Rows.of_images([images], tests, path, fewer), recipe=small)


@dataset("cifar100")
class Cifar100(PublicSet[SampledOptions]):
    """60,000 images ``(3, 32, 32)`` in [0, 1], neither normalized nor augmented; the official 10,000 are the test rows.

    The labels are the 100 fine classes, so the metric is top-5. Halves of 16 pixel columns, 400 labeled rows and the
    training are those of Fu et al. 2022; the nets (ResNet-20, FCNN-4) are also LADSG's. Training takes hours without a
    GPU; ``model: lenet`` and fewer epochs take less.
    """

    summary = "50,000 + 10,000 photographs of 32x32 pixels, 100 classes, left and right halves"
    reference = "Krizhevsky 2009, CIFAR-100 (python version)"
    Options = SampledOptions
    kept = True
    source = (
        f"https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz, unpacked under the data root as {_BATCHES_100}; or "
        "by tune-vfl data fetch cifar100"
    )
    recipe = _recipe(epochs=150, embedding_dim=100, top_hidden=[200, 100, 100])

    def fetch(self, root: Path) -> Path:
        """Download the files through torchvision."""
        return by_torchvision("CIFAR100", root, _BATCHES_100)

    def read(self, options: SampledOptions, root: Path) -> Rows:
        """Read ``train``, ``test`` and ``meta``, which names the classes, of the folder ``cifar-100-python``."""
        del options
        folder, hint = root / _BATCHES_100, self.source
        classes = names_of(root, f"{_BATCHES_100}/meta", MD5_100["meta"], "fine_label_names", hint)
        if len(classes) != 100:
            raise DataError(f"{folder / 'meta'}: names {len(classes)} classes, expected 100; fetch it again")
        train, test = (
            images_of(root, _BATCHES_100, {n: MD5_100[n]}, labels="fine_labels", classes=100, address=hint)
            for n in ("train", "test")
        )
        return replace(Rows.of_images([train], test, folder), classes=tuple(classes))


@dataset("cinic10")
class Cinic10(PublicSet[SampledOptions]):
    """270,000 images ``(3, 32, 32)`` in [0, 1]: training and validation rows to train on, the official test rows.

    180,000 and 90,000 rows are LADSG's sizes. Most pictures are ImageNet's, of the ten kinds of CIFAR-10. Halves of 16
    pixel columns, 40 labeled rows and the training are those of Fu et al. 2022, and both papers have these nets
    (ResNet-20, FCNN-4). Training takes hours without a GPU. All rows take about 5 GiB of memory; ``rows`` keeps fewer.
    """

    summary = "180,000 + 90,000 photographs of 32x32 pixels, 10 classes, left and right halves"
    reference = "Darlow, Crowley, Antoniou, Storkey 2018, CINIC-10"
    Options = SampledOptions
    kept = True
    files = ("CINIC-10", "cinic10")
    source = (
        "https://datashare.ed.ac.uk/handle/10283/3192 (CINIC-10.tar.gz, 687,544,992 bytes, MD5 "
        "6ee4d0c996905fe93221de577967a372)"
    )
    classes = CLASSES
    recipe = _recipe(epochs=100)

    def read(self, options: SampledOptions, root: Path) -> Rows:
        """Read ``train``, ``valid`` and ``test`` of the folder ``CINIC-10``, each with a sub-folder a class."""
        del options
        folder = find_folder(root, self.files, self.source)
        train, valid, test = (_part(folder / name, root) for name in ("train", "valid", "test"))
        sizes = (len(train[1]) + len(valid[1]), len(test[1]))
        fewer = incomplete("the folder holds", sizes, (180_000, 90_000))
        return Rows.of_images([train, valid], test, folder, fewer)


def _part(folder: Path, root: Path) -> Part:
    files = [pictures_of(folder / name, root) for name in CLASSES]
    labels = np.repeat(np.arange(len(files)), [len(found) for found in files])
    return read_pictures([file for found in files for file in found], _SHAPE), labels.astype(np.int64)
