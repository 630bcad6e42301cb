"""The MLflow tracking store: connect, create the embedded sqlite database, and move a damaged one away."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tune_vfl.errors import UnreachableError
from tune_vfl.ledger.storage import DAMAGED
from tune_vfl.machine.passwords import StudyUrl
from tune_vfl.machine.places import embedded_uri, home, sqlite_path, sqlite_uri
from tune_vfl.machine.presence import is_file
from tune_vfl.machine.removing import remove
from tune_vfl.tracking.refusals import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlflow import MlflowClient

_PAGE = 1000
MLFLOWS = "mlruns"
"""MLflow's own name of a folder of artifacts."""


def artifact_root(uri: str) -> Path | None:
    """Return the artifacts' folder of the embedded database, or of one that a study file names; None for others."""
    if uri == embedded_uri():
        return home() / "artifacts"
    database = sqlite_path(uri) if isinstance(uri, StudyUrl) else None
    return None if database is None else database.absolute().parent / MLFLOWS


def artifact_folder(uri: str, study: str) -> str | None:
    """Return a study's artifact folder; None leaves the choice to MLflow."""
    root = artifact_root(uri)
    return None if root is None else (root / study).as_uri()


def local_path(uri: str) -> Path:
    """Return the path in a ``file:`` URL."""
    return Path(unquote(urlsplit(uri).path)).absolute()


def is_elsewhere(location: str, uri: str, study: str) -> bool:
    """Return whether an experiment keeps its artifacts outside the home, which has been moved or copied since then."""
    ours = artifact_folder(uri, study)
    if ours is None or location == ours:
        return False
    old, new = map(local_path, (location, ours))
    if old.parts[-2:] != new.parts[-2:]:  # an experiment that another program began
        return False
    return not (old.exists() and new.exists() and old.samefile(new))


def quiet() -> None:
    """Turn off MLflow's routine logging, its telemetry, its links on stdout, and retries of a dead server for minutes.

    Stdout is for data only.
    """
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    import logging

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def client(uri: str) -> MlflowClient:
    """Return a client of a tracking server that answers; the embedded database is created when it is missing.

    Args:
        uri: from :func:`tune_vfl.machine.places.resolve_uri`.

    Raises:
        UnreachableError: when it does not answer, or refuses.
    """
    try:
        _create_sqlite(uri)
        return _answering(uri)
    except Exception as error:
        raise UnreachableError(explained(error, uri)) from error


def _answering(uri: str) -> MlflowClient:
    """Return a client of a tracking store that has answered: the one function that connects to one."""
    quiet()
    import mlflow

    found = mlflow.MlflowClient(tracking_uri=uri)
    found.search_experiments(max_results=1)
    return found


def pages(search: Callable[..., Any], **wanted: Any) -> Iterator[Any]:
    """Yield all that a search of MLflow's client finds, page by page."""
    token: str | None = None
    while True:
        page = search(**wanted, max_results=_PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def is_begun(uri: str) -> bool:
    """Return whether the store exists: a sqlite file may not have been created yet.

    Raises:
        UnreachableError: when that cannot be known.
    """
    path = sqlite_path(uri)
    return path is None or is_file(path)


def is_damaged(uri: str) -> bool:
    """Return whether the tracking database is a sqlite file that sqlite cannot read."""
    path = sqlite_path(uri)
    if path is None or not is_file(path):
        return False
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        try:
            return bool(connection.execute("PRAGMA quick_check").fetchone()[0] != "ok")
        finally:
            connection.close()
    except sqlite3.Error as error:
        return any(mark in str(error) for mark in DAMAGED)


def move_damaged_away(uri: str) -> Path | None:
    """Rename a damaged embedded database, so that it can be rebuilt from the ledger.

    Returns:
        Its new path; None when it is not damaged, or is not the embedded one.
    """
    path = sqlite_path(uri)
    if uri != embedded_uri() or path is None or not is_damaged(uri):
        return None
    moved = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    path.replace(moved)
    remove(path.with_name(f"{path.name}-shm"), home())
    log = path.with_name(f"{path.name}-wal")
    if log.exists():  # with what it holds more than the file, for those who want to mend it
        log.replace(f"{moved}-wal")
    return moved


def _create_sqlite(uri: str) -> None:
    """Create a sqlite database under another name, then rename it: a process killed on the way leaves none behind."""
    path = sqlite_path(uri)
    if path is None or path.exists():
        return
    from filelock import FileLock

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.exists():
            return
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".mlflow-") as folder:
            draft = Path(folder) / path.name
            _make_tables(draft)
            draft.chmod(0o600)  # for its user alone, whatever the umask
            draft.replace(path)


def _make_tables(path: Path) -> None:
    """Create MLflow's tables in a file with a write-ahead log: readers (the UI) do not block the writer."""
    _answering(sqlite_uri(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
