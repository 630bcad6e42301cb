"""The page of a search that runs: written anew as trials come in, and once more at the end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.records import StudyRecord, TrialRecord

# A search that is over before has its report made when somebody asks for it.
FIRST_AFTER_SECONDS = 30.0
EVERY_SECONDS = 15.0
# Writing takes at most one part in this many of the time.
_SHARE = 20


class LivePage:
    """Keeps the report of what is searched up to date, as a :class:`tune_vfl.search.listeners.Listener`.

    Args:
        look: returns the campaign, or lone study, as it stands.
        folder: where the report is written.
        now: the time, in seconds.
    """

    def __init__(
        self, look: Callable[[], CampaignRecord], folder: Path, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._look, self._folder, self._now = look, folder, now
        self._next = now() + FIRST_AFTER_SECONDS
        self._shown = False

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Write the page, now and then."""
        if self._now() >= self._next:
            self._write()

    def on_study(self, record: StudyRecord) -> None:
        """Nothing to show that the next trials do not bring."""

    def on_end(self) -> None:
        """Write the page for the last time."""
        if self._shown:
            self._write()

    def left(self) -> str:
        """Nothing is left that another run would have to write."""
        return ""

    def _write(self) -> None:
        from reports.page import write_report

        begun = self._now()
        campaign = self._look()
        page = write_report(campaign, self._folder, refreshing=any(s.running for s in campaign.studies))
        if not self._shown:
            sys.stderr.write(f"{campaign.name}: {page} shows how it goes\n")
        self._shown = True
        self._next = self._now() + max(EVERY_SECONDS, _SHARE * (self._now() - begun))
