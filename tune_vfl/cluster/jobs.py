"""Running tune-vfl on a cluster through Ray's Jobs API, following it, and reading its answer back."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.cluster.admission import DRIVERS, SEAT, offers_seats, packs_by_job, places_of
from tune_vfl.cluster.dashboard import require_answer
from tune_vfl.cluster.relay import Relay
from tune_vfl.errors import UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tune_vfl.machine.web import WebServer

# What `search --json` and `resume --json` print at their end: of a study, of a campaign.
SCHEMAS = ("tune-vfl/study/1", "tune-vfl/campaign/1")
ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class Where(NamedTuple):
    """Where studies are kept on a cluster; None is the cluster's own place.

    Attributes:
        home: ``TUNE_VFL_HOME``; by default the cluster's, else ``~/tune-vfl-home`` there.
        storage: ``TUNE_VFL_STORAGE``.
    """

    home: str | None = None
    storage: str | None = None

    @property
    def variables(self) -> str:
        """Environment variables in front of a shell command."""
        home = shlex.quote(self.home) if self.home else '"${TUNE_VFL_HOME:-$HOME/tune-vfl-home}"'
        return f"TUNE_VFL_HOME={home}" + (f" TUNE_VFL_STORAGE={shlex.quote(self.storage)}" if self.storage else "")


@dataclass(frozen=True)
class ClusterJob:
    """A job as the cluster knows it; times in seconds since the epoch.

    Attributes:
        id: the submission id.
        status: ``PENDING``, ``RUNNING``, ``SUCCEEDED``, ``FAILED`` or ``STOPPED``.
        study: the study or campaign it is about, where tune-vfl submitted it.
        does: what it does with it: ``search``, ``resume`` or ``study pack``.
        home: where it keeps the study, where that was named; else empty.
        spec: what tells its spec from others; empty where it resumes a study.
        message: Ray's own words on the status.
        running, waiting: its packs that have room on the cluster, and those that wait for some, where they are counted.
        place: in the queue of drivers that wait for a seat on the head; 0 for others.
    """

    id: str
    status: str
    study: str = ""
    does: str = ""
    home: str = ""
    spec: str = ""
    started: float | None = None
    ended: float | None = None
    message: str = ""
    running: int = 0
    waiting: int = 0
    place: int = 0


class Jobs:
    """The jobs of one cluster.

    Args:
        server: the cluster's dashboard, with its token, if it has one.

    Raises:
        UnreachableError: when the Jobs API does not answer, or not to this token, or may not be given it.
    """

    def __init__(self, server: WebServer) -> None:
        require_answer(server)
        self.address, self._relay = server.address, Relay(server)
        weakref.finalize(self, self._relay.close).atexit = False
        self._client = self._relay.client()

    def run(
        self,
        does: str,
        arguments: Sequence[str],
        study: str,
        where: Where,
        *,
        files: Mapping[str, str | Path] | None = None,
        spec: str = "",
    ) -> str:
        """Run ``tune-vfl`` there.

        Args:
            does: the verb.
            arguments: the verb's.
            study: what it is about.
            where: studies are kept there.
            files: texts, and files from here, that it finds under these names; nobody but its user can read them.
            spec: what tells its spec from others.

        Returns:
            The submission id.
        """
        seat = does in DRIVERS and offers_seats(self._relay)
        told = {"study": study, "does": does, "home": where.home or "", "spec": spec, "seat": "1" if seat else ""}
        with tempfile.TemporaryDirectory(prefix="tune-vfl-job-") as folder:
            for name, content in (files or {}).items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(mode=0o600)  # Ray carries the mode along
                path.write_bytes(content.read_bytes() if isinstance(content, Path) else content.encode())
            with self._relay.calls():
                return str(
                    self._client.submit_job(
                        entrypoint=f"{where.variables} {shlex.join(['tune-vfl', *does.split(), *arguments])}",
                        runtime_env={"working_dir": folder} if files else None,
                        metadata={f"tune_vfl.{key}": value for key, value in told.items()},
                        entrypoint_resources={SEAT: 1} if seat else None,
                    )
                )

    def list(self, *, with_packs: bool = False) -> list[ClusterJob]:
        """Return all jobs, the newest first; with packs each with its own, which the cluster has to count."""
        packs = packs_by_job(self._relay) if with_packs else {}
        with self._relay.calls():
            details = self._client.list_jobs()
        jobs = [_job(d, packs.get(str(d.job_id), (0, 0))) for d in details if d.submission_id]
        jobs.sort(key=lambda job: job.started or 0.0, reverse=True)
        seated = {str(d.submission_id) for d in details if (d.metadata or {}).get("tune_vfl.seat")}
        places = places_of((job.id, job.status) for job in reversed(jobs) if job.id in seated)
        return [replace(job, place=places.get(job.id, 0)) for job in jobs]

    def get(self, job_id: str) -> ClusterJob:
        """Return one job.

        Raises:
            UsageError: when there is no such job; names the known ones.
        """
        known = {job.id: job for job in self.list()}
        if job_id not in known:
            raise UsageError(f"no job {job_id!r} at {self.address}. Known: {', '.join(known) or 'none'}.")
        return known[job_id]

    def logs(self, job_id: str) -> str:
        """Return everything that the job has printed so far."""
        self.get(job_id)
        return self._log(job_id)

    def stop(self, job_id: str) -> bool:
        """Ask a job to stop; Ray ends it within seconds, and what was in flight is asked again when its study goes on.

        Returns:
            Whether it was still running.
        """
        job = self.get(job_id)
        if job.status in ENDED:
            return False
        with self._relay.calls():
            return bool(self._client.stop_job(job_id))

    def wait(self, job_id: str, every: float = 0.5) -> ClusterJob:
        """Wait for a job's end and return it."""
        while (job := self.get(job_id)).status not in ENDED:
            time.sleep(every)
        return job

    def follow(self, job_id: str, show: Callable[[str], None], every: float = 2.0, patience: int = 15) -> ClusterJob:
        """Show what a job prints, line by line, until it ends.

        Args:
            job_id: the job.
            show: is called with each line of its output, without the line's end.
            every: seconds between two looks.
            patience: how many looks in a row may fail before we give up; the job itself goes on.

        Raises:
            UnreachableError: when the cluster stays away.
        """
        shown, missed = 0, 0
        while True:
            try:
                job = self.get(job_id)
                lines = self._log(job_id).splitlines()
                missed = 0
            except UnreachableError:
                missed += 1
                if missed > patience:
                    raise
                time.sleep(every)
                continue
            # The last line may still be growing.
            ready = lines if job.status in ENDED else lines[:-1]
            for line in ready[shown:]:
                show(line)
            shown = max(shown, len(ready))
            if job.status in ENDED:
                return job
            time.sleep(every)

    def _log(self, job_id: str) -> str:
        with self._relay.calls():
            return str(self._client.get_job_logs(job_id))


