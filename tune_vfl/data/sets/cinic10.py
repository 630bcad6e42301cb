"""CINIC-10: small photographs of the ten kinds of CIFAR-10, most of them from ImageNet, cut into two halves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.reading.files import find_folder
from tune_vfl.data.reading.pictures import pictures_of, read_pictures
from tune_vfl.data.reading.public_images import ImageSet, Part, fu_training, image_set
from tune_vfl.data.sample import SampledOptions

_ADDRESS = (
    "https://datashare.ed.ac.uk/handle/10283/3192 (CINIC-10.tar.gz, 687,544,992 bytes, MD5 "
    "6ee4d0c996905fe93221de577967a372)"
)
_PLACES = ("CINIC-10", "cinic10")
_OFFICIAL = (180_000, 90_000)
_KNOWN = ImageSet(
    name="cinic10",
    shape=(32, 32, 3),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    recipe=Recipe.of("resnet20", fu_training(epochs=100), 4),
)


@dataset("cinic10")
class Cinic10(Loader[SampledOptions]):
    """270,000 images ``(3, 32, 32)`` in [0, 1]: training and validation rows to train on, the official test rows.

    180,000 and 90,000 rows are LADSG's sizes. Halves of 16 pixel columns, 40 labeled rows and the training are those of
    Fu et al. 2022, and both papers have these nets (ResNet-20, FCNN-4). Training takes hours without a GPU. All rows
    take about 5 GiB of memory; ``rows`` keeps fewer.
    """

    summary = "180,000 + 90,000 photographs of 32x32 pixels, 10 classes, left and right halves"
    reference = "Darlow, Crowley, Antoniou, Storkey 2018, CINIC-10"
    Options = SampledOptions
    kept = True

    def load(self, options: SampledOptions, root: Path) -> Dataset:
        """Read ``train``, ``valid`` and ``test`` of the folder ``CINIC-10``, each with a sub-folder a class."""
        folder = find_folder(root, _PLACES, _ADDRESS)
        train, valid, test = (_part(folder / name, root) for name in ("train", "valid", "test"))
        sizes = (len(train[1]) + len(valid[1]), len(test[1]))
        notes = () if sizes == _OFFICIAL else ("the folder holds {:,} + {:,} of 180,000 + 90,000 rows".format(*sizes),)
        return image_set(_KNOWN, [train, valid], test, options, path=folder, notes=notes)


def _part(folder: Path, root: Path) -> Part:
    files = [pictures_of(folder / name, root) for name in _KNOWN.classes]
    labels = np.repeat(np.arange(len(files)), [len(found) for found in files])
    return read_pictures([file for found in files for file in found], _KNOWN.shape), labels.astype(np.int64)
