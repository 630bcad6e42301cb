"""Files beside MLflow's runs; a database that a study file names keeps them beside itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.passwords import StudyUrl, server_of
from tune_vfl.machine.places import home
from tune_vfl.tracking.store import MLFLOWS, artifact_root, local_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

_URL = re.compile(r"[A-Za-z][\w+.-]*:")


class Artifacts:
    """Writes files beside runs.

    A database that a study file names may have come with it, and where that database says that a run's files are may be
    a stranger's server, to which MLflow would bring MLFLOW_TRACKING_TOKEN along, or a folder of the user's. Such a
    place is looked at, and what was looked at is written to: MLflow would ask the database again.

    Args:
        client: that of the tracking store.
        uri: the store's, a :class:`tune_vfl.machine.passwords.StudyUrl` where a study file names it.
    """

    def __init__(self, client: MlflowClient, uri: str) -> None:
        self._client, self._uri = client, uri
        self._allowed = _allowed(uri) if isinstance(uri, StudyUrl) and server_of(uri) is None else None

    def log_text(self, run_id: str, text: str, name: str) -> None:
        """Store a text as a file beside a run.

        Raises:
            UnreachableError: when a study file's database has the run's files elsewhere than beside itself.
        """
        if self._allowed is None:
            self._client.log_text(run_id, text, name)
        else:
            self._write(self._place(run_id) / name, text.encode())

    def log_folder(self, run_id: str, folder: Path, name: str) -> None:
        """Store the files of a folder beside a run, in the folder ``name``; errors are those of :meth:`log_text`."""
        if self._allowed is None:
            self._client.log_artifacts(run_id, str(folder), name)
            return
        place = self._place(run_id) / name
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            self._write(place / file.relative_to(folder), file.read_bytes())

    def _place(self, run_id: str) -> Path:
        location = self._client.get_run(run_id).info.artifact_uri
        if location.startswith("file:///"):
            return local_path(location)
        if _URL.match(location):
            raise self._refused(location)
        return Path(unquote(location)).absolute()  # as MLflow reads a path

    def _write(self, path: Path, content: bytes) -> None:
        if not any(path.parent.resolve().is_relative_to(folder) for folder in self._allowed or ()):
            raise self._refused(str(path.parent))
        with written_whole(path) as draft:  # which replaces a link of that name and does not follow it
            draft.write_bytes(content)

    def _refused(self, location: str) -> UnreachableError:
        return UnreachableError(
            f"MLflow at {self._uri} has files of a run at {location!r}: nothing was sent or written there, since a "
            f"study file names this database, and its files belong below {' or '.join(map(str, self._allowed or ()))}; "
            f"if the database is yours, export MLFLOW_TRACKING_URI={self._uri}"
        )


def _allowed(uri: str) -> list[Path]:
    """Return the folders below which a study file's store may have files of runs, real paths but for their last name.

    Beside the database, in its place in the home, and where MLflow puts them when nobody says where: in the working
    folder, or in a store that is a folder itself.
    """
    own = (artifact_root(uri) or local_path(uri), home() / "artifacts", Path(MLFLOWS).absolute())
    return list(dict.fromkeys(folder.parent.resolve() / folder.name for folder in own))
