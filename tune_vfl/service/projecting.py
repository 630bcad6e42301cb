"""Export of a study or a campaign from the ledger to MLflow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tune_vfl.campaign.campaign import Campaign, named
from tune_vfl.records.campaigns import CampaignRecord

if TYPE_CHECKING:
    from tune_vfl.campaign.study import Study


def show_in_mlflow(found: Study | Campaign) -> None:
    """Write a study or a campaign to MLflow; a study of a campaign together with the whole campaign.

    A failure is reported and not raised: the ledger is complete without MLflow.
    """
    try:
        from tune_vfl.tracking.mlflow import Recorder

        if not isinstance(found, Campaign) and found.campaign:
            found = named(found.campaign, found.storage)
        shown = CampaignRecord.of(found.record())
        Recorder(shown.name, shown.studies[0].spec.tracking).sync(shown)
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
