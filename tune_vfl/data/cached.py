"""A cache on disk of loaded public data sets, which the next process maps into memory."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from tune_vfl.data.base import Columns, Dataset, Recipe, Source
from tune_vfl.errors import UnwritableError
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import user_cache
from tune_vfl.machine.removing import remove

_log = logging.getLogger(__name__)
SCHEMA = "tune-vfl/prepared/1"
LEAST_SECONDS = 0.05
"""Data sets that are read in fewer CPU seconds are not kept: a prepared one takes a tenth of it."""
MOST_ENTRIES = 16
_SOURCES, _RECIPE = TypeAdapter(tuple[Source, ...]), TypeAdapter(Recipe)
Stamps = dict[Path, tuple[int, int]]


def folder() -> Path:
    """Return the cache folder of prepared data sets: ``tune-vfl/prepared`` in the user's cache folder."""
    return user_cache() / "prepared"


def stamp(path: Path) -> tuple[int, int]:
    """Return a file's time of change and size, to tell versions of it apart; -1, -1 for a missing file."""
    try:
        stat = path.stat()
    except OSError:
        return -1, -1
    return stat.st_mtime_ns, stat.st_size


def unchanged(stamps: Stamps) -> bool:
    """Whether every file is unchanged, or still missing, and every folder still holds the same names."""
    return all(stamp(path) == known for path, known in stamps.items())


def take(key: str, name: str) -> tuple[Dataset, Stamps] | None:
    """Return the cached data set of ``key``, and the files that it was read from; None on a miss.

    An entry is not used when another version of the loaders made it, when its files have changed, or when it is broken.
    The tensors are mapped into memory, so that all processes of a machine share their pages; what is written to them
    does not reach the file.

    Args:
        key: the loader's input as text: name, data root and options.
        name: the data set's name.
    """
    from safetensors import SafetensorError, safe_open

    path = _place(key, name)
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            said = json.loads(file.metadata()["prepared"])
            stamps = _current(said)
            if stamps is None or said["key"] != key:
                return None
            return _dataset(said["dataset"], {k: file.get_tensor(k) for k in file.keys()}), stamps  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        _log.info("%s: prepared data cannot be used (%s); reading the original files", path, error)
        return None


def keep(key: str, dataset: Dataset, stamps: Stamps) -> None:
    """Write a data set for :func:`take`, its file whole or not at all; a failure is logged and not raised.

    Processes that do so at once write the same content, and the last file stays. The oldest of more than
    :data:`MOST_ENTRIES` entries are removed.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    said, tensors = _taken_apart(dataset)
    files = [[str(path), *known] for path, known in stamps.items()]
    about = {"schema": SCHEMA, "key": key, "code": code_digest(), "files": files, "dataset": said}
    path = _place(key, dataset.name)
    try:
        with written_whole(path) as draft:
            save_file(tensors, draft, metadata={"prepared": json.dumps(about)})
        _prune(path.parent)
    except (UnwritableError, SafetensorError, OSError) as error:
        _log.info("%s: prepared data cannot be kept (%s); they will be read again next time", path, error)


def stale() -> list[Path]:
    """Return the entries that are not used any more: made by other code, of files that changed, or broken."""
    return [path for path in sorted(folder().glob("*.safetensors")) if not _is_current(path)]


def _is_current(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return _current(json.loads(file.metadata()["prepared"])) is not None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError):
        return False


def _current(said: Mapping[str, Any]) -> Stamps | None:
    """Return the files that an entry was read from; None where it is of other code, or the files have changed."""
    stamps = {Path(p): (int(t), int(n)) for p, t, n in said["files"]}
    return stamps if (said["schema"], said["code"]) == (SCHEMA, code_digest()) and unchanged(stamps) else None


def loading_code() -> list[Path]:
    """Return the source files that load data: this room, its data sets and its readers."""
    return sorted(Path(__file__).parent.rglob("*.py"))


@cache
def code_digest() -> str:
    """Return a digest of the code that loads data; an entry that other code made is not used."""
    digest = hashlib.blake2b(digest_size=16)
    for path in loading_code():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _place(key: str, name: str) -> Path:
    return folder() / f"{name}-{hashlib.blake2b(key.encode(), digest_size=12).hexdigest()}.safetensors"


def _prune(at: Path) -> None:
    entries = sorted(at.glob("*.safetensors"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    for path in entries[MOST_ENTRIES:]:
        remove(path, at)


def _taken_apart(dataset: Dataset) -> tuple[dict[str, Any], dict[str, Tensor]]:
    tensors = {"y": dataset.y}
    if dataset.test_rows is not None:
        tensors["test_rows"] = dataset.test_rows
    parties = [*dataset.passive, *([] if dataset.active is None else [dataset.active])]
    for k, columns in enumerate(parties):
        tensors[f"x/{k}"] = columns.x
        if columns.scaled is not None:
            tensors[f"scaled/{k}"] = columns.scaled
    said = {
        "name": dataset.name,
        "parties": [[c.party, list(c.names), _SOURCES.dump_python(c.sources, mode="json")] for c in parties],
        "passive": len(dataset.passive),
        "class_names": list(dataset.class_names),
        "metric": dataset.metric,
        "recipe": _RECIPE.dump_python(dataset.recipe, mode="json"),
        "fingerprint": dataset.fingerprint,
        "notes": list(dataset.notes),
        "test_share": dataset.test_share,
    }
    return said, {name: t.contiguous() for name, t in tensors.items()}


def _dataset(said: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Dataset:
    parties = [
        Columns(party, tensors[f"x/{k}"], tuple(names), tensors.get(f"scaled/{k}"), _SOURCES.validate_python(sources))
        for k, (party, names, sources) in enumerate(said["parties"])
    ]
    return Dataset(
        name=said["name"],
        passive=tuple(parties[: said["passive"]]),
        active=parties[-1] if len(parties) > said["passive"] else None,
        y=tensors["y"],
        class_names=tuple(said["class_names"]),
        metric=said["metric"],
        recipe=_RECIPE.validate_python(said["recipe"]),
        fingerprint=said["fingerprint"],
        test_rows=tensors.get("test_rows"),
        test_share=said["test_share"],
        notes=tuple(said["notes"]),
    )
