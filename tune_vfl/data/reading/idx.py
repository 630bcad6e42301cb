"""Read arrays of bytes in the idx format of the MNIST files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from tune_vfl.data.reading.files import readable
from tune_vfl.errors import DataError

_UBYTE = 0x08
_MAGIC_BYTES = 4


def read_idx(path: Path, axes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Read one idx file of unsigned bytes, gzipped if its name ends in ``.gz``.

    Args:
        path: the file.
        axes: how many axes the array must have.

    Returns:
        The array, in the shape that the file's header names.

    Raises:
        DataError: when it is no such file, or holds fewer or more bytes than its header says.
    """
    with readable(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        raw = file.read()
    if len(raw) < _MAGIC_BYTES or raw[:2] != b"\x00\x00" or raw[2] != _UBYTE:
        raise DataError(
            f"{path}: is not an idx file of bytes (it begins with {raw[:_MAGIC_BYTES].hex() or 'nothing'}, expected "
            f"{bytes([0, 0, _UBYTE, axes]).hex()}); fetch the file again"
        )
    if raw[3] != axes:
        raise DataError(
            f"{path}: its header names {raw[3]} axes where {axes} are expected; are the files of images and labels "
            "mixed up?"
        )
    start = _MAGIC_BYTES + 4 * axes
    shape = tuple(int(n) for n in np.frombuffer(raw[_MAGIC_BYTES:start].ljust(4 * axes, b"\0"), dtype=">u4"))
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(raw) != expected:
        raise DataError(
            f"{path}: holds {len(raw):,} bytes where its header ({' x '.join(map(str, shape))}) says {expected:,}; it "
            "is cut off or corrupt, fetch the file again"
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
