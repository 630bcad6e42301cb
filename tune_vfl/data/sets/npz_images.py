"""A user's own images: one npz file, cut along the width."""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field, model_validator

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Dataset, Loader, Recipe, dataset
from tune_vfl.data.copies import equal_rows
from tune_vfl.data.label_options import LabelOptions
from tune_vfl.data.options import PartyOptions
from tune_vfl.data.own_labels import own_labels
from tune_vfl.data.partition import image_parties
from tune_vfl.data.reading.files import absolute, locate
from tune_vfl.errors import DataError, shortened
from tune_vfl.spec import Training

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

Array = np.ndarray[Any, np.dtype[Any]]
_MEDICAL = ("train_images", "train_labels", "val_images", "val_labels", "test_images", "test_labels")
# Images and their labels in turn; the last pair of several is the test part.
_LAYOUTS = (("x", "y"), ("x_train", "y_train", "x_test", "y_test"), _MEDICAL, (*_MEDICAL[:2], *_MEDICAL[4:]))
_MOST_CHANNELS = 4
_CNN_FROM = 16


class ImageOptions(PartyOptions, LabelOptions):
    """Partition and labels of a user's own images."""

    above: float | None = Field(
        None, allow_inf_nan=False, description="labels are numbers; those above this one are the positive class"
    )

    @model_validator(mode="after")
    def _one_rule(self) -> ImageOptions:
        if self.above is not None and (self.positive is not None or self.classes):
            raise ValueError("above says which rows are positive; leave out positive, negative and classes")
        return self


class NpzOptions(ImageOptions):
    """File and partition of the images."""

    path: str = Field(description="the npz file, from the working directory or the data root")


@dataset("npz")
class NpzImages(Loader[NpzOptions]):
    """Arrays ``x`` and ``y``, or ``x_train, y_train, x_test, y_test`` with the test rows as the official ones.

    MedMNIST's names are read too: ``train_images, train_labels, test_images, test_labels``, and ``val_images,
    val_labels``, whose rows join the training rows. Images are ``(N, H, W)`` or ``(N, H, W, C)`` with at most 4
    channels: whole numbers 0..255, or floats in [0, 1].
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
        arrays = read_arrays(path, *_LAYOUTS)
        names = list(arrays)
        x, y, test_rows = _concatenated(path, arrays, list(zip(names[::2], names[1::2], strict=True)))
        extra = [name for name in names if name == "val_images"]
        return own_images(
            "npz",
            path,
            x,
            pd.Series(y.tolist(), dtype=object),
            options,
            test_rows=test_rows,
            where=f"{path}: label array{'' if test_rows is None else 's'} {', '.join(names[1::2])}",
            notes=[f"{path.name}: {len(arrays[name])} rows of {name} join the training rows" for name in extra],
        )


def own_images(
    name: str,
    path: Path,
    pixels: Array,
    labels: pd.Series[Any],
    options: ImageOptions,
    *,
    test_rows: torch.Tensor | None,
    where: str,
    notes: Sequence[str],
) -> Dataset:
    """Build the data set of a user's images, for a convolutional net where a party's part is large enough for one.

    Args:
        name: the data set's registered name.
        path: the file or folder, for messages.
        pixels: ``(N, H, W)`` or ``(N, H, W, C)``.
        labels: N labels as the file has them.
        options: the partition of the width, the metric, and the meaning of the labels.
        test_rows: the official test rows, where there are any.
        where: names the labels, for messages.
        notes: facts that limit the results.

    Raises:
        DataError: for pixels out of range, labels that are no classes, or fewer pixel columns than parties.
    """
    found = own_labels(labels, options, where, above=options.above, test_rows=test_rows, name=name)
    images = to_images(path, pixels if len(found.rows) == len(pixels) else pixels[found.rows.numpy()])
    model = "cnn" if min(images.shape[2:]) >= _CNN_FROM else "mlp"
    parties = image_parties(images, options.share, options.passive_parties, str(path))
    return assemble(
        name,
        parties,
        found.y,
        found.class_names,
        metric=options.metric,
        recipe=Recipe.of(model, Training(epochs=20, batch_size=128, lr=1e-3)),
        test_rows=found.test_rows,
        where=where,
        hint=found.hint,
        notes=[*notes, *found.notes, *equal_rows([*parties[0], *([parties[1]] if parties[1] else [])], found.y)],
    )


def read_arrays(path: Path, *layouts: Sequence[str]) -> dict[str, Array]:
    """Read the arrays of an npz file, without unpickling anything.

    Args:
        path: the file.
        layouts: sets of names that belong together; the first whose arrays are all in the file is read.

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
                wanted = ", or ".join(f"{', '.join(names[:-1])} and {names[-1]}" for names in layouts)
                raise DataError(f"{path}: expected arrays {wanted}; it has: {shortened(found)}")
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
    if y.dtype.kind not in "biufSU":
        raise DataError(f"{path}: array {y_name!r} has type {y.dtype}; expected whole numbers or text, one a class")
    if y.shape not in {(len(x),), (len(x), 1)}:
        raise DataError(
            f"{path}: array {y_name!r} has shape {y.shape}; expected ({len(x)},), a label for each row of {x_name!r}"
        )
    if 0 in x.shape:
        raise DataError(f"{path}: array {x_name!r} is empty (shape {x.shape}); a data set needs rows and pixels")
    if x.dtype.kind not in "uifb":
        raise DataError(f"{path}: array {x_name!r} has type {x.dtype}; expected numbers")


def _concatenated(
    path: Path, arrays: dict[str, Array], pairs: Sequence[tuple[str, str]]
) -> tuple[Array, Array, torch.Tensor | None]:
    """Return images and labels of all parts, and the rows of the last one where there are several."""
    for x_name, y_name in pairs:
        check_pair(path, x_name, arrays[x_name], y_name, arrays[y_name])
    images, labels = [arrays[x] for x, _ in pairs], [_labels(path, y, arrays[y].ravel()) for _, y in pairs]
    for (x_name, _), part in zip(pairs, images, strict=True):
        if part.shape[1:] != images[0].shape[1:] or part.dtype != images[0].dtype:
            raise DataError(
                f"{path}: arrays {pairs[0][0]!r} and {x_name!r} differ: {images[0].shape[1:]} {images[0].dtype} and "
                f"{part.shape[1:]} {part.dtype}; give both the same image shape and type"
            )
    rows = sum(len(part) for part in images)
    test_rows = None if len(pairs) == 1 else torch.arange(rows - len(images[-1]), rows)
    return np.concatenate(images), np.concatenate(labels), test_rows


def _labels(path: Path, name: str, y: Array) -> Array:
    """Return labels as objects, so that numbers and texts of several parts keep their values; bytes as text."""
    try:
        return np.array([v.decode() if isinstance(v, bytes) else v for v in y.tolist()], dtype=object)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: array {name!r} holds bytes that are not UTF-8 text ({error.reason}); give text"
        ) from error


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
