"""Deletion from MLflow: the runs of a removed study, what MLflow marks as deleted, and artifact folders of nothing."""

from __future__ import annotations

import contextlib
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.environment import environment
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import embedded_uri, home, resolve_uri
from tune_vfl.machine.removing import remove
from tune_vfl.tracking import payload, store
from tune_vfl.tracking.refusals import explained
from tune_vfl.tracking.store import local_path, pages

if TYPE_CHECKING:
    from collections.abc import Collection

    from mlflow import MlflowClient

MOST_AT_ONCE = 500
"""MLflow takes some hundredths of a second to forget a run; more than so many are left to ``tune-vfl clean``."""


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
    ours = {run: local_path(uri) for run, uri in runs.items() if _is_ours(uri)}
    own = [e for e, location in gone.items() if _is_ours(location)]
    return Deleted(ours, own, len(runs) + len(gone) - len(ours) - len(own))


def _is_ours(uri: str) -> bool:
    """Return whether artifacts lie below the home's folder of artifacts."""
    folder = home() / "artifacts"
    return local_path(uri) != folder and local_path(uri).is_relative_to(folder)


def remove_runs(experiment: str, study_id: str, *, part: str | None = None, uri: str | None = None) -> tuple[int, str]:
    """Remove the runs of a study or a campaign from an experiment; runs of others stay.

    An experiment without other runs is removed too, so that a new study may use the name. A tracking server keeps what
    is removed until ``mlflow gc``; the embedded MLflow forgets it, with its artifacts.

    Args:
        experiment: that of a campaign or of a single study.
        study_id: that of the study or the campaign, as the ledger has it.
        part: remove the runs of this study of a campaign alone; the experiment stays.
        uri: the spec's ``tracking``; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.

    Returns:
        How many runs there were, and a sentence where MLflow still holds them as deleted.

    Raises:
        UnreachableError: when MLflow does not answer, or stops answering halfway.
    """
    uri = resolve_uri(uri)
    if not store.is_begun(uri):
        return 0, ""
    client = store.client(uri)
    try:
        found = client.get_experiment_by_name(experiment)
        if found is None or found.lifecycle_stage != "active":
            return 0, ""
        number = found.experiment_id
        runs = list(pages(client.search_runs, experiment_ids=[number]))
        ours = [
            run
            for run in runs
            if payload.is_of(run.data.tags, study_id, uri) and part in (None, run.data.tags.get(payload.STUDY))
        ]
        whole = part is None and 0 < len(ours) == len(runs)
        if whole:
            client.rename_experiment(number, f"{experiment} (removed {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f})")
            client.delete_experiment(number)
        else:
            for run in ours:
                client.delete_run(run.info.run_id)
            if part is None and found.tags.get(payload.STUDY_ID) == study_id:  # the next recording describes it
                client.set_experiment_tag(number, payload.STUDY_ID, "")
    except Exception as error:
        raise UnreachableError(f"{experiment} was not removed to the end: {explained(error, uri)}") from error
    if uri != embedded_uri():
        return len(ours), f"{hide_password(uri)} keeps them as deleted until 'mlflow gc' there"
    artifacts = {run.info.run_id: run.info.artifact_uri for run in ours}
    for folder in filter(_is_ours, [*artifacts.values(), *([found.artifact_location] if whole else [])]):
        with contextlib.suppress(OSError):  # `clean` finds it
            remove(local_path(folder), home() / "artifacts")
    return len(ours), _forget(client, artifacts, [number] if whole else [])


def _forget(client: MlflowClient, runs: Collection[str], experiments: Collection[str]) -> str:
    """Remove deleted runs of the embedded MLflow for good; return a sentence where that is left to ``clean``."""
    if not runs:
        return ""
    # Told of runs alone, MLflow takes all deleted experiments.
    others = deleted(client)
    if len(runs) > MOST_AT_ONCE or (not experiments and (others.experiments or others.elsewhere)):
        return f"{len(runs)} runs are marked as deleted: 'tune-vfl clean' removes them for good"
    try:
        remove_for_good(runs, experiments)
    except UnreachableError as error:
        return str(error)
    return ""


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
    owned = {local_path(e.artifact_location) for e in pages(client.search_experiments, view_type=ViewType.ALL)}
    found = sorted(at.iterdir()) if at.is_dir() and not at.is_symlink() else []
    return [p for p in found if p.is_dir() and not p.is_symlink() and p.name not in names and p not in owned]
