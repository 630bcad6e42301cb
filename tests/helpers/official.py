"""Write what official archives hold, byte by byte as they hold it, but tiny."""

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def python2_pickle(value: Any) -> bytes:
    """Pickle as Python 2 does with protocol 2, which CIFAR's batches are written with: text is a string of bytes."""
    return b"\x80\x02" + _pickled(value) + b"."


def _pickled(value: Any) -> bytes:
    if isinstance(value, (str, bytes)):
        raw = value.encode("latin1") if isinstance(value, str) else value
        return b"U" + bytes([len(raw)]) + raw if len(raw) < 256 else b"T" + struct.pack("<i", len(raw)) + raw
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_pickled, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_pickled(k) + _pickled(v) for k, v in value.items()) + b"u"
    return _pickled_array(value)


def _pickled_array(value: np.ndarray) -> bytes:
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    letters = b"cnumpy\ndtype\n" + _pickled(value.dtype.str[1:]) + b"K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff"
    kind = letters + b"J\xff\xff\xff\xffK\x00tb"
    shape = b"(" + b"".join(_pickled(int(n)) for n in value.shape) + b"t"
    return empty + b"(K\x01" + shape + kind + b"\x89" + _pickled(value.tobytes()) + b"tb"


def put_pickle(path: Path, value: Any) -> str:
    """Write a batch, and return its MD5."""
    content = python2_pickle(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def picture(path: Path, pixels: np.ndarray) -> np.ndarray:
    """Write a png of ``(H, W)`` or ``(H, W, 3)`` bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, dtype=np.uint8)
