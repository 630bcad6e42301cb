"""Copies of a user's own data files in the home, in which every later verb on the study finds them.

A copy is at ``data/LEDGER/STUDY/DIGEST/NAME`` in the home, below the identity of the ledger to which it belongs. Those
at ``data/STUDY/DIGEST/NAME`` are of tune-vfl 0.1.0, and of whatever ledger.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.data.own_files import content_digest, own_files, relocated
from tune_vfl.driver.planning import refuse_mistakes, with_all_defenses
from tune_vfl.errors import TuneVflError, UnwritableError
from tune_vfl.ledger.removing import data_files
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import home
from tune_vfl.machine.removing import remove, remove_empty
from tune_vfl.spec.raw import expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tune_vfl.ledger.database import LedgerStorage


def place_of_copies() -> Path:
    """Return the folder of all copies: ``data`` in the home."""
    return home() / "data"


@contextmanager
def copied(raw: Mapping[str, Any], storage: str | None = None) -> Iterator[dict[str, Any]]:
    """Copy the own data files of a spec into the home, and yield the spec that names the copies.

    A copy is for its user alone. The same content has the same path, so that a spec that comes again is the same study:
    the one that the study names already, wherever that lies in the home. A copy that was made here and that no study
    names when the block ends is removed.

    Args:
        raw: the spec, settings applied.
        storage: the ledger's database, made where there is none; None is the one that the environment names.

    Raises:
        SpecError: with every problem that shows without the data.
        DataError: for a file that cannot be read.
        UnwritableError: when the home cannot be written.
        UnreachableError: when the ledger does not answer or cannot be written.
    """
    refuse_mistakes(expand(with_all_defenses(raw)))
    name = str(raw.get("study") or "")
    if not name:  # the plan refuses it
        yield dict(raw)
        return
    place, made = storage_at(storage), list[Path]()
    try:
        place.make()
        below = place_of_copies() / place.identity() / name
        held = {path.parts[-2:]: path for path in place.read(lambda c: data_files(c, name)) if _is_copy(path)}
        places = {}
        for path in own_files(raw):
            digest = content_digest(path)
            copy = held.get((digest, path.name), below / digest / path.name)
            places[path] = str(copy)
            if not copy.is_file() or content_digest(copy) != digest:
                made.append(copy)
                _copy(path, copy)
        yield relocated(raw, places)
    finally:
        with suppress(TuneVflError, OSError):  # the ledger does not answer: `clean` removes it later
            for copy in unnamed(made, place):
                remove_copy(copy)
        place.close()


def of_no_study(place: LedgerStorage) -> tuple[list[Path], list[Path]]:
    """Return the copies of a ledger that none of its studies names, and the folders that another ledger may need.

    Raises:
        StudyError: when another program has made the ledger's tables.
        UnreachableError: when the ledger does not answer.
        DamagedError: when a study cannot be read.
    """
    identity, root = place.identity(), place_of_copies()
    copies = sorted(path for path in root.rglob("*") if path.is_file())
    if identity:
        copies = unnamed(copies, place)
    own = [copy for copy in copies if copy.relative_to(root).parts[0] == identity]
    return own, list(dict.fromkeys(copy.parent for copy in copies if copy not in own))


def unnamed(copies: Iterable[Path], place: LedgerStorage) -> list[Path]:
    """Return the copies that no study of a ledger names; errors are those of :func:`of_no_study`.

    They are compared by study, digest and name alone: a home may have been moved, or have several names.
    """
    copies = list(copies)
    named = {path.parts[-3:] for path in place.read(data_files)} if copies else set()
    return [copy for copy in copies if copy.parts[-3:] not in named]


def remove_copies(files: Iterable[Path], place: LedgerStorage) -> tuple[list[Path], list[str]]:
    """Remove the copies among the data files of studies that were removed, but what other studies name too.

    Returns:
        The removed files, and sentences on those that are left.
    """
    removed, left = list[Path](), list[str]()
    copies = [path for path in files if _is_copy(path) and path.is_file()]
    try:
        for copy in unnamed(copies, place):
            try:
                remove_copy(copy)
                removed.append(copy)
            except OSError as error:
                left.append(f"data {copy}: cannot be removed ({error.strerror or error})")
    except TuneVflError as error:
        left.append(f"data {', '.join(map(str, copies))}: whether other studies need it cannot be known ({error})")
    return removed, left


def remove_copy(copy: Path) -> None:
    """Remove a copy, and the folders above it that are empty then.

    Raises:
        OSError: when it cannot be removed.
    """
    remove(copy, place_of_copies())
    remove_empty(copy.parent, home())


def _is_copy(path: Path) -> bool:
    """Return whether a data file lies in the folder of copies."""
    return path.parent.resolve().is_relative_to(place_of_copies().resolve())


def _copy(path: Path, copy: Path) -> None:
    try:
        home().mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in reversed([above for above in copy.parents if home() in above.parents]):
            folder.mkdir(mode=0o700, exist_ok=True)
        with written_whole(copy, mode=0o600) as draft:
            shutil.copyfile(path, draft)
    except OSError as error:
        raise UnwritableError(f"{copy}: {path} cannot be copied there ({error.strerror or error})") from error
