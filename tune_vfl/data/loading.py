"""Load a data set by its name and options: once in a process, and public ones that take long once on a machine."""

from __future__ import annotations

import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tune_vfl.data.base import DATASETS, Dataset, Loader
from tune_vfl.data.cached import LEAST_SECONDS, Stamps, keep, stamp, take, unchanged
from tune_vfl.data.importance import by_importance
from tune_vfl.data.options import ByImportance
from tune_vfl.data.reading.files import recorded
from tune_vfl.errors import SpecError
from tune_vfl.machine.places import data_root
from tune_vfl.spec import Named, Strict, explain
from tune_vfl.spec.listed import absolute_paths

LARGE = 200_000
"""From so many rows on, `validate` proposes a sample."""
_KEPT = 4
_cache: OrderedDict[str, tuple[Dataset, Stamps]] = OrderedDict()
_received: dict[str, Dataset] = {}


def load(named: Named, root: Path | None = None) -> Dataset:
    """Load a data set.

    The last few data sets are kept in memory; treat them as read-only. One is read again when a file of it changes.
    Public ones that take long are kept on disk too, in a form that the next process maps (:mod:`tune_vfl.data.cached`).

    Args:
        named: its name and options.
        root: the data root; by default ``TUNE_VFL_DATA``.

    Raises:
        UnknownNameError: for a name that no data set has.
        SpecError: listing every problem with the options.
        DataError: naming the file, the place in it, and what to do.
    """
    if (received := _received.get(named.model_dump_json())) is not None:
        return received
    base = root or data_root()
    loader, options = _checked(named)
    options = loader.located(options, base)
    key = f"{named.name}|{base.absolute()}|{options.model_dump_json()}"
    if key not in _cache or not unchanged(_cache[key][1]):
        _cache[key] = (take(key, named.name) if loader.kept else None) or _read(loader, options, base, key)
    _cache.move_to_end(key)
    while len(_cache) > _KEPT:
        _cache.popitem(last=False)
    return _cache[key][0]


def receive(named: Named, contents: Callable[[str], bytes]) -> None:
    """Load a data set whose files this machine lacks from their contents, and keep it for :func:`load`.

    The files are written to a temporary folder of this user alone, which is removed before this returns. Nothing is
    done where all files are here, or where the data set was received before.

    Args:
        named: its name and options, file paths absolute.
        contents: returns the content of a missing file by its path, or raises an exception.

    Raises:
        DataError: naming the file, the place in it, and what to do.
    """
    key = named.model_dump_json()
    missing = [path for path in dict.fromkeys(absolute_paths(named.options)) if not Path(path).exists()]
    if not missing or key in _received:
        return
    with tempfile.TemporaryDirectory(prefix="tune-vfl-data-") as folder:
        places = {path: Path(folder, str(number), Path(path).name) for number, path in enumerate(missing)}
        for path, place in places.items():
            place.parent.mkdir(mode=0o700)
            place.write_bytes(contents(path))
        loader, options = _checked(moved(named, {path: str(place) for path, place in places.items()}))
        _received[key] = _shared_out(loader.load(options, data_root()), options)


def moved(named: Named, places: Mapping[str, str]) -> Named:
    """Return a data set with other paths in its options: each text that is a key of ``places`` becomes its value."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(item) for key, item in value.items()}
        return places.get(value, value) if isinstance(value, str) else value

    return Named(name=named.name, **changed(named.options))


def _read(loader: Loader[Any], options: Strict, base: Path, key: str) -> tuple[Dataset, Stamps]:
    begun = time.thread_time()
    with recorded() as opened:
        loaded = _shared_out(loader.load(options, base), options)
    took = time.thread_time() - begun
    stamps = {path: stamp(path) for path in opened}
    if loader.kept and stamps and took >= LEAST_SECONDS:
        keep(key, loaded, stamps)
    return loaded, stamps


def _shared_out(dataset: Dataset, options: Strict) -> Dataset:
    asked = getattr(options, "split", None)
    if not isinstance(asked, ByImportance):
        return dataset
    return by_importance(dataset, asked.importance, getattr(options, "passive_parties", 1))


def written_out(named: Named, root: Path | None = None) -> Named:
    """Return a data set's name with all options, defaults included, and absolute file paths.

    Raises:
        SpecError: listing every problem with the options.
        DataError: when a file that the options name does not exist.
    """
    return Named(name=named.name, **_located(named, root).model_dump(mode="json", exclude_none=True))


def located(named: Named, root: Path | None = None) -> Named:
    """Return a data set's name with the options that are given, file paths absolute.

    Raises:
        SpecError: listing every problem with the options.
        DataError: when a file that the options name does not exist.
    """
    return Named(name=named.name, **_located(named, root).model_dump(mode="json", exclude_unset=True))


def _located(named: Named, root: Path | None) -> Strict:
    loader, options = _checked(named)
    found: Strict = loader.located(options, root or data_root())
    return found


def excluded(named: Named) -> tuple[str, ...] | None:
    """Return the columns that a data set's options exclude; None for a data set without such an option.

    Raises:
        SpecError: listing every problem with the options.
    """
    return getattr(_checked(named)[1], "exclude", None)


def merged(named: Named) -> dict[str, dict[str, str]]:
    """Return the categories that a data set's options merge, by column; empty for a data set without such an option.

    Raises:
        SpecError: listing every problem with the options.
    """
    return getattr(_checked(named)[1], "categories", None) or {}


def large(named: Named, rows: int, price: str = "") -> str:
    """Return a sentence on a data set of so many rows that could be sampled and is not; empty for others.

    Args:
        named: its name and options.
        rows: how many it has.
        price: the cost of a training on so many rows.

    Raises:
        SpecError: listing every problem with the options.
    """
    if rows < LARGE or getattr(_checked(named)[1], "rows", rows) is not None:
        return ""
    said = f": {price}" if price else ""
    return (
        f"every training reads {rows:,} rows{said}; dataset.rows: 100000 draws a stratified sample, and costs in "
        "proportion"
    )


def _checked(named: Named) -> tuple[Loader[Any], Strict]:
    loader = DATASETS[named.name]()
    try:
        return loader, loader.Options.model_validate(named.options)
    except ValidationError as error:
        raise SpecError([f"dataset {named.name!r}: {p}" for p in explain(error, loader.Options)]) from error
