"""Files of a user's own, data sets and exported settings: which ones a spec names, and the spec with other places."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tune_vfl.data.loading import located, moved
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named
from tune_vfl.spec.listed import absolute_paths, as_list

SHIPPED_BYTES = 64 * 2**20
"""Files of up to so many bytes together travel to a cluster and between its machines."""


def own_paths(raw: Mapping[str, Any]) -> list[Path]:
    """Return the existing files and folders of a user's own that the data sets and ``start`` of a raw spec name."""
    data: list[Path] = []
    starts: list[Path] = []

    def note(entry: Any) -> Any:
        data.extend(_paths(_located(entry)))
        return entry

    def note_file(path: str) -> str:
        starts.append(Path(path).absolute())
        return path

    _changed(raw, note, note_file)
    return [path for path in dict.fromkeys([*data, *starts]) if path.exists()]


def own_files(raw: Mapping[str, Any]) -> list[Path]:
    """Return the files among :func:`own_paths`."""
    return [path for path in own_paths(raw) if path.is_file()]


def files_of(datasets: Iterable[Named]) -> list[Path]:
    """Return the existing files among the absolute paths of data sets' options, each once."""
    return [path for path in dict.fromkeys(path for named in datasets for path in _paths(named)) if path.is_file()]


def relocated(raw: Mapping[str, Any], places: Mapping[Path, str]) -> dict[str, Any]:
    """Return a raw spec with files at other places.

    Args:
        raw: the spec.
        places: the new path of each file, by the old one as :func:`own_files` returns it.
    """
    new = {str(old): place for old, place in places.items()}

    def at_its_place(entry: Any) -> Any:
        there = _located(entry)
        touched = any(path in new for path in absolute_paths(there.options))
        return moved(there, new).model_dump() if touched else entry

    return _changed(raw, at_its_place, lambda path: new.get(str(Path(path).absolute()), path))


def content_digest(path: Path) -> str:
    """Return what tells a file's content from another one's, in 16 characters.

    Raises:
        DataError: when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def too_large(files: Iterable[Path]) -> bool:
    """Return whether files are too large together to travel."""
    return sum(path.stat().st_size for path in files) > SHIPPED_BYTES


def _paths(named: Named) -> list[Path]:
    return [Path(path) for path in absolute_paths(named.options)]


def _located(entry: Any) -> Named:
    """Return a spec's data set with absolute paths; without options where it cannot be found or is none."""
    try:
        return located(Named.model_validate(entry))
    except (DataError, SpecError, ValueError):
        return Named(name="-")


def _changed(raw: Mapping[str, Any], dataset: Callable[[Any], Any], file: Callable[[str], str]) -> dict[str, Any]:
    """Return a raw spec with each of its data sets and each path under ``start`` changed.

    Both may be lists, and stand under ``matrix`` too; paths also stand in entries of defenses.
    """
    spec = dict(raw)
    if "dataset" in spec:
        given = spec["dataset"]
        spec["dataset"] = [dataset(entry) for entry in given] if isinstance(given, list) else dataset(given)
    if "start" in spec:
        listed = as_list(spec["start"])
        files = isinstance(listed, list | tuple)
        spec["start"] = [file(e) if isinstance(e, str) else e for e in listed] if files else listed
    for name in ("defense", "matrix"):
        if isinstance(part := spec.get(name), Mapping):
            spec[name] = _changed(part, dataset, file)
        elif isinstance(part, list):
            spec[name] = [_changed(entry, dataset, file) if isinstance(entry, Mapping) else entry for entry in part]
    return spec
