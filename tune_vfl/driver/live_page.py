"""The report page of a running search, rewritten as trials end and once more at the end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tune_vfl.machine.runtime import return_memory
from tune_vfl.machine.streams import tell
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord, TrialRecord

# A shorter search has its page at its end alone.
FIRST_AFTER_SECONDS = 30.0
EVERY_SECONDS = 15.0
# The expected time of the first page, with its imports.
_FIRST_TAKES_SECONDS = 3.0
# Writing takes at most one part in this many of the time.
_SHARE = 50
# No page if the search is expected to end within so many times the time of a page.
_SOON = 5


class LivePage:
    """A sink that keeps the report of a search up to date, see :class:`tune_vfl.driver.sinks.Sink`.

    Args:
        name: of the study or campaign.
        look: returns the campaign's current record; not called for a single study.
        report: draws the final report and returns its files by their place in the folder.
        now: returns the time in seconds.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], CampaignRecord],
        report: Callable[[], Mapping[str, bytes]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._look, self._report, self._now = name, look, report, now
        self._begun, self._took = now(), _FIRST_TAKES_SECONDS
        self._next = self._begun + FIRST_AFTER_SECONDS
        self._told = self._shown = False
        self._studies: dict[str, StudyRecord] = {}
        self._new: defaultdict[str, list[TrialRecord]] = defaultdict(list)  # trials that their study lacks

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        """Write the page if it is due."""
        self._told = True
        self._new[study] += records
        if self._now() >= self._next and not self._nearly_over():
            self._write()

    def on_study(self, record: StudyRecord) -> None:
        """Keep the record, so that the page of one study needs no read of the ledger."""
        known = {trial.number for trial in record.trials}
        self._studies[record.name] = record
        self._new[record.name] = [trial for trial in self._new[record.name] if trial.number not in known]

    def on_end(self) -> None:
        """Write the final page if any trial ended."""
        if self._told:
            self._keep(self._report(), "went")

    def left(self) -> str:
        """Return nothing: no other run has to write this page."""
        return ""

    def _write(self) -> None:
        from reports.page import report_files

        begun, study = self._now(), self._studies.get(self._name)
        now = self._look() if study is None else CampaignRecord.of(study.with_trials(self._new[study.name]))
        self._keep(report_files(now, refreshing=True), "goes")
        self._took = self._now() - begun
        self._next = self._now() + max(EVERY_SECONDS, _SHARE * self._took)

    def _nearly_over(self) -> bool:
        """Whether the final page is expected soon: another one would only delay it."""
        known = list(self._studies.values())
        new = sum(len(self._new[study.name]) for study in known)
        left = sum(study.running + study.waiting for study in known) - new
        return bool(known) and left * (self._now() - self._begun) <= _SOON * self._took * new

    def _keep(self, files: Mapping[str, bytes], goes: str) -> None:
        from reports.own_folder import keep_report

        study_id = next(iter(self._studies.values())).id
        page = keep_report(files, self._name, study_id)
        return_memory()
        if not self._shown:
            tell(f"{self._name}: {page} shows how it {goes}")
        self._shown = True
