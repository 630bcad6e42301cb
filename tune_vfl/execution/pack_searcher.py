"""Ray Tune's searcher: take packs from a source, and return answers and failures of workers to each pack.

The searcher lives in the driver alone. Tune pickles it to restore an experiment, which never happens here: a search
that is resumed makes a new searcher for the trials that the ledger lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ray.tune.search.searcher import Searcher

from tune_vfl.errors import TuneVflError
from tune_vfl.evaluation.code import bytes_of_code
from tune_vfl.execution import watchdogs
from tune_vfl.execution.losses import MAX_WORKER_LOSSES, Cause
from tune_vfl.machine.version import VERSION

# The limit of lost packs in a row, without an answer between them: workers cannot run here.
_MAX_LOSSES_IN_A_ROW = 4 * MAX_WORKER_LOSSES


class WorkerPack(Protocol):
    """Work for one call of a worker."""

    @property
    def trials(self) -> int:
        """The number of trials in it; 0 for another measurement."""

    @property
    def seconds_allowed(self) -> float | None:
        """The time limit in seconds; None without a limit."""

    def message(self) -> dict[str, Any]:
        """Return the configuration of the trainable, without its options; see :mod:`trainables.base`."""

    def end(self, sent: Sequence[Any], /) -> None:
        """Store the worker's answers."""

    def lose(self, cause: Cause, /) -> None:
        """Store that the worker failed."""


class PackSource(Protocol):
    """The order of packs: a search's studies, or a confirmation's phases."""

    def next_pack(self, pack_id: str, /) -> WorkerPack | None:
        """Return the next pack; None while only the end of a running pack may bring one."""


class PackSearcher(Searcher):  # type: ignore[misc]
    """Suggests packs to Ray Tune until the source has none and none is running.

    Args:
        source: the packs.
        capacity: returns the current limit of parallel packs.
        options: the trainable's.

    Attributes:
        stopped: no more packs are suggested.
        failure: the first exception of the source, of a pack or of a worker.
    """

    def __init__(self, source: PackSource, capacity: Callable[[], int], options: Mapping[str, Any]) -> None:
        super().__init__(metric=None, mode=None)
        self._source, self._capacity, self._options = source, capacity, options
        self._running: dict[str, WorkerPack] = {}
        self._losses_in_a_row = 0
        self.stopped = False
        self.failure: Exception | None = None

    def __reduce__(self) -> tuple[type[Searcher], tuple[()]]:
        """Pickle as a searcher that does nothing: database and lease stay in this process."""
        return (Searcher, ())

    def stop(self) -> None:
        """Suggest no more packs; the outcomes of running packs are still stored."""
        self.stopped = True

    @property
    def _hopeless(self) -> bool:
        """Whether workers die one after another."""
        return self._losses_in_a_row >= _MAX_LOSSES_IN_A_ROW

    def check_workers(self, name: str) -> None:
        """Refuse to call a run finished that ended because its workers died.

        Raises:
            TuneVflError: when workers died one after another.
        """
        if self._hopeless:
            raise TuneVflError(
                f"{name!r}: workers die one after the other before they answer; "
                "run 'tune-vfl doctor', or give each more room (resources.concurrency: 1, resources.pack: 1)"
            )

    @contextmanager
    def _keep_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # Tune reports a text of any exception, and cleans up first
            self.failure = self.failure or error
            raise

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next pack, None while only running packs may bring more work, FINISHED at the end."""
        with self._keep_failure():
            return self._suggest(trial_id)

    def _suggest(self, pack_id: str) -> dict[str, Any] | str | None:
        if self.failure is not None:  # raised while an answer was stored, which Tune takes for the pack's failure
            raise self.failure
        if self.stopped or self._hopeless:
            return str(Searcher.FINISHED)
        if len(self._running) >= self._capacity():
            return None
        pack = self._source.next_pack(pack_id)
        if pack is None:  # a running pack may still be lost and come again
            return None if self._running else str(Searcher.FINISHED)
        self._running[pack_id] = pack
        driver = {"version": VERSION, "code": bytes_of_code(), "options": dict(self._options)}
        return {**pack.message(), **driver, "seconds": self.time_limit(pack_id)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Store a pack's outcomes."""
        self.on_trial_complete(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Store a pack's outcomes. A second call for the same pack changes nothing.

        Tune does not give the cause of a failure here; :meth:`fail` gets it.
        """
        sent = (result or {}).get("outcomes")
        if error or sent is None or self.failure is not None:
            return
        pack = self._running.pop(trial_id, None)
        if pack is not None:
            self._losses_in_a_row = 0
            with self._keep_failure():
                failed = next((answer for answer in sent if isinstance(answer, Exception)), None)
                if failed is not None:
                    raise failed
                pack.end(sent)

    def time_limit(self, trial_id: str) -> float | None:
        """Return the seconds that a running pack may take; None without a limit."""
        pack = self._running.get(trial_id)
        if pack is None or pack.seconds_allowed is None:
            return None
        return pack.seconds_allowed + watchdogs.GRACE_SECONDS

    def fail(self, trial_id: str, cause: Cause) -> int:
        """Store that the worker of a pack failed.

        Returns:
            The number of trials in the pack; another measurement counts as one.
        """
        pack = self._running.pop(trial_id, None)
        if pack is None or self.failure is not None:
            return 0
        # A node that went away says nothing about its packs, and a timeout is the pack's own.
        self._losses_in_a_row += cause in ("crash", "memory")
        with self._keep_failure():
            pack.lose(cause)
        return max(1, pack.trials)

    def fail_all(self, cause: Cause) -> None:
        """Store that the workers of all running packs failed."""
        for trial_id in list(self._running):
            self.fail(trial_id, cause)

    def save(self, checkpoint_path: str) -> None:
        """Write nothing: the ledger is the only record."""

    def restore(self, checkpoint_path: str) -> None:
        """Read nothing."""
