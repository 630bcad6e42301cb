"""MNIST: handwritten digits of 28x28 pixels, cut into a left and a right half."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tune_vfl.data.base import Recipe, dataset
from tune_vfl.data.fetching import by_torchvision
from tune_vfl.data.public import PublicSet, Rows
from tune_vfl.data.reading.files import find_one
from tune_vfl.data.reading.idx import read_idx
from tune_vfl.data.reading.public_images import Part
from tune_vfl.data.sample import SampledOptions
from tune_vfl.errors import DataError
from tune_vfl.spec import Training

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_SIDE = 28
MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}


@dataset("mnist")
class Mnist(PublicSet[SampledOptions]):
    """70,000 images ``(1, 28, 28)`` in [0, 1], of which the official 10,000 are the test rows.

    ``split`` cuts them along the width. The recipe is a small one, usual for experiments with noise on cut gradients:
    halves of 392 pixels, bottoms 392-32-10, batches of 1,024, 30 epochs. FedAdOb trains ``model: lenet``, and its
    attacker has 40 labeled rows.
    """

    summary = "60,000 + 10,000 handwritten digits of 28x28 pixels, 10 classes, left and right halves"
    reference = "LeCun, Cortes, Burges 1998, the MNIST database"
    Options = SampledOptions
    kept = True
    source = "https://ossci-datasets.s3.amazonaws.com/mnist/, or by tune-vfl data fetch mnist"
    classes = tuple("0123456789")
    recipe = Recipe.of(
        "mlp",
        Training(epochs=30, batch_size=1024, lr=3e-3),
        4,
        bottom_hidden=[32],
        embedding_dim=10,
        top_hidden=[32],
    )

    def fetch(self, root: Path) -> Path:
        """Download the files through torchvision."""
        return by_torchvision("MNIST", root, "MNIST/raw")

    def read(self, options: SampledOptions, root: Path) -> Rows:
        """Read the four idx files of ``MNIST/raw``, gzipped or not."""
        del options
        return Rows.of_images([_part(root, "train")], _part(root, "t10k"), root / "MNIST/raw")


def _read(path: Path, axes: int) -> Bytes:
    try:
        return read_idx(path, axes)
    except DataError as error:
        published = MD5[path.name.removesuffix(".gz")]
        raise DataError(
            f"{error} (the published {path.name.removesuffix('.gz')}.gz has the MD5 {published})"
        ) from error


def _part(root: Path, part: str) -> Part:
    """Return the images ``(N, 28, 28)`` and labels ``(N,)`` of ``train`` or ``t10k``."""
    places = [f"MNIST/raw/{part}-{kind}-idx{axes}-ubyte" for kind, axes in (("images", 3), ("labels", 1))]
    at_images, at_labels = (find_one(root, [f"{place}.gz", place], Mnist.source) for place in places)
    images, labels = _read(at_images, 3), _read(at_labels, 1)
    if images.shape[1:] != (_SIDE, _SIDE) or not len(images):
        raise DataError(
            f"{at_images}: holds {' x '.join(map(str, images.shape))} pixels, expected N x 28 x 28; fetch it again"
        )
    if len(images) != len(labels):
        raise DataError(
            f"{at_labels}: holds {len(labels):,} labels for the {len(images):,} images of {at_images.name}; fetch both "
            "files again"
        )
    if labels.max() >= len(Mnist.classes):
        row = int(np.argmax(labels >= len(Mnist.classes)))
        raise DataError(f"{at_labels}: label {row + 1} is {labels[row]}, expected 0 to 9; fetch the file again")
    return images, labels.astype(np.int64)
