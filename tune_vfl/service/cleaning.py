"""``tune-vfl clean``: what nothing uses any more in the home, the caches and the temporary folder."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import TuneVflError, shortened
from tune_vfl.ledger.lease import holders
from tune_vfl.ledger.names import campaign_names, names_in
from tune_vfl.ledger.storage import SqliteFile, storage_at
from tune_vfl.machine.leftovers import leftovers, size_of, temporary_leftovers
from tune_vfl.machine.places import embedded_uri, home, sqlite_path, user_cache
from tune_vfl.machine.presence import is_file, listed
from tune_vfl.machine.removing import remove, remove_empty
from tune_vfl.service.data_copies import of_no_study, place_of_copies

if TYPE_CHECKING:
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
    """The removal of waste, or a look at it.

    Attributes:
        dry_run: look only.
        waste: what can go, or is gone.
        left: sentences on what stays although it could go.
    """

    dry_run: bool
    waste: list[Waste] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of all of it."""
        return sum(waste.size for waste in self.waste)

    def take(self, kind: str, path: Path, below: Path) -> None:
        """Remove a file, or a folder, that lies below another folder."""
        waste = Waste(kind, path, size_of(path))
        try:
            if not self.dry_run:
                remove(path, below)
        except OSError as error:
            self.left.append(f"{path}: cannot be removed ({error.strerror or error})")
        else:
            self.waste.append(waste)


def clean(storage: str | None = None, *, dry_run: bool = False) -> Cleaning:
    """Remove what nothing uses any more; nothing outside the home, the caches and the temporary folder.

    While a search runs, what it writes is left alone: databases, artifacts, MLflow. So are copies of data files that do
    not belong to the ledger.

    Args:
        storage: the ledger's database; None is the one that the environment names.
        dry_run: look only.

    Raises:
        UnreachableError: when the home cannot be looked at; nothing was removed then.
    """
    from tune_vfl.data import cached
    from tune_vfl.kernels import build

    done = Cleaning(dry_run)
    for path in [*temporary_leftovers(), *leftovers(_drafts())]:
        done.take("temporary files", path, path.parent)
    for path in (*build.stale(), *cached.stale()):
        done.take("cache", path, user_cache())
    place = storage_at(storage)
    try:
        running = [name for name, _ in holders(place)] if place.exists() else []
        if running:
            done.left.append(f"ledger, MLflow and artifacts: {', '.join(running)} is being run; clean again later")
            return done
        _clean_tracking(place, done)
        _clean_copies(place, done)
    except (TuneVflError, OSError) as error:
        done.left.append(f"ledger, MLflow and artifacts: {error}")
        return done
    for database in (place.path if isinstance(place, SqliteFile) else None, sqlite_path(embedded_uri())):
        if database is not None and is_file(database):
            _vacuum(database, done)
    return done


def _drafts() -> list[Path]:
    """Return what a process that is killed while it makes MLflow's database or writes a report leaves in the home."""
    drafts = [path for path in listed(home()) if path.match(".mlflow-*")]
    drafts += [path for path in listed(home() / "reports") if path.match(".*-*")]
    drafts += home().glob("studies/*/reports/.*-*")
    inside = home().glob("studies/*/reports/*/.*-*")
    return drafts + [path for path in inside if path.name.startswith(f".{path.parent.name}-")]


def _clean_tracking(place: LedgerStorage, done: Cleaning) -> None:
    """Remove MLflow's deleted runs for good, and artifacts that belong to no experiment and no study."""
    from tune_vfl.tracking import removal, store

    uri = embedded_uri()
    database = sqlite_path(uri)
    if database is None or not store.is_begun(uri):
        return
    client = store.client(uri)
    gone = removal.deleted(client)
    if gone.elsewhere and (not gone.runs or not gone.experiments):  # MLflow could not be told to leave those alone
        done.left.append(
            f"{len(gone.runs)} deleted runs of MLflow: {gone.elsewhere} others lie outside the home, "
            f"which would go too; 'mlflow gc --backend-store-uri {uri}' removes all of them"
        )
    elif gone.runs or gone.experiments:
        size = sum(size_of(folder) for folder in gone.runs.values() if folder.is_dir())
        if not done.dry_run:
            removal.remove_for_good(gone.runs, gone.experiments)
        done.waste.append(Waste(f"{len(gone.runs)} deleted runs of MLflow", database, size))
    names = place.read(lambda c: [*names_in(c), *campaign_names(c)]) if place.exists() else []
    for path in removal.artifact_folders(client, names):
        done.take("artifacts of no study", path, home() / "artifacts")


def _clean_copies(place: LedgerStorage, done: Cleaning) -> None:
    """Remove the ledger's copies of data files that no study names and no process may have made for one to come."""
    own, others = of_no_study(place)
    for copy in leftovers(own):
        done.take("data of no study", copy, place_of_copies())
        if not done.dry_run:
            remove_empty(copy.parent, home())
    if others:
        done.left.append(
            f"{len(others)} folders of copied data: studies of another ledger than {place.shown} may need them, and "
            "nothing tells those of tune-vfl 0.1.0 apart. If no study does, remove them by hand: "
            f"rm -r {shortened([shlex.quote(str(path)) for path in others], 5, ' ')}"
        )


def _vacuum(database: Path, done: Cleaning) -> None:
    """Give back the free pages of a database."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, timeout=5)) as connection:
            (pages,), (size,) = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size")
            )
            if not pages:
                return
            if not done.dry_run:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        done.left.append(f"{database}: {error}")
        return
    done.waste.append(Waste("free pages of a database", database, pages * size))
