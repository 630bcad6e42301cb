"""Showing in MLflow what the ledger holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tune_vfl.campaign.campaign import Campaign, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.ledger.records import StudyRecord
    from tune_vfl.ledger.study import Study


def experiment_of(found: Study | Campaign, storage: str | None = None) -> tuple[str, Sequence[StudyRecord]]:
    """Return the name of the experiment that shows a study or a campaign, and all studies that it shows.

    A part of a campaign is shown with the whole of it.
    """
    if not isinstance(found, Campaign) and found.campaign:
        found = named(found.campaign, storage or found.storage)
    if isinstance(found, Campaign):
        return found.name, found.record().studies
    return found.name, [found.record()]


def show_in_mlflow(found: Study | Campaign) -> None:
    """Write a study, or a campaign, to MLflow; the ledger has all of it, whatever becomes of that."""
    try:
        from tune_vfl.tracking.mlflow import Recorder

        experiment, records = experiment_of(found)
        Recorder(experiment, records[0].spec.tracking).sync(records)
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
