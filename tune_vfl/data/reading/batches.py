"""Read the batches of CIFAR's python version: pickles with a published MD5, read without running any code."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tune_vfl.data.reading.files import find, readable
from tune_vfl.data.reading.public_images import Part
from tune_vfl.errors import DataError

_RECONSTRUCT = np.empty(0).__reduce__()[0]
_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
_SIDE = 32


class _Arrays(pickle.Unpickler):
    """Unpickles plain types and arrays only, so that a file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"names {module}.{name}, which no batch of images needs")
        return _KNOWN[module, name]


def read_batch(root: Path, relative: str, md5: str, address: str) -> Mapping[str, Any]:
    """Read one batch.

    Args:
        root: the data root.
        relative: the file's place under it.
        md5: its published MD5.
        address: where its archive can be downloaded.

    Raises:
        DataError: when the file is missing, is not the published one, or holds anything but plain data and arrays.
    """
    path = find(root, relative, address)
    with readable(path):
        content = path.read_bytes()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DataError(
            f"{path}: is corrupt or cut off: its MD5 is {found}, published is {md5} ({len(content):,} bytes); fetch "
            f"{address} again"
        )
    return _unpickled(path, content)


def _unpickled(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        batch = _Arrays(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a malformed pickle may raise anything
        raise DataError(f"{path}: is no batch of images ({error}); fetch the archive again") from error
    if not isinstance(batch, dict):
        raise DataError(f"{path}: is no batch of images (a {type(batch).__name__}); fetch the archive again")
    return batch


def images_of(root: Path, folder: str, md5s: Mapping[str, str], *, labels: str, classes: int, address: str) -> Part:
    """Read batches of images and their labels, one after the other.

    Args:
        root: the data root.
        folder: the folder of the batches under it.
        md5s: the batches' names, and the MD5 of each.
        labels: the key of the labels.
        classes: K.
        address: where the archive can be downloaded.

    Returns:
        uint8 ``(N, 32, 32, 3)`` and labels ``(N,)``.

    Raises:
        DataError: for a broken file, or one that holds other arrays than that.
    """
    images, y = [], []
    for name, md5 in md5s.items():
        batch = read_batch(root, f"{folder}/{name}", md5, address)
        pixels, codes = batch.get("data"), np.asarray(batch.get(labels, ()))
        _check(root / folder / name, pixels, codes, labels, classes)
        images.append(np.asarray(pixels).reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1))
        y.append(codes.astype(np.int64))
    return np.concatenate(images), np.concatenate(y)


def _check(path: Path, pixels: Any, codes: np.ndarray[Any, Any], labels: str, classes: int) -> None:
    width = 3 * _SIDE * _SIDE
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (width,):
        raise DataError(f"{path}: 'data' is not N x {width:,} bytes; fetch the archive again")
    if codes.shape != (len(pixels),) or codes.dtype.kind != "i" or not np.isin(codes, np.arange(classes)).all():
        raise DataError(
            f"{path}: {labels!r} is not a whole number from 0 to {classes - 1} for each of {len(pixels):,} images; "
            "fetch the archive again"
        )


def names_of(root: Path, relative: str, md5: str, key: str, address: str) -> Sequence[str]:
    """Read the names of the classes, in the order of their labels."""
    names = read_batch(root, relative, md5, address).get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{root / relative}: {key!r} is not a list of names; fetch the archive again")
    return names
