"""A user's own images: a folder with a sub-folder for each class, cut along the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field

from tune_vfl.data.base import Dataset, Loader, dataset
from tune_vfl.data.reading.files import absolute, locate
from tune_vfl.data.reading.pictures import SUFFIXES, read_picture, visible
from tune_vfl.data.sets.npz_images import Array, ImageOptions, own_images
from tune_vfl.errors import DataError, shortened

_TRAIN, _TEST = ("train", "val", "valid", "validation"), "test"
Side = Annotated[int, Field(ge=1, le=4096)]


class ImageFolderOptions(ImageOptions):
    """Folder, size, color and partition of the images."""

    path: str = Field(description="the folder, from the working directory or the data root")
    size: Side | tuple[Side, Side] | None = Field(
        None, description="side, or [height, width], that images are resized to; by default all must be of one size"
    )
    channels: Literal["auto", "grey", "rgb"] = Field("auto", description="auto: gray where all images are, else rgb")


@dataclass(frozen=True)
class _ClassFolders:
    """The images under one folder of classes, by class and then by name."""

    files: list[Path]
    labels: list[str]
    ignored: int


@dataset("images")
class ImageFolder(Loader[ImageFolderOptions]):
    """``CLASS/*.png``, or ``train/CLASS/*.png`` and ``test/CLASS/*.png``: 8-bit images of any format that Pillow reads.

    The name of a sub-folder is the name of a class. Beside ``train`` a folder ``test`` holds the official test rows,
    and the rows of ``val`` (``valid``, ``validation``) join the training rows. Transparency is dropped, and photographs
    are turned as their camera says.
    """

    summary = "your own images in a folder, a sub-folder a class"
    reference = "-"
    Options = ImageFolderOptions

    def located(self, options: ImageFolderOptions, root: Path) -> ImageFolderOptions:
        """Make the path absolute."""
        return options.model_copy(update={"path": str(absolute(options.path, root, folder=True))})

    def load(self, options: ImageFolderOptions, root: Path) -> Dataset:
        """Read every image."""
        import pandas as pd

        folder = locate(options.path, root, folder=True)
        parts, notes = _parts(folder, root)
        files = [file for part in parts.values() for file in part.files]
        if not files:
            raise DataError(f"{folder}: its sub-folders hold no image ({', '.join(sorted(SUFFIXES))}); put some there")
        pixels, said = _pixels(files, options)
        tests = len(parts[_TEST].files) if _TEST in parts else 0
        return own_images(
            "images",
            folder,
            pixels,
            pd.Series([label for part in parts.values() for label in part.labels]),
            options,
            test_rows=torch.arange(len(files) - tests, len(files)) if _TEST in parts else None,
            where=f"{folder}: label (the sub-folder's name)",
            notes=(*notes, *said),
        )


def _parts(folder: Path, root: Path) -> tuple[dict[str, _ClassFolders], list[str]]:
    """Find the images of every part, the test part last."""
    below = {p.name: p for p in visible(folder) if p.is_dir()}
    if not below:
        raise DataError(f"{folder}: has no sub-folders; put the images of each class into a sub-folder of its name")
    if "train" not in below or not set(below) <= {*_TRAIN, _TEST}:
        part = _part(folder, root)
        return {"all": part}, _said([part])
    parts = {name: _part(below[name], root) for name in (*_TRAIN, _TEST) if name in below}
    notes = [
        f"{below[name]}: its {len(part.files)} images join the training rows"
        for name, part in parts.items()
        if name in _TRAIN[1:]
    ]
    return parts, [*notes, *_said(list(parts.values()))]


def _said(parts: Sequence[_ClassFolders]) -> list[str]:
    ignored = sum(part.ignored for part in parts)
    return [f"{ignored} files that are no images, or not in a class's folder, are left out"] if ignored else []


def _part(folder: Path, root: Path) -> _ClassFolders:
    entries = visible(folder)
    classes = [p for p in entries if p.is_dir()]
    if not classes:
        raise DataError(f"{folder}: has no sub-folders; put the images of each class into a sub-folder of its name")
    files: list[Path] = []
    labels: list[str] = []
    ignored = len(entries) - len(classes)
    # Folders are recorded too, so that an image that is added or removed is noticed.
    locate(str(folder), root, folder=True)
    for place in classes:
        locate(str(place), root, folder=True)
        found = visible(place)
        images = [p for p in found if p.suffix.lower() in SUFFIXES and p.is_file()]
        files += [locate(str(p), root) for p in images]
        labels += [place.name] * len(images)
        ignored += len(found) - len(images)
        if not images:
            names = shortened([p.name for p in found], 3) or "nothing at all"
            raise DataError(
                f"{place}: holds no image ({', '.join(sorted(SUFFIXES))}), but {names}; put the images of this class "
                "there, or remove the folder"
            )
    return _ClassFolders(files, labels, ignored)


def _pixels(files: Sequence[Path], options: ImageFolderOptions) -> tuple[Array, list[str]]:
    """Return the images as uint8 ``(N, H, W)`` or ``(N, H, W, 3)``, and notes."""
    size = (options.size, options.size) if isinstance(options.size, int) else options.size
    read = [read_picture(file, options.channels, size) for file in files]
    shapes = [image.shape[:2] for image, _ in read]
    for file, shape in zip(files, shapes, strict=True):
        if shape != shapes[0]:
            height, width = shapes[0]
            raise DataError(
                f"{file}: is {shape[0]} x {shape[1]} pixels (height x width) where {files[0]} is {height} x {width}; "
                f"give all images one size, or say size: [{height}, {width}] to resize them"
            )
    resized = sum(changed for _, changed in read)
    notes = [f"{resized} of {len(read)} images are resized to {shapes[0][0]} x {shapes[0][1]} pixels"] * (resized > 0)
    gray = sum(image.ndim == 2 for image, _ in read)
    if gray in (0, len(read)):
        return np.stack([image for image, _ in read]), notes
    notes.append(f"{gray} of {len(read)} images are gray and read as rgb")
    return np.stack([image if image.ndim == 3 else np.stack([image] * 3, axis=2) for image, _ in read]), notes
