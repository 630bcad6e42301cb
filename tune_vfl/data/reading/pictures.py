"""Pictures in files: one at a time, or all of a folder."""

from __future__ import annotations

import struct
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.files import locate, readable
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.Image import Image

Array = np.ndarray[Any, np.dtype[Any]]
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"})
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""What a file of any of these names may hold, as Pillow calls it. It reads others too, and runs Ghostscript for EPS."""
_GRAY = frozenset({"1", "L", "LA", "La"})
_COLOR = frozenset({"P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"})


def visible(folder: Path) -> list[Path]:
    """Return the entries of a folder by name, hidden files left out.

    Raises:
        DataError: when it cannot be read.
    """
    with readable(folder):
        return sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.name)


def pictures_of(folder: Path, root: Path) -> list[Path]:
    """Return the pictures of one folder of a public set, by name; the folder is recorded as read, its files are not.

    Looking at each of some 100,000 files would take longer than mapping the loaded data. A picture that is added or
    removed changes the folder, which is noticed.

    Raises:
        DataError: when the folder is missing, cannot be read or holds no picture.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder, though the ones beside it are there; unpack the archive again")
    found = [p for p in visible(locate(str(folder), root, folder=True)) if p.suffix.lower() in SUFFIXES]
    if not found:
        raise DataError(f"{folder}: holds no pictures; unpack the archive again")
    return found


def read_pictures(files: Sequence[Path], shape: tuple[int, ...], *, resize: bool = False) -> Array:
    """Read pictures of one known shape.

    Args:
        files: N files.
        shape: (H, W) for gray pictures, (H, W, 3) for colors.
        resize: whether to resize pictures of other sizes, which are refused otherwise.

    Returns:
        uint8 ``(N, *shape)``.

    Raises:
        DataError: naming the first file that is no picture, is cut off or has another size.
    """
    pixels = np.empty((len(files), *shape), dtype=np.uint8)
    channels = "grey" if len(shape) == 2 else "rgb"
    for row, file in enumerate(files):
        picture, _ = read_picture(file, channels, shape[:2] if resize else None)
        if picture.shape != shape:
            height, width = picture.shape[:2]
            raise DataError(
                f"{file}: is {height} x {width} pixels (height x width), expected {shape[0]} x {shape[1]}; unpack the "
                "archive again"
            )
        pixels[row] = picture
    return pixels


def read_picture(file: Path, channels: str, size: tuple[int, ...] | None) -> tuple[Array, bool]:
    """Read one 8-bit image of a format in :data:`FORMATS`, whichever of them its name says.

    Args:
        file: the file.
        channels: ``grey``, ``rgb``, or ``auto``: gray where the image is.
        size: (height, width) to resize it to, bilinear; None leaves it as it is.

    Returns:
        uint8 ``(H, W)`` or ``(H, W, 3)``, rotated as its metadata say, transparency dropped; and whether it was
        resized.

    Raises:
        DataError: naming a file that is no such image, is cut off, or is too large.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # A small file can unpack to a picture that fills the memory. Pillow warns of it; here that is an error.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as opened:
                image = _eight_bits(file, ImageOps.exif_transpose(opened), channels)
        changed = size is not None and image.size != (size[1], size[0])
        if changed and size is not None:
            image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        return np.asarray(image), changed
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(f"{file}: is too large a picture ({error}); make it smaller") from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        reason = " ".join(str(error).replace(str(file), "").split())[:200]
        raise DataError(
            f"{file}: is no image that can be read, or is cut off ({reason}); replace or remove it; what is read: "
            f"{', '.join(FORMATS)}"
        ) from error


def _eight_bits(file: Path, image: Image, channels: str) -> Image:
    if image.mode not in _GRAY | _COLOR:
        raise DataError(
            f"{file}: has more than 8 bits a pixel (mode {image.mode}); save it with 8, scaled as you want it"
        )
    if channels == "auto":
        return image.convert("L" if image.mode in _GRAY else "RGB")
    return image.convert("L" if channels == "grey" else "RGB")
