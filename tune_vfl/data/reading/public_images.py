"""Shared parts of the public image sets: arrays of known shape and classes, with or without official test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Recipe
from tune_vfl.data.partition import Parties, cut_among
from tune_vfl.data.sample import SampledOptions, training_sample
from tune_vfl.data.sets.npz_images import Array, check_pair, read_arrays
from tune_vfl.errors import DataError
from tune_vfl.spec import Training


@dataclass(frozen=True)
class ImageSet:
    """Constants of a public image set.

    Attributes:
        name: its registered name.
        shape: (H, W), or (H, W, C), of an image.
        classes: K names, by label.
        recipe: the usual model and training.
        test_share: the share held out where there are no official test rows.
    """

    name: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    recipe: Recipe
    test_share: float = 0.3


Part = tuple[Array, Array]


def fu_training(epochs: int) -> Training:
    """Return how Fu et al. 2022 train on CIFAR's pictures."""
    return Training(
        epochs=epochs,
        batch_size=32,
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=5e-4,
        lr_schedule="multistep",
        milestones=(50, 85),
    )


def read_parts(path: Path, known: ImageSet, pairs: Sequence[tuple[str, str]]) -> list[Part]:
    """Read arrays of images and of their labels from an npz file.

    Args:
        path: the file.
        known: the expected shape and classes.
        pairs: names of an array of images ``(N, H, W)`` or ``(N, H, W, C)`` and of its labels ``(N,)`` or ``(N, 1)``.

    Returns:
        For each pair the images, and the labels ``(N,)``.

    Raises:
        DataError: for a broken file, missing arrays, other shapes, and labels that are no class.
    """
    arrays = read_arrays(path, [name for pair in pairs for name in pair])
    parts = []
    for x_name, y_name in pairs:
        x, y = arrays[x_name], arrays[y_name]
        check_pair(path, x_name, x, y_name, y)
        if x.dtype != np.uint8 or x.shape[1:] != known.shape:
            raise DataError(
                f"{path}: array {x_name!r} is {x.dtype} of shape {x.shape}; expected uint8 of shape "
                f"(N, {', '.join(map(str, known.shape))}); fetch the file again"
            )
        parts.append((x, _labels(path, y_name, y.ravel(), known)))
    return parts


def _labels(path: Path, name: str, y: Array, known: ImageSet) -> np.ndarray[Any, np.dtype[np.int64]]:
    wrong = ~np.isin(y, np.arange(len(known.classes)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{path}: array {name!r} holds {y[row]} in row {row + 1}, expected 0 to {len(known.classes) - 1}; fetch "
            "the file again"
        )
    return y.astype(np.int64)


def image_set(
    known: ImageSet,
    train: Sequence[Part],
    test: Part | None,
    options: SampledOptions,
    *,
    path: Path,
    notes: Sequence[str] = (),
) -> Dataset:
    """Build the data set of images read: the rows of ``train``, then the official test rows, where there are any."""
    parts = [*train, *([] if test is None else [test])]
    y = torch.from_numpy(np.concatenate([labels for _, labels in parts]))
    test_rows = torch.arange(len(y) - (0 if test is None else len(test[1])), len(y))
    kept, test_rows, said = training_sample(y, test_rows, options.rows, known.classes, known.name)
    pixels = np.concatenate([images for images, _ in parts]) if len(parts) > 1 else parts[0][0]
    if len(kept) < len(y):
        pixels = pixels[kept.numpy()]
    return assemble(
        known.name,
        pixel_parties(pixels, options.share, options.passive_parties, str(path)),
        y[kept],
        known.classes,
        metric=options.metric,
        recipe=known.recipe,
        test_rows=None if test is None else test_rows,
        test_share=known.test_share,
        notes=(*notes, *said),
        where=f"{path}: labels",
    )


def pixel_parties(pixels: Array, share: float, parties: int, where: str) -> Parties:
    """Share out the pixel columns of bytes ``(N, H, W)`` or ``(N, H, W, C)``, from left to right.

    Each party's part is turned into floats by itself: with all parts at once, memory would hold the images three times.
    """

    def part(party: str, a: int, b: int) -> Columns:
        return Columns(party, scaled_images(pixels[:, :, a:b]))

    return cut_among(pixels.shape[2], share, parties, f"{where}: pixel columns", part)


def scaled_images(pixels: Array) -> torch.Tensor:
    """Return bytes ``(N, H, W)`` or ``(N, H, W, C)`` as images ``(N, C, H, W)`` float32 in [0, 1]."""
    ordered = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(ordered)).float().div_(255)
