"""The latest report that was made: whoever asks for one of the same state of a campaign gets the same files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger.state import state_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.ledger.campaigns import CampaignRecord


class LatestReport:
    """Makes reports and holds the last: at a search's end its page and MLflow's are one, and are made once."""

    def __init__(self) -> None:
        self._state = ""
        self._files: Mapping[str, bytes] = {}

    def of(self, campaign: CampaignRecord) -> Mapping[str, bytes]:
        """Return the files of a campaign's report, by their place in its folder."""
        from reports.page import report_files

        state = state_of(campaign)
        if state != self._state:
            self._files, self._state = report_files(campaign), state
        return self._files
