"""Removal for good of runs that MLflow marks as deleted, and of artifact folders without an experiment or a study."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.environment import environment
from tune_vfl.machine.places import embedded_uri, home
from tune_vfl.tracking.store import local_path, pages

if TYPE_CHECKING:
    from collections.abc import Collection

    from mlflow import MlflowClient


class Deleted(NamedTuple):
    """Runs and experiments that the embedded MLflow marks as deleted.

    Attributes:
        runs: their ids, with their artifacts' folders.
        experiments: the ids of those with artifacts under the home.
        elsewhere: the number of runs and experiments with artifacts outside the home, as of a home that was copied.
    """

    runs: dict[str, Path]
    experiments: list[str]
    elsewhere: int


def deleted(client: MlflowClient) -> Deleted:
    """Ask MLflow for deleted runs and experiments."""
    from mlflow.entities import ViewType

    experiments = list(pages(client.search_experiments, view_type=ViewType.ALL))
    gone = {e.experiment_id: e.artifact_location for e in experiments if e.lifecycle_stage == "deleted"}
    of = [e.experiment_id for e in experiments]
    found = list(pages(client.search_runs, experiment_ids=of, run_view_type=ViewType.DELETED_ONLY)) if of else []
    runs = {run.info.run_id: run.info.artifact_uri for run in found}
    ours = {run: local_path(uri) for run, uri in runs.items() if is_ours(uri)}
    own = [e for e, location in gone.items() if is_ours(location)]
    return Deleted(ours, own, len(runs) + len(gone) - len(ours) - len(own))


def is_ours(uri: str) -> bool:
    """Return whether artifacts lie below the home's folder of artifacts."""
    folder = home() / "artifacts"
    return local_path(uri) != folder and local_path(uri).is_relative_to(folder)


def remove_for_good(runs: Collection[str], experiments: Collection[str]) -> None:
    """Remove deleted runs and experiments of the embedded MLflow, with their artifacts.

    Args:
        runs: their ids; without any, MLflow takes all deleted ones.
        experiments: likewise.

    Raises:
        UnreachableError: when MLflow fails.
    """
    from mlflow.cli import cli

    uri = embedded_uri()
    named = ["--run-ids", ",".join(runs)] if runs else []
    named += ["--experiment-ids", ",".join(experiments)] if experiments else []
    said = io.StringIO()
    try:
        with (
            environment({"MLFLOW_TRACKING_URI": uri}),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            cli.main(["gc", "--backend-store-uri", uri, *named], standalone_mode=False)
    except Exception as error:
        raise UnreachableError(f"'mlflow gc' failed: {str(error).strip() or type(error).__name__}") from error


def artifact_folders(client: MlflowClient, names: Collection[str]) -> list[Path]:
    """Return the artifact folders under the home that belong to no experiment of MLflow's and to no study.

    Args:
        client: of the embedded MLflow.
        names: of the studies and campaigns in the ledger.
    """
    from mlflow.entities import ViewType

    at = home() / "artifacts"
    experiments = pages(client.search_experiments, view_type=ViewType.ALL)
    owned = {local_path(e.artifact_location) for e in experiments}
    found = sorted(at.iterdir()) if at.is_dir() and not at.is_symlink() else []
    return [p for p in found if p.is_dir() and not p.is_symlink() and p.name not in names and p not in owned]
