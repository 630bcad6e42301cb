"""Who shows a search in another place than the ledger, as it goes: its page, and MLflow."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from tune_vfl.ledger.reading import open_study
from tune_vfl.machine.places import home
from tune_vfl.search.live_page import LivePage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.records.campaigns import CampaignRecord, PlannedCampaign
    from tune_vfl.search.listeners import Listener


def projections(campaign: PlannedCampaign, storage: str | None = None) -> list[Listener]:
    """Return the page that shows how it goes, and the MLflow recorder; a search goes on without what cannot be had.

    Args:
        campaign: what is searched.
        storage: the ledger's database; None is the one of the spec, or that the environment names.
    """
    name, spec = campaign.studies[0].campaign or campaign.name, campaign.studies[0].spec

    def look() -> CampaignRecord:
        return open_study(name, storage or spec.storage).record()

    @cache
    def report() -> Mapping[str, bytes]:
        """Draw the report of the end once, for the page and for MLflow."""
        from reports.page import report_files

        return report_files(look())

    page = LivePage(name, look, home() / "reports" / name, report)
    try:
        from tune_vfl.tracking.mlflow import Recorder

        return [page, Recorder(name, spec.tracking, look, report)]
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
        return [page]
