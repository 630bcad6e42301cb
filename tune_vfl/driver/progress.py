"""The progress of a search on stderr: a bar on a terminal, a plain line every 15 seconds elsewhere."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tune_vfl.machine.streams import visible
from tune_vfl.metrics.pareto import GrowingFront
from tune_vfl.records.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.outcome import Outcome
    from tune_vfl.records.studies import StudyRecord, TrialRecord

LINE_EVERY_SECONDS, BAR_EVERY_SECONDS, TICK_SECONDS = 15.0, 0.5, 0.5
"""Seconds between two plain lines, between two updates of a bar's text, and between two looks while Ray starts."""


class RunProgress:
    """The progress of a running search: trials by outcome, the front, the remaining time.

    Args:
        records: its studies at the start of this run.

    Attributes:
        beside: returns what is measured beside the trials right now, in words.
    """

    def __init__(self, records: Sequence[StudyRecord]) -> None:
        self.owed = {r.name: r.running + r.waiting for r in records}
        self.total = sum(len(r.counted) + r.running + r.waiting for r in records)
        self.counts: Counter[str] = Counter(t.outcome.outcome for r in records for t in r.trials)
        self.running = 0
        # Settings of one data set compete with each other, those of several do not.
        self.dataset_of = {r.name: r.cell.dataset.name for r in records}
        self.beside: Callable[[], Sequence[str]] = lambda: ["starting workers"]
        self._begun = False
        self._pace = Pace()
        self._over = False
        self.follow(records)

    def follow(self, records: Sequence[StudyRecord]) -> None:
        """Restart the fronts from these records."""
        self._fronts = {r.cell.dataset.name: GrowingFront(r.reference_point) for r in records}
        for record in records:
            for trial in record.ok:
                self._fronts[record.cell.dataset.name].add(*trial.outcome.objectives)
        self.hypervolume = self._area
        self.grew_at = self.done

    @property
    def _area(self) -> float:
        """The hypervolume, of several data sets the mean."""
        return sum(front.area for front in self._fronts.values()) / len(self._fronts)

    @property
    def done(self) -> int:
        """Finished trials that count."""
        return sum(n for outcome, n in self.counts.items() if outcome != "preempted")

    @property
    def front_size(self) -> int:
        """The number of points on the front."""
        return sum(front.size for front in self._fronts.values())

    @property
    def eta_seconds(self) -> float:
        """Seconds until the budget is used up; infinite before a trial has ended, see :class:`Pace`."""
        return self._pace.seconds_left(time.monotonic(), self.running, max(0, self.total - self.done - self.running))

    def asked(self, count: int) -> None:
        """Count trials that were handed out."""
        self._begun = True
        self.running += count

    def told(self, study: str, record: TrialRecord) -> None:
        """Count a finished trial."""
        self.running = max(0, self.running - 1)
        self.counts[record.outcome.outcome] += 1
        counts = record.outcome.outcome != "preempted"
        if counts:
            self._pace.add(record, time.monotonic())
        self.owed[study] -= counts
        if record.outcome.outcome == "ok":
            self._fronts[self.dataset_of[study]].add(*record.outcome.objectives)
            if self._area > self.hypervolume * (1 + 1e-9):
                self.hypervolume, self.grew_at = self._area, self.done

    def end(self) -> None:
        """Note that the search is over or left: from now on nothing of it runs."""
        self.running, self._over = 0, True
        self.beside = list

    def stopping(self) -> str:
        """Say what a search that asks nothing more keeps, what it waits for, and how to go on."""
        kept = f"stopping: {self.done} of {self.total} trials are kept"
        leave = "press Ctrl-C again to leave at once"
        if not self.running:
            return f"{kept}, what is measured beside them ends first; {leave}, the next run measures it again then"
        return f"{kept}, {self.running} are running and end first; {leave}, they are asked again then"

    def line(self) -> str:
        """Return it in one line."""
        outcomes = [f"{n} {outcome}" for outcome, n in self.counts.most_common()]
        beside = self.beside()
        if not self._begun and not self._over:
            beside = beside or ["starting workers"]
        now = [*([f"{self.running} running"] if self.running or not beside else []), *beside]
        said = [f"{self.done}/{self.total} trials{self._studies}: {', '.join([*outcomes, *now])}"]
        if self.front_size:
            since = self.done - self.grew_at
            grew = "just now" if since == 0 else f"{since} trials ago"
            said.append(f"hypervolume {self.hypervolume:.4f} (grew {grew}), front {self.front_size}")
        if not self._over or self.done >= self.total:
            eta = self.eta_seconds
            said.append(f"ETA {'?' if math.isinf(eta) else _clock(eta)}")
        return "; ".join(said)

    @property
    def _studies(self) -> str:
        """How many studies are through, of several."""
        if len(self.owed) == 1:
            return ""
        return f" ({sum(owed <= 0 for owed in self.owed.values())} of {len(self.owed)} studies done)"


