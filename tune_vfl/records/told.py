"""A study as a listener knows it: told whole now and then, and trial by trial since."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tune_vfl.records.studies import StudyRecord, TrialRecord


class ToldStudy:
    """Puts together what was told of one study, so that the ledger need not be read for it."""

    def __init__(self) -> None:
        self._whole: StudyRecord | None = None
        self._trials: dict[int, TrialRecord] = {}

    @property
    def known(self) -> bool:
        """Whether it was ever told whole; until then its trials are only remembered."""
        return self._whole is not None

    @property
    def whole(self) -> StudyRecord:
        """The study as it was last told whole.

        Raises:
            ValueError: when it never was.
        """
        if self._whole is None:
            raise ValueError("this study was not told whole yet; call on_study first")
        return self._whole

    @property
    def trials(self) -> Collection[TrialRecord]:
        """All its finished trials, preempted ones included."""
        return self._trials.values()

    def learn(self, record: StudyRecord) -> None:
        """Learn the study as it stands; trials that it does not have yet were finished since."""
        self._whole = record
        self.add(record.trials)

    def add(self, trials: Iterable[TrialRecord]) -> None:
        """Add finished trials."""
        self._trials |= {trial.number: trial for trial in trials}

    @property
    def now(self) -> StudyRecord:
        """The study with all its trials, by number; what runs counts as owed. Only once it was told whole."""
        whole = self.whole
        owed = len(whole.counted) + whole.running + whole.waiting
        now = replace(whole, trials=tuple(self._trials[n] for n in sorted(self._trials)), running=0)
        return replace(now, waiting=max(0, owed - len(now.counted)))
