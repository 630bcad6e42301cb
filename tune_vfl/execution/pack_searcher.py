"""Ray Tune's searcher: take jobs from a source, and return answers and failures of workers to it.

The searcher lives in the driver alone. Tune pickles it to restore an experiment, which never happens here: a search
that is resumed makes a new searcher for the trials that the ledger lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ray.tune.search.searcher import Searcher

from tune_vfl.errors import TuneVflError
from tune_vfl.evaluation.code import bytes_of_code
from tune_vfl.execution import watchdogs
from tune_vfl.execution.jobs import Flight, Job, JobSource
from tune_vfl.execution.losses import MAX_LOSSES_IN_A_ROW, Cause
from tune_vfl.machine.version import VERSION


class PackSearcher(Searcher):  # type: ignore[misc]
    """Suggests jobs to Ray Tune, which calls each a trial, until the source has none and none is running.

    Args:
        source: the jobs.
        capacity: returns the current limit of parallel jobs.
        options: the trainable's.

    Attributes:
        stopped: no more jobs are suggested.
        failure: the first exception of the source or of a worker.
    """

    def __init__(self, source: JobSource, capacity: Callable[[], int], options: Mapping[str, Any]) -> None:
        super().__init__(metric=None, mode=None)
        self._source, self._capacity, self._options = source, capacity, options
        self._running: dict[str, Job] = {}
        self._losses_in_a_row = 0
        self.stopped = False
        self.failure: Exception | None = None

    def __reduce__(self) -> tuple[type[Searcher], tuple[()]]:
        """Pickle as a searcher that does nothing: database and lease stay in this process."""
        return (Searcher, ())

    def stop(self) -> None:
        """Suggest no more jobs; the answers of running ones are still stored."""
        self.stopped = True

    @property
    def _hopeless(self) -> bool:
        """Whether workers die one after another."""
        return self._losses_in_a_row >= MAX_LOSSES_IN_A_ROW

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
        """Return the next job, None while only running ones may bring more work, FINISHED at the end."""
        with self._keep_failure():
            return self._suggest(trial_id)

    def _suggest(self, job_id: str) -> dict[str, Any] | str | None:
        if self.failure is not None:  # raised while an answer was stored, which Tune takes for the job's failure
            raise self.failure
        if self.stopped or self._hopeless:
            return str(Searcher.FINISHED)
        flight = Flight(tuple(self._running.values()), self._capacity())
        if len(flight.running) >= flight.most:
            return None
        job = self._source.next_job(job_id, flight)
        if job is None:  # a running job may still be lost and come again
            return None if self._running else str(Searcher.FINISHED)
        self._running[job_id] = job
        driver = {"version": VERSION, "code": bytes_of_code(), "options": dict(self._options)}
        return {**job.message(), **driver, "seconds": self.time_limit(job_id)}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Store a job's answers."""
        self.on_trial_complete(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Store a job's answers. A second call for the same job changes nothing.

        Tune does not give the cause of a failure here; :meth:`fail` gets it.
        """
        sent = (result or {}).get("outcomes")
        if error or sent is None or self.failure is not None:
            return
        job = self._running.pop(trial_id, None)
        if job is not None:
            self._losses_in_a_row = 0
            with self._keep_failure():
                failed = next((answer for answer in sent if isinstance(answer, Exception)), None)
                if failed is not None:
                    raise failed
                self._source.store(job, sent)

    def time_limit(self, trial_id: str) -> float | None:
        """Return the seconds that a running job may take; None without a limit."""
        job = self._running.get(trial_id)
        if job is None or job.seconds_allowed is None:
            return None
        return job.seconds_allowed + watchdogs.GRACE_SECONDS

    def fail(self, trial_id: str, cause: Cause) -> int:
        """Store that the worker of a job failed.

        Returns:
            The number of settings in the job.
        """
        job = self._running.pop(trial_id, None)
        if job is None or self.failure is not None:
            return 0
        # A node that went away says nothing about its jobs, and a timeout is the job's own.
        self._losses_in_a_row += cause in ("crash", "memory")
        with self._keep_failure():
            self._source.lose(job, cause)
        return len(job.settings)

    def fail_all(self, cause: Cause) -> None:
        """Store that the workers of all running jobs failed."""
        for trial_id in list(self._running):
            self.fail(trial_id, cause)

    def save(self, checkpoint_path: str) -> None:
        """Write nothing: the ledger is the only record."""

    def restore(self, checkpoint_path: str) -> None:
        """Read nothing."""