def _clock(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


class ProgressReport:
    """Watches a search and shows its :class:`RunProgress`.

    Args:
        name: what is run.
        records: its studies at the start of this run.
        stream: where to write; stderr by default.
    """

    def __init__(self, name: str, records: Sequence[StudyRecord], stream: TextIO | None = None) -> None:
        self.progress = RunProgress(records)
        self._name = name
        self._said: set[str] = set()
        self._stream = stream or sys.stderr
        self._shown = time.monotonic()
        self._stepped, self._writing = threading.Event(), threading.Lock()
        self._bar: Progress | None = None
        if self._stream.isatty():
            columns = (TextColumn("{task.fields[study]}"), BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(file=self._stream, soft_wrap=True))
            self._task = self._bar.add_task(
                self.progress.line(), total=self.progress.total, completed=self.progress.done, study=self._name
            )
            self._bar.start()
        else:
            self.say(self.progress.line())

    def until_it_steps(self) -> None:
        """Show how it goes also while the driver waits for Ray, until it calls :meth:`step`."""

        def tick() -> None:
            while not self._stepped.wait(TICK_SECONDS):
                self.show()

        threading.Thread(target=tick, name="tune-vfl-progress", daemon=True).start()

    def step(self) -> None:
        """Show how it goes, from the driver's own thread: from now on no other one does."""
        self._stepped.set()
        self.show()

    def on_ask(self, study: str, count: int) -> None:
        """Note that trials were handed out; the next step shows it, when the whole pack is counted."""
        self.progress.asked(count)

    def on_tell(self, study: str, record: TrialRecord) -> None:
        """Note a finished trial; the next step shows it, when the whole pack is counted."""
        self.progress.told(study, record)
        if record.outcome.outcome == "preempted":
            of = f" of {study}" if study != self._name else ""
            self.say(f"trial {record.number}{of} was lost ({record.outcome.reason}); it is asked again")

    def on_baseline(self, records: Sequence[StudyRecord], outcome: Outcome) -> None:
        """Say what the undefended model does, once where several sets of attacks find the same of it."""
        of = f" ({records[0].cell.dataset.name})" if len(set(self.progress.dataset_of.values())) > 1 else ""
        if outcome.outcome == "ok":
            utility, leakage = outcome.objectives
            said = f"without defense{of}: utility {utility:.4f}, leakage {leakage:.4f}"
        else:
            said = f"without defense{of}: {outcome.outcome} ({outcome.reason})"
        if said not in self._said:
            self._said.add(said)
            self.say(said)

    def say(self, message: str) -> None:
        """Write a line of its own."""
        message = visible(message)  # of a worker's error, for example
        with self._writing:
            if self._bar is not None:
                self._bar.console.print(f"{self._name}: {message}", markup=False, highlight=False)
            else:
                self._stream.write(f"{self._name}: {message}\n")
                self._stream.flush()

    def close(self) -> None:
        """Show how it ended."""
        self._stepped.set()
        self.progress.end()
        self._show_line()
        if self._bar is not None:
            self._bar.stop()

    def show(self) -> None:
        """Show how it goes, unless that was shown a moment ago."""
        now = time.monotonic()
        if now - self._shown < (LINE_EVERY_SECONDS if self._bar is None else BAR_EVERY_SECONDS):
            return
        self._shown = now
        self._show_line()

    def _show_line(self) -> None:
        if self._bar is None:
            self.say(self.progress.line())
        else:
            self._bar.update(self._task, completed=self.progress.done, description=self.progress.line())
