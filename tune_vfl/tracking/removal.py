"""Deletion of MLflow runs after their study is removed from the ledger."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import embedded_uri, home, resolve_uri
from tune_vfl.machine.removing import remove
from tune_vfl.tracking import payload, store
from tune_vfl.tracking.deleted import deleted, is_ours, remove_for_good
from tune_vfl.tracking.refusals import explained
from tune_vfl.tracking.store import local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlflow import MlflowClient

MOST_AT_ONCE = 500
"""MLflow takes some hundredths of a second to forget a run; more than so many are left to ``tune-vfl clean``."""


class RemovedRuns(NamedTuple):
    """The result of removing the runs of a study or a campaign.

    Attributes:
        number: how many runs there were.
        left: a sentence where MLflow still holds them as deleted; empty where they are gone.
    """

    number: int
    left: str


def remove_runs(experiment: str, study_id: str, *, part: str | None = None, uri: str | None = None) -> RemovedRuns:
    """Remove the runs of a study or a campaign from an experiment; runs of others stay.

    An experiment without other runs is removed too, so that a new study may use the name. A tracking server keeps what
    is removed until ``mlflow gc``; the embedded MLflow forgets it, with its artifacts.

    Args:
        experiment: that of a campaign or of a single study.
        study_id: that of the study or the campaign, as the ledger has it.
        part: remove the runs of this study of a campaign alone; the experiment stays.
        uri: the spec's ``tracking``; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.

    Raises:
        UnreachableError: when MLflow does not answer, or stops answering halfway.
    """
    uri = resolve_uri(uri)
    if not store.is_begun(uri):
        return RemovedRuns(0, "")
    client = store.client(uri)
    try:
        found = client.get_experiment_by_name(experiment)
        if found is None or found.lifecycle_stage != "active":
            return RemovedRuns(0, "")
        runs = list(store.pages(client.search_runs, experiment_ids=[found.experiment_id]))
        ours = [
            run
            for run in runs
            if payload.is_of(run.data.tags, study_id, uri) and part in (None, run.data.tags.get(payload.STUDY))
        ]
        whole = part is None and 0 < len(ours) == len(runs)
        if whole:
            client.rename_experiment(
                found.experiment_id, f"{experiment} (removed {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f})"
            )
            client.delete_experiment(found.experiment_id)
        else:
            for run in ours:
                client.delete_run(run.info.run_id)
            if part is None and found.tags.get(payload.STUDY_ID) == study_id:  # the next recording describes it
                client.set_experiment_tag(found.experiment_id, payload.STUDY_ID, "")
    except Exception as error:
        raise UnreachableError(f"{experiment} was not removed to the end: {explained(error, uri)}") from error
    if uri != embedded_uri():
        return RemovedRuns(len(ours), f"{hide_password(uri)} keeps them as deleted until 'mlflow gc' there")
    return RemovedRuns(len(ours), _forget(client, found, ours, whole=whole))


def _forget(client: MlflowClient, experiment: Any, runs: Sequence[Any], *, whole: bool) -> str:
    """Remove deleted runs of the embedded MLflow for good; return a sentence where that is left to ``clean``."""
    folders = [run.info.artifact_uri for run in runs] + ([experiment.artifact_location] if whole else [])
    for folder in filter(is_ours, folders):
        with suppress(OSError):  # `clean` finds it
            remove(local_path(folder), home() / "artifacts")
    if not runs:
        return ""
    # Told of runs alone, MLflow takes all deleted experiments.
    others = deleted(client)
    if len(runs) > MOST_AT_ONCE or (not whole and (others.experiments or others.elsewhere)):
        return f"{len(runs)} runs are marked as deleted: 'tune-vfl clean' removes them for good"
    try:
        remove_for_good([run.info.run_id for run in runs], [experiment.experiment_id] if whole else [])
    except UnreachableError as error:
        return str(error)
    return ""
