"""The packs of a table: one seed of one evaluation each. Keeps every result at once."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from tune_vfl.execution.losses import Cause, Loss, Losses
from tune_vfl.outcome import MACHINE_FAILURES, read_outcome
from tune_vfl.spec.cell import References

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_vfl.papers.owed import Owed
    from tune_vfl.papers.results import SeedResult, TableResults


@dataclass(frozen=True, eq=False)
class SeedPack:
    """One seed of one evaluation."""

    trainings: Trainings
    owed: Owed
    seed: int
    trials: ClassVar[int] = 1
    seconds_allowed: ClassVar[float | None] = None

    def message(self) -> dict[str, Any]:
        """Return the worker's configuration, see :mod:`trainables.base`."""
        cell = self.owed.cell.model_copy(update={"seeds": (self.seed,)})
        known = {"cell": cell.model_dump_json(), "references": References().model_dump_json()}
        return {**known, "params": [{}], "data": self.owed.kept.data}

    def end(self, sent: Sequence[Any], /) -> None:
        """Keep the result."""
        self.trainings.keep(self, sent[0])

    def lose(self, cause: Cause, /) -> None:
        """Retry after a failed worker, or give up."""
        self.trainings.retry(self, cause)


class Trainings:
    """The source of a table's packs, see :class:`tune_vfl.execution.pack_searcher.PackSource`.

    Args:
        results: what is kept; changed as seeds end.
        owed: the evaluations, cheapest first.
        write: keeps the results.
        workers: how many packs run at once.
        seconds: the budget; None without one.
        say: prints a message.
    """

    def __init__(
        self,
        results: TableResults,
        owed: Sequence[Owed],
        *,
        write: Callable[[TableResults], None],
        workers: Callable[[], int],
        seconds: float | None,
        say: Callable[[str], None],
    ) -> None:
        self._owed, self._waiting = deque(one for one in owed if one.seeds), deque[SeedPack]()
        self._kept = {one.evaluation.label: one.kept for one in owed}
        self._write, self._workers, self._seconds, self.say = write, workers, seconds, say
        self._began, self._losses = time.monotonic(), Losses()
        self._running: set[SeedPack] = set()
        self.results = results
        self.refused: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def next_pack(self, pack_id: str, /) -> SeedPack | None:
        """Return the next seed; None at the end, or while only a running one may come again."""
        del pack_id
        while not self._waiting and self._owed:
            self._queue(self._owed.popleft())
        if not self._fits(0.0):  # seeds took longer than was thought
            self.refused.update(
                {p.owed.evaluation.label: "the budget ended before its last seeds" for p in self._waiting}
            )
            self._waiting.clear()
        if not self._waiting:
            return None
        pack = self._waiting.popleft()
        self._running.add(pack)
        return pack

    def _fits(self, cpu_seconds: float) -> bool:
        """Whether so much would end within the budget, after what is running."""
        if self._seconds is None:
            return True
        ahead = cpu_seconds + sum(pack.owed.seconds for pack in self._running) * bool(cpu_seconds)
        return time.monotonic() - self._began + ahead / max(1, self._workers()) <= self._seconds

    def _queue(self, owed: Owed) -> None:
        """Queue the seeds of an evaluation, or refuse it for the budget."""
        label, seconds = owed.evaluation.label, owed.seconds * len(owed.seeds)
        if not self._fits(seconds):
            self.refused[label] = f"{len(owed.seeds)} seeds do not fit the budget"
            return
        self.say(f"{label}: {len(owed.seeds)} seeds, about {owed.seconds:.0f} CPU s each")
        self._waiting.extend(SeedPack(self, owed, seed) for seed in owed.seeds)

    def keep(self, pack: SeedPack, sent: Any) -> None:
        """Keep what a worker sent; a failure of the machine is not kept, so that the next run tries again."""
        self._running.discard(pack)
        outcome = read_outcome(sent)
        if outcome.outcome in MACHINE_FAILURES:
            self._fail(pack, outcome.reason)
            return
        self._put(pack, pack.owed.result_of(outcome))

    def _put(self, pack: SeedPack, result: SeedResult) -> None:
        label = pack.owed.evaluation.label
        before, today = self._kept[label], f"{datetime.now(UTC):%Y-%m-%d}"
        self._kept[label] = before.model_copy(update={"date": today, "seeds": {**before.seeds, pack.seed: result}})
        self.results = self.results.with_kept({label: self._kept[label]})
        self._write(self.results)

    def retry(self, pack: SeedPack, cause: Cause) -> None:
        """Queue a seed again whose worker failed, or give it up."""
        self._running.discard(pack)
        outcome = self._losses.outcome((pack.owed.evaluation.label, pack.seed), Loss(cause))
        if outcome.outcome == "preempted":
            self._waiting.append(pack)
        else:
            self._fail(pack, outcome.reason)

    def _fail(self, pack: SeedPack, reason: str) -> None:
        self.failed.setdefault(pack.owed.evaluation.label, f"seed {pack.seed}: {reason}")
        self.say(f"{pack.owed.evaluation.label}: seed {pack.seed} could not be measured: {reason}")