def is_answer(line: str) -> bool:
    """Say whether a line of a log looks like the JSON of a study or a campaign."""
    return line.lstrip().startswith("{") and any(schema in line for schema in SCHEMAS)


def answers_in(log: str) -> list[dict[str, Any]]:
    """Return the studies and campaigns that a job printed as JSON lines among its other output, in order."""
    found = []
    for line in log.splitlines():
        if not is_answer(line):
            continue
        try:
            data = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(data, dict) and data.get("schema") in SCHEMAS:
            found.append(data)
    return found


def _job(details: Any, packs: tuple[int, int]) -> ClusterJob:
    metadata, (running, waiting) = details.metadata or {}, packs
    return ClusterJob(
        id=str(details.submission_id),
        status=str(getattr(details.status, "value", details.status)),
        study=str(metadata.get("tune_vfl.study", "")),
        does=str(metadata.get("tune_vfl.does", "")),
        home=str(metadata.get("tune_vfl.home", "")),
        spec=str(metadata.get("tune_vfl.spec", "")),
        started=_seconds(details.start_time),
        ended=_seconds(details.end_time),
        message=" ".join((details.message or "").split()),
        running=running,
        waiting=waiting,
    )


def _seconds(milliseconds: int | None) -> float | None:
    """Return a moment in seconds; None for one that no calendar has, which a dashboard may claim."""
    return milliseconds / 1000 if milliseconds and 0 < milliseconds < 2**47 else None
