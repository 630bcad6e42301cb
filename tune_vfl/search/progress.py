"""How a search goes, on stderr: a bar on a terminal, one plain line a minute elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tune_vfl.metrics.pareto import GrowingFront

if TYPE_CHECKING:
    from tune_vfl.ledger.records import StudyRecord, TrialRecord
    from tune_vfl.outcome import Outcome

LINE_EVERY_SECONDS = 60.0


class RunProgress:
    """How far a running search is: trials by outcome, the front so far, the time that is left.

    Args:
        record: the study at the start of this run.
    """

    def __init__(self, record: StudyRecord) -> None:
        self.total = len(record.counted) + record.running + record.waiting
        self.counts: Counter[str] = Counter(t.outcome.outcome for t in record.trials)
        self.running = 0
        self._front = GrowingFront(record.reference_point)
        for trial in record.ok:
            self._front.add(*trial.outcome.objectives)
        self._begun = time.monotonic()
        self._done_now = 0
        self.hypervolume = self._front.area
        self.grew_at = self.done

    @property
    def done(self) -> int:
        """Finished trials that count."""
        return sum(n for outcome, n in self.counts.items() if outcome != "preempted")

    @property
    def front_size(self) -> int:
        """How many points are on the front."""
        return self._front.size

    @property
    def eta_seconds(self) -> float:
        """Seconds until the budget is used up at this run's pace; infinite before the first trial."""
        if not self._done_now:
            return math.inf
        return (time.monotonic() - self._begun) / self._done_now * max(0, self.total - self.done)

    def asked(self, count: int) -> None:
        """Count trials that were handed out."""
        self.running += count

    def told(self, record: TrialRecord) -> None:
        """Count a finished trial."""
        self.running = max(0, self.running - 1)
        self.counts[record.outcome.outcome] += 1
        self._done_now += record.outcome.outcome != "preempted"
        if record.outcome.outcome == "ok":
            self._front.add(*record.outcome.objectives)
            if self._front.area > self.hypervolume * (1 + 1e-9):
                self.hypervolume, self.grew_at = self._front.area, self.done

    def stopping(self) -> str:
        """Say what a search that asks nothing more keeps, what it waits for, and how to go on."""
        return (
            f"stopping: {self.done} of {self.total} trials are kept, {self.running} are running and end first; press "
            "Ctrl-C again to leave at once, they are asked again then"
        )

    def line(self) -> str:
        """Return it in one line."""
        outcomes = ", ".join(f"{n} {outcome}" for outcome, n in self.counts.most_common()) or "none finished"
        since = self.done - self.grew_at
        grew = "just now" if since == 0 else f"{since} trials ago"
        eta = "?" if math.isinf(self.eta_seconds) else _clock(self.eta_seconds)
        volume = f"hypervolume {self.hypervolume:.4f} (grew {grew}), front {self.front_size}"
        return f"{self.done}/{self.total} trials: {outcomes}, {self.running} running; {volume}; ETA {eta}"


def _clock(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


class ProgressReport:
    """Watches a search and shows its :class:`RunProgress`.

    Args:
        record: the study at the start of this run.
        stream: where to write; stderr by default.
    """

    def __init__(self, record: StudyRecord, stream: TextIO | None = None) -> None:
        self.progress = RunProgress(record)
        self._name = record.name
        self._stream = stream or sys.stderr
        self._last_line = time.monotonic()
        self._bar: Progress | None = None
        if self._stream.isatty():
            columns = (TextColumn("{task.fields[study]}"), BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(file=self._stream, soft_wrap=True))
            self._task = self._bar.add_task(
                self.progress.line(), total=self.progress.total, completed=self.progress.done, study=self._name
            )
            self._bar.start()

    def on_ask(self, count: int) -> None:
        """Show that trials were handed out."""
        self.progress.asked(count)
        self._show()

    def on_tell(self, record: TrialRecord) -> None:
        """Show a finished trial."""
        self.progress.told(record)
        if record.outcome.outcome == "preempted":
            self.say(f"trial {record.number} was lost ({record.outcome.reason}); it is asked again")
        self._show()

    def on_baseline(self, outcome: Outcome) -> None:
        """Say what the undefended model does."""
        if outcome.outcome == "ok":
            utility, leakage = outcome.objectives
            self.say(f"without defense: utility {utility:.4f}, leakage {leakage:.4f}")
        else:
            self.say(f"without defense: {outcome.outcome} ({outcome.reason})")

    def say(self, message: str) -> None:
        """Write a line of its own."""
        if self._bar is not None:
            self._bar.console.print(f"{self._name}: {message}", markup=False, highlight=False)
        else:
            self._stream.write(f"{self._name}: {message}\n")
            self._stream.flush()

    def close(self) -> None:
        """Show how it ended."""
        if self._bar is not None:
            self._bar.stop()
        else:
            self.say(self.progress.line())

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.progress.done, description=self.progress.line())
        elif time.monotonic() - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            self.say(self.progress.line())
