"""Deletion of MLflow runs after their study is removed from the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.places import resolve_uri
from tune_vfl.tracking import payload, store
from tune_vfl.tracking.refusals import explained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlflow import MlflowClient

_OURS = "tune_vfl."
_PAGE = 1000


def remove_runs(experiment: str, study: str | None = None, uri: str | None = None) -> int:
    """Mark the runs of an experiment as deleted; MLflow keeps them until ``mlflow gc``. Runs of others stay.

    An experiment without other runs is renamed and deleted too, so that a new study may use the name.

    Args:
        experiment: that of a campaign or of a single study.
        study: delete the runs of this study alone; the experiment stays.
        uri: the spec's ``tracking``; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.

    Returns:
        The number of marked runs.

    Raises:
        UnreachableError: when MLflow does not answer, or stops answering halfway.
    """
    uri = resolve_uri(uri)
    if not store.is_begun(uri):
        return 0
    client = store.client(uri)
    try:
        found = client.get_experiment_by_name(experiment)
        if found is None or found.lifecycle_stage != "active":
            return 0
        runs = list(_runs(client, found.experiment_id))
        ours = [run for run in runs if _is_ours(run, study)]
        if study is None and len(ours) == len(runs):
            client.rename_experiment(
                found.experiment_id, f"{experiment} (removed {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f})"
            )
            client.delete_experiment(found.experiment_id)
        else:
            for run in ours:
                client.delete_run(run.info.run_id)
    except Exception as error:
        raise UnreachableError(f"{experiment} was not removed to the end: {explained(error, uri)}") from error
    return len(ours)


def _is_ours(run: Any, study: str | None) -> bool:
    tags = run.data.tags
    return tags.get(payload.STUDY) == study if study is not None else any(name.startswith(_OURS) for name in tags)


def _runs(client: MlflowClient, experiment_id: str) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = client.search_runs([experiment_id], max_results=_PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
