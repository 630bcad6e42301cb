"""A user's own images: one npz file, cut along the width."""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.labels import encode_labels
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.partition import image_parties, shown
from tune_vfl.data.root import absolute, locate
from tune_vfl.errors import DataError
from tune_vfl.spec import Named, Training

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Array = np.ndarray[Any, np.dtype[Any]]
_WHOLE, _PARTS = ("x", "y"), ("x_train", "y_train", "x_test", "y_test")
_MOST_CHANNELS = 4
_CNN_FROM = 16


class NpzOptions(PartyOptions):
    """Where the images are and how they are cut."""

    path: str = Field(description="the npz file, from the working directory or the data root")
    positive: str | int | float | bool | None = Field(None, description="the positive one of two classes")


@dataset("npz")
class NpzImages(Loader[NpzOptions]):
    """Arrays ``x`` and ``y``, or ``x_train, y_train, x_test, y_test`` with the test rows as the official ones.

    Images are ``(N, H, W)`` or ``(N, H, W, C)`` with at most 4 channels: whole numbers 0..255, or floats in [0, 1].
    """

    summary = "your own images in one npz file"
    reference = "-"
    Options = NpzOptions

    def located(self, options: NpzOptions, root: Path) -> NpzOptions:
        """Make the path absolute."""
        return options.model_copy(update={"path": str(absolute(options.path, root))})

    def load(self, options: NpzOptions, root: Path) -> Dataset:
        """Read the file."""
        import pandas as pd

        path = locate(options.path, root)
        arrays = read_arrays(path, _WHOLE, _PARTS)
        test_rows = None
        if "x" in arrays:
            x, y = arrays["x"], arrays["y"]
            check_pair(path, "x", x, "y", y)
        else:
            x, y, test_rows = _concatenated(path, arrays)
        where = f"{path}: label array {'y' if test_rows is None else 'y_train with y_test'}"
        labels, class_names = encode_labels(pd.Series(y.ravel().tolist()), where, options.positive)
        images = to_images(path, x)
        name = "cnn" if min(images.shape[2:]) >= _CNN_FROM else "mlp"
        return assemble(
            "npz",
            image_parties(images, options.split, options.passive_parties, str(path)),
            labels,
            class_names,
            metric=options.metric,
            recipe=Recipe(model=Named(name=name), training=Training(epochs=20, batch_size=128, lr=1e-3)),
            test_rows=test_rows,
            where=where,
        )


def read_arrays(path: Path, *layouts: Sequence[str]) -> dict[str, Array]:
    """Read the arrays of an npz file, without unpickling anything.

    Args:
        path: the file.
        layouts: names that belong together; the first layout that is all there is read.

    Raises:
        DataError: when it is no npz file, is cut off, lacks arrays, or holds Python objects.
    """
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: is not an npz file, or is cut off; write it with numpy.savez")
    try:
        with np.load(path, allow_pickle=False) as file:
            found = list(file.files)
            wanted = next((names for names in layouts if set(names) <= set(found)), None)
            if wanted is None:
                told = ", or ".join(f"{', '.join(names[:-1])} and {names[-1]}" for names in layouts)
                raise DataError(f"{path}: expected arrays {told}; it has: {shown(found)}")
            return {name: _read(path, file, name) for name in wanted}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{path}: is corrupt or cut off ({error}); fetch or write the file again") from error


def _read(path: Path, file: Any, name: str) -> Array:
    try:
        return np.asarray(file[name])
    except ValueError as error:
        raise DataError(
            f"{path}: array {name!r} cannot be read ({error}); give plain numbers or text, not objects"
        ) from error


def check_pair(path: Path, x_name: str, x: Array, y_name: str, y: Array) -> None:
    """Check an array of images and the array of their labels.

    Raises:
        DataError: naming the array whose shape or type is wrong.
    """
    if x.ndim not in (3, 4):
        raise DataError(f"{path}: array {x_name!r} has shape {x.shape}; expected (N, H, W) or (N, H, W, C)")
    if x.ndim == 4 and x.shape[3] > _MOST_CHANNELS:
        hint = "; move the channels to the end" if x.shape[1] <= _MOST_CHANNELS else ""
        raise DataError(
            f"{path}: array {x_name!r} has shape {x.shape}, so {x.shape[3]} channels; expected (N, H, W, C) with at "
            f"most {_MOST_CHANNELS}{hint}"
        )
    if y.shape not in {(len(x),), (len(x), 1)}:
        raise DataError(
            f"{path}: array {y_name!r} has shape {y.shape}; expected ({len(x)},), a label for each row of {x_name!r}"
        )
    if 0 in x.shape:
        raise DataError(f"{path}: array {x_name!r} is empty (shape {x.shape}); a data set needs rows and pixels")
    if x.dtype.kind not in "uifb":
        raise DataError(f"{path}: array {x_name!r} has type {x.dtype}; expected numbers")


def _concatenated(path: Path, arrays: dict[str, Array]) -> tuple[Array, Array, torch.Tensor]:
    for part in ("train", "test"):
        check_pair(path, f"x_{part}", arrays[f"x_{part}"], f"y_{part}", arrays[f"y_{part}"])
    train, test = arrays["x_train"], arrays["x_test"]
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise DataError(
            f"{path}: arrays 'x_train' and 'x_test' differ: {train.shape[1:]} {train.dtype} and {test.shape[1:]} "
            f"{test.dtype}; give both the same image shape and type"
        )
    y = np.concatenate([arrays["y_train"].ravel(), arrays["y_test"].ravel()])
    return np.concatenate([train, test]), y, torch.arange(len(train), len(train) + len(test))


def to_images(path: Path, x: Array) -> torch.Tensor:
    """Return images ``(N, C, H, W)`` float32 in [0, 1].

    Raises:
        DataError: for numbers that are not finite, or outside 0..255 (whole) or [0, 1] (floats).
    """
    low, high = float(x.min()), float(x.max())
    whole = x.dtype.kind != "f"
    most = 255.0 if whole else 1.0
    if x.dtype.kind == "b":
        most = 1.0
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(f"{path}: the images hold numbers that are not finite; correct or remove these rows")
    if low < 0 or high > most:
        raise DataError(
            f"{path}: pixels are {low:g} to {high:g}; expected "
            f"{'whole numbers 0 to 255' if whole else 'floats from 0 to 1'}"
        )
    images = torch.from_numpy(np.ascontiguousarray(x).astype(np.float32)) / most
    return images.unsqueeze(1) if x.ndim == 3 else images.permute(0, 3, 1, 2).contiguous()
