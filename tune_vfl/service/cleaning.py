"""``tune-vfl clean``: what nothing uses any more in the home, the caches and the temporary folder."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import TuneVflError
from tune_vfl.ledger.lease import holders
from tune_vfl.ledger.names import campaign_names, names_in
from tune_vfl.ledger.storage import SqliteFile, storage_at
from tune_vfl.machine.leftovers import leftovers, size_of, temporary_leftovers
from tune_vfl.machine.places import embedded_uri, home, sqlite_path
from tune_vfl.service.data_copies import place_of_copies, remove_copy, unused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tune_vfl.ledger.database import LedgerStorage


class Waste(NamedTuple):
    """A file, a folder or the free space of a database that can be removed.

    Attributes:
        kind: such as ``cache``, in the words of the command's answer.
        path: the file or the folder; of a database, what is free in it.
        size: its bytes.
    """

    kind: str
    path: Path
    size: int


@dataclass
class Cleaning:
    """The result of looking for waste, or of removing it.

    Attributes:
        waste: what can go, or is gone.
        left: sentences on what stays although it could go.
    """

    waste: list[Waste] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of all of it."""
        return sum(waste.size for waste in self.waste)


def clean(storage: str | None = None, *, dry_run: bool = False) -> Cleaning:
    """Remove what nothing uses any more; nothing outside the home, the caches and the temporary folder.

    While a search runs, what it writes is left alone: databases, artifacts, MLflow.

    Args:
        storage: the ledger's database; None is the one that the environment names.
        dry_run: look only.
    """
    done = Cleaning()
    for waste in (*_temporary(), *_caches()):
        if dry_run or _remove(waste, done):
            done.waste.append(waste)
    place = storage_at(storage)
    try:
        running = [name for name, _ in holders(place)] if place.exists() else []
        if running:
            done.left.append(f"ledger, MLflow and artifacts: {', '.join(running)} is being run; clean again later")
            return done
        _clean_tracking(place, done, dry_run=dry_run)
        _clean_copies(storage, done, dry_run=dry_run)
    except TuneVflError as error:
        done.left.append(f"ledger, MLflow and artifacts: {error}")
        return done
    for database in _databases(place):
        _vacuum(database, done, dry_run=dry_run)
    return done


def _temporary() -> Iterator[Waste]:
    drafts = [*home().glob(".mlflow-*"), *(home() / "reports").glob(".*-*")]
    for path in (*temporary_leftovers(), *leftovers(sorted(drafts))):
        yield Waste("temporary files", path, size_of(path))


def _caches() -> Iterator[Waste]:
    from tune_vfl.data import cached
    from tune_vfl.kernels import build

    for path in (*build.stale(), *cached.stale()):
        yield Waste("cache", path, size_of(path))


def _clean_tracking(place: LedgerStorage, done: Cleaning, *, dry_run: bool) -> None:
    """Remove MLflow's deleted runs for good, and artifacts that belong to no experiment and no study."""
    from tune_vfl.tracking import deleted, store

    uri = embedded_uri()
    database = sqlite_path(uri)
    if database is None or not store.is_begun(uri):
        return
    client = store.client(uri)
    gone = deleted.deleted(client)
    if gone.elsewhere and (not gone.runs or not gone.experiments):  # MLflow could not be told to leave those alone
        done.left.append(
            f"{len(gone.runs)} deleted runs of MLflow: {gone.elsewhere} others lie outside the home, "
            f"which would go too; 'mlflow gc --backend-store-uri {uri}' removes all of them"
        )
    elif gone.runs or gone.experiments:
        size = sum(size_of(folder) for folder in gone.runs.values() if folder.is_dir())
        if not dry_run:
            deleted.remove_for_good(gone.runs, gone.experiments)
        done.waste.append(Waste(f"{len(gone.runs)} deleted runs of MLflow", database, size))
    names = place.read(lambda c: [*names_in(c), *campaign_names(c)]) if place.exists() else []
    for path in deleted.artifact_folders(client, names):
        waste = Waste("artifacts of no study", path, size_of(path))
        if dry_run or _remove(waste, done):
            done.waste.append(waste)


def _clean_copies(storage: str | None, done: Cleaning, *, dry_run: bool) -> None:
    """Remove copies of data files that no study names, and that no process may have made for a study to come."""
    place = place_of_copies()
    for study in sorted(place.iterdir()) if place.is_dir() else ():
        for copy in leftovers(unused(study.name, storage)):
            waste = Waste("data of no study", copy, size_of(copy))
            if dry_run or _remove(waste, done, remove_copy):
                done.waste.append(waste)


def _databases(place: LedgerStorage) -> Iterator[Path]:
    if isinstance(place, SqliteFile):
        yield place.path
    tracking = sqlite_path(embedded_uri())
    if tracking is not None:
        yield tracking


def _vacuum(database: Path, done: Cleaning, *, dry_run: bool) -> None:
    """Give back the free pages of a database."""
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, timeout=5)) as connection:
            (pages,), (size,) = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size")
            )
            if not pages:
                return
            if not dry_run:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        done.left.append(f"{database}: {error}")
        return
    done.waste.append(Waste("free pages of a database", database, pages * size))


def _remove_path(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _remove(waste: Waste, done: Cleaning, remove: Callable[[Path], None] = _remove_path) -> bool:
    try:
        remove(waste.path)
    except OSError as error:
        done.left.append(f"{waste.path}: cannot be removed ({error.strerror or error})")
        return False
    return True
