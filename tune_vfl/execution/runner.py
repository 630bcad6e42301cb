"""The one runner of jobs: under a lease, with Ctrl-C and SIGTERM answered, until their source has no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tune_vfl.execution import ray_session
from tune_vfl.execution.capacity import Capacity, capacity_key
from tune_vfl.execution.tune_run import run_tune
from tune_vfl.machine.signals import answered

if TYPE_CHECKING:
    from tune_vfl.execution.jobs import JobSource
    from tune_vfl.execution.trainable_spec import TrainableSpec
    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.spec import Named, Resources

STOPPING = "stopping: what runs now is finished and kept; press Ctrl-C again to leave at once"


@contextmanager
def leased(
    name: str, place: LedgerStorage, resources: Resources, left: Callable[[], str], *, take_over: bool = False
) -> Iterator[Lease]:
    """Hold a lease for the block, in which jobs may be run.

    Args:
        name: of the lease: a study's, a campaign's or a table's.
        place: the ledger's database.
        resources: of one job; who shares them is looked up by them.
        left: returns a sentence for whoever leaves the block by a signal.
        take_over: end another process that holds the lease.

    Raises:
        StudyError: when another process holds it.
        UnreachableError: when the database does not answer or cannot be written.
        KeyboardInterrupt: after Ctrl-C and SIGTERM.
    """
    room = capacity_key(resources)
    with answered(left), ray_session.quiet_tune(), place.lease(name, take_over=take_over, room=room) as lease:
        yield lease


@dataclass
class Runner:
    """Runs jobs with Ray Tune.

    Attributes:
        name: of what is run, for messages.
        lease: held by this process, see :func:`leased`.
        resources: of one job.
        work: the trainable.
        datasets: of all jobs, whose own files are sent to machines that lack them.
        left: returns a sentence for a run that is left at once.
        say: prints a message.
        stopping: returns a sentence for the first Ctrl-C.
        each_step: called many times a second while jobs run.
    """

    name: str
    lease: Lease
    resources: Resources
    work: TrainableSpec
    datasets: Iterable[Named]
    left: Callable[[], str]
    say: Callable[[str], None]
    stopping: Callable[[], str] = lambda: STOPPING
    each_step: Callable[[], object] = lambda: None
    _capacity: Capacity | None = field(default=None, init=False)

    def capacity(self) -> int:
        """Return how many jobs may run at once. The first call connects to Ray's cluster, or starts Ray here.

        Raises:
            SpecError: at the first call, when no job finds room on the machine.
            UnreachableError: when the cluster does not answer, or Ray does not start.
        """
        if self._capacity is None:
            ray_session.connect()
            self._capacity = ray_session.capacity_for(self.resources, self.lease)
        return self._capacity.packs()

    def run(self, source: JobSource) -> bool:
        """Run all jobs of a source.

        Returns:
            Whether Ctrl-C stopped it.

        Raises:
            SpecError, UnreachableError: see :meth:`capacity`.
            TuneVflError: when workers died one after another.
            KeyboardInterrupt: after a second Ctrl-C, and after SIGTERM.
        """
        from tune_vfl.execution.pack_searcher import PackSearcher

        self.capacity()  # says that there is no room, before anything waits for it
        searcher = PackSearcher(source, self.capacity, self.work.options)

        def stop() -> None:
            searcher.stop()
            self.say(self.stopping())

        with answered(self.left, stop=stop) as signals:
            trainable = self.work.with_own_files(self.datasets)
            checks = self.lease.check, signals.check, self.each_step
            run_tune(searcher, trainable, self.resources, checks, self.say)
        searcher.check_workers(self.name)
        return searcher.stopped
