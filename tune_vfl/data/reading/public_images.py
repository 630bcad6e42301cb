"""Images of the public sets: arrays of a known shape and of known classes, and their columns at each party."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tune_vfl.data.base import Columns
from tune_vfl.data.partition import Parties, cut_among
from tune_vfl.data.sets.npz_images import Array, check_pair, read_arrays
from tune_vfl.errors import DataError

Part = tuple[Array, Array]
"""Images ``(N, H, W)`` or ``(N, H, W, C)`` and their labels ``(N,)``."""


def read_parts(path: Path, shape: tuple[int, ...], classes: int, pairs: Sequence[tuple[str, str]]) -> list[Part]:
    """Read arrays of images and of their labels from an npz file.

    Args:
        path: the file.
        shape: (H, W), or (H, W, C), of an image.
        classes: how many there are; labels are from 0.
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
        if x.dtype != np.uint8 or x.shape[1:] != shape:
            raise DataError(
                f"{path}: array {x_name!r} is {x.dtype} of shape {x.shape}; expected uint8 of shape "
                f"(N, {', '.join(map(str, shape))}); fetch the file again"
            )
        parts.append((x, _labels(path, y_name, y.ravel(), classes)))
    return parts


def _labels(path: Path, name: str, y: Array, classes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    wrong = ~np.isin(y, np.arange(classes))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{path}: array {name!r} holds {y[row]} in row {row + 1}, expected 0 to {classes - 1}; fetch the file again"
        )
    return y.astype(np.int64)


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
