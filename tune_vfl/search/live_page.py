"""The page of a search: written anew as trials come in, and once more at the end."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tune_vfl.ledger.campaigns import CampaignRecord
from tune_vfl.machine.runtime import return_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reports.latest import LatestReport
    from tune_vfl.ledger.records import StudyRecord, TrialRecord

# A search that is over before has its page at its end alone.
FIRST_AFTER_SECONDS = 30.0
EVERY_SECONDS = 15.0
# Writing takes at most one part in this many of the time.
_SHARE = 50
# Not if the search is expected to end within so many times what a page takes.
_SOON = 5


class LivePage:
    """Keeps the report of what is searched up to date, as a :class:`tune_vfl.search.listeners.Listener`.

    Args:
        look: returns the campaign as it stands; a lone study is what was told of it.
        folder: where the report is written.
        latest: makes the report of the end, which others want too.
        now: the time, in seconds.
    """

    def __init__(
        self,
        look: Callable[[], CampaignRecord],
        folder: Path,
        latest: LatestReport,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._folder, self._latest, self._now = look, folder, latest, now
        self._begun, self._took = now(), 0.0
        self._next = self._begun + FIRST_AFTER_SECONDS
        self._told = self._shown = False
        self._lone: StudyRecord | None = None
        self._trials: dict[int, TrialRecord] = {}

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Write the page, now and then."""
        self._told = True
        if study == self._folder.name:
            self._trials |= {record.number: record for record in records}
        if self._now() >= self._next and not self._nearly_over():
            self._write()

    def on_study(self, record: StudyRecord) -> None:
        """Remember a lone study: the ledger need not be read for its page."""
        if record.name == self._folder.name:
            self._lone, self._trials = record, {t.number: t for t in record.trials}

    def on_end(self) -> None:
        """Write the page for the last time, where there was anything new."""
        from reports.page import place_report

        if self._told:
            campaign = self._campaign()
            self._written(campaign, place_report(self._latest.of(campaign), self._folder), "went")

    def left(self) -> str:
        """Nothing is left that another run would have to write."""
        return ""

    def _write(self) -> None:
        import optuna.importance  # noqa: F401 - the last page needs it: imported while trials run, nobody waits for it

        from reports.page import write_report

        begun = self._now()
        campaign = self._campaign()
        page = write_report(campaign, self._folder, refreshing=True)
        self._written(campaign, page, "goes")
        self._took = self._now() - begun
        self._next = self._now() + max(EVERY_SECONDS, _SHARE * self._took)

    def _nearly_over(self) -> bool:
        """Whether the last page comes soon, as far as is known: another one would only put it off."""
        if self._lone is None:
            return False
        new = len(self._trials) - len(self._lone.trials)
        left = self._lone.running + self._lone.waiting - new
        return left * (self._now() - self._begun) < _SOON * self._took * new

    def _campaign(self) -> CampaignRecord:
        """Return what is searched as it stands."""
        if self._lone is None:
            return self._look()
        total = len(self._lone.counted) + self._lone.running + self._lone.waiting
        now = replace(self._lone, trials=tuple(self._trials[n] for n in sorted(self._trials)), running=0)
        return CampaignRecord.of(replace(now, waiting=max(0, total - len(now.counted))))

    def _written(self, campaign: CampaignRecord, page: Path, goes: str) -> None:
        return_memory()
        if not self._shown:
            sys.stderr.write(f"{campaign.name}: {page} shows how it {goes}\n")
        self._shown = True
