"""Export of a study or a campaign from the ledger to MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger.reading import open_study
from tune_vfl.machine.streams import tell

if TYPE_CHECKING:
    from tune_vfl.ledger.reading import StoredStudy


def show_in_mlflow(found: StoredStudy) -> None:
    """Write a study or a campaign to MLflow; a study of a campaign together with the whole campaign.

    A failure is reported and not raised: the ledger is complete without MLflow.
    """
    try:
        from tune_vfl.tracking.mlflow import Recorder

        shown = open_study(found.campaign or found.name, found.storage).record()
        Recorder(shown.name, shown.studies[0].spec.tracking).sync(shown)
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        tell(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later")
