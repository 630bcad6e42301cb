"""Folders and addresses that environment variables name: the home, the data root, the tracking URI."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from tune_vfl.errors import StudyError, UsageError
from tune_vfl.machine.passwords import from_environment, usable

_SQLITE, _WITH_DRIVER = "sqlite:///", "sqlite+pysqlite:///"


def home() -> Path:
    """Return the folder of the ledger and everything else that a search writes (``TUNE_VFL_HOME``).

    Raises:
        UsageError: when no home is named, and that of the working folder was made by another account.
    """
    named = os.environ.get("TUNE_VFL_HOME")
    place = Path(named or "tune-vfl-home").absolute()
    if not named and os.path.lexists(place) and place.lstat().st_uid not in (0, os.getuid()):
        raise UsageError(
            f"{place} was made by another account of this machine, which may have put a ledger of its own there: set "
            "TUNE_VFL_HOME to a folder of yours, or to this one where it is meant"
        )
    return place


def study_folder(study_id: str) -> Path:
    """Return the folder of a study or a campaign in the home: no other one of its name has the same.

    Raises:
        StudyError: for an id that no program made: files are written and deleted below this name.
    """
    if not re.fullmatch("[0-9a-f]{32}", study_id):
        raise StudyError(f"a study of the ledger has an id that no program made ({study_id!r}): restore a backup")
    return home() / "studies" / study_id


def report_places(name: str, study_id: str) -> tuple[Path, Path]:
    """Return the folder of the report of a study, a campaign or a part of one, and the link of its name to there."""
    return study_folder(study_id) / "reports" / name, home() / "reports" / name


def working_folder_is_gone() -> bool:
    """Return whether the working folder was removed, so that no relative path leads anywhere."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def user_home() -> Path:
    """Return the user's home, and that of tune-vfl for a user without one: a container's may have no name either."""
    try:
        return Path.home()
    except RuntimeError:
        return home()


def of_user(variable: str, usual: str) -> Path:
    """Return the place that an environment variable names, in which ``~`` is the user's home.

    Args:
        variable: its name.
        usual: the place below :func:`user_home` where it is not set or empty.

    Raises:
        UsageError: when the variable names a home that is not there.
    """
    named = os.environ.get(variable)
    if not named:
        return user_home() / usual
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{named}: there is no such home folder; set HOME, or {variable} to a whole path") from error


def data_root() -> Path:
    """Return the data root: ``TUNE_VFL_DATA``, or ``~/.cache/tune-vfl``."""
    return of_user("TUNE_VFL_DATA", ".cache/tune-vfl")


def user_cache() -> Path:
    """Return the folder of what can be made again: ``tune-vfl`` under ``XDG_CACHE_HOME``, or ``~/.cache/tune-vfl``."""
    return of_user("XDG_CACHE_HOME", ".cache") / "tune-vfl"


def embedded_uri() -> str:
    """Return the tracking URI used when none is given: a sqlite file under the home."""
    return sqlite_uri(home() / "mlflow.db")


def sqlite_uri(path: Path) -> str:
    """Return the URL of a sqlite file, in which ``#``, ``%`` and ``?`` of the path are escaped.

    >>> sqlite_uri(Path("/a b/ledger.db"))
    'sqlite:////a b/ledger.db'
    >>> sqlite_uri(Path("/a?b/ledger.db"))
    'sqlite+pysqlite:////a%3Fb/ledger.db'
    """
    escaped = "".join(quote(letter) if letter in "#%?" else letter for letter in str(path))
    # MLflow makes the folder of a sqlite:/// URL, escapes and all; it takes one that names its driver as it is.
    return f"{_SQLITE if escaped == str(path) else _WITH_DRIVER}{escaped}"


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a sqlite URL; None for another URL and for a database in memory."""
    scheme = next((start for start in (_SQLITE, _WITH_DRIVER) if uri.startswith(start)), None)
    name = unquote(uri.removeprefix(scheme).partition("?")[0]) if scheme else ""
    return Path(name) if name and name != ":memory:" else None


def named_uri(tracking: str | None) -> str:
    """Return the tracking URI of a study as it was given, with ``${env:NAME}`` as it stands.

    Args:
        tracking: the spec's ``tracking``, which comes first; then ``MLFLOW_TRACKING_URI``, then the embedded database.
    """
    return tracking or os.environ.get("MLFLOW_TRACKING_URI") or embedded_uri()


def resolve_uri(tracking: str | None) -> str:
    """Return the tracking URI of a study, as MLflow takes it.

    Args:
        tracking: as for :func:`named_uri`.

    Returns:
        A :class:`tune_vfl.machine.passwords.StudyUrl` where a study file alone names it: what such a store holds may be
        a stranger's. What the environment names too is the user's own.

    Raises:
        UsageError: when a study file names a server that is not the user's own, or an environment variable is not set,
            see :func:`tune_vfl.machine.passwords.usable`.
    """
    if tracking and tracking != os.environ.get("MLFLOW_TRACKING_URI"):
        return type(tracking)(usable(tracking, "tracking"))
    return from_environment(named_uri(None), "tracking")
