"""Studies and campaigns on a cluster: begun, joined, gone on with, and fetched from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tune_vfl.cluster.jobs import ENDED, ClusterJob, Jobs, Where
from tune_vfl.cluster.shipping import with_data
from tune_vfl.errors import SpecError, StudyError
from tune_vfl.machine.passwords import has_password
from tune_vfl.records.packed_file import MOST_BYTES, from_bytes, from_text

if TYPE_CHECKING:
    from pathlib import Path

    from tune_vfl.records.packed import Packed

_PACK, _LIST = "study pack", "studies"
_STUDIES_SCHEMA = "tune-vfl/studies/1"


class Started(NamedTuple):
    """A job that runs a study, or a campaign.

    Attributes:
        job: its id.
        joined: it was running before.
    """

    job: str
    joined: bool


def submit(jobs: Jobs, raw: Mapping[str, Any], where: Where, *, take_over: bool = False) -> Started:
    """Run a spec, or join the job that runs it. What was stopped goes on; more trials, or another defense, extend it.

    A campaign is one job, under its own name. The user's own data files that exist here travel with the spec, up to
    :data:`tune_vfl.data.own_files.SHIPPED_BYTES` together; the job copies them into its home.

    Args:
        jobs: of the cluster.
        raw: the spec, settings applied.
        where: it is kept there.
        take_over: take the study from a process that is no job of this Ray, such as one of a head that is gone.

    Raises:
        SpecError: for a password in the spec.
        DataError: for a data file that cannot be read.
        StudyError: when the study runs with another spec.
    """
    refuse_passwords(raw)
    raw, data = with_data(raw)
    name, digest = str(raw.get("study", "")), digest_of(raw)
    running = _running(jobs, name, where)
    if running is not None:
        if running.spec != digest:
            raise StudyError(
                f"{name!r} is being run by job {running.id} with another spec or budget; wait for its end, or "
                f"stop it with 'tune-vfl jobs stop {running.id}', and submit again"
            )
        return Started(running.id, joined=True)
    spec = yaml.safe_dump(dict(raw), sort_keys=False)
    how = [*(["--copy-data"] if data else []), *_taking(take_over)]
    files: dict[str, str | Path] = {"spec.yaml": spec, **data}
    job = jobs.run("search", ["spec.yaml", "--json", *how], name, where, files=files, spec=digest)
    return Started(job, joined=False)


def resume(jobs: Jobs, named: str, where: Where, trials: int | None = None, *, take_over: bool = False) -> Started:
    """Finish what a study or a campaign on the cluster still owes, or join the job that is at it.

    Args:
        jobs: of the cluster.
        named: the study or campaign, or a job that ran it, which also says where it is kept.
        where: it is kept there.
        trials: a new budget of finished trials in all; None keeps the study's.
        take_over: as for :func:`submit`.

    Raises:
        StudyError: when more trials are asked of a study that is running.
    """
    former = next((job for job in jobs.list() if job.id == named), None)
    name = former.study if former is not None else named
    if not name:
        raise StudyError(f"job {named!r} runs no study of tune-vfl; see 'tune-vfl jobs list'")
    if former is not None:
        where = Where(former.home or where.home, where.storage)
    running = _running(jobs, name, where)
    if running is not None:
        if trials is not None:
            raise StudyError(
                f"{name!r} is being run by job {running.id}; wait for its end, or stop it with 'tune-vfl jobs "
                f"stop {running.id}', and resume it with --trials {trials} then"
            )
        return Started(running.id, joined=True)
    budget = [] if trials is None else ["--trials", str(trials)]
    arguments = [name, "--json", *budget, *_taking(take_over)]
    return Started(jobs.run("resume", arguments, name, where), joined=False)


def pull(jobs: Jobs, name: str, where: Where, most: int = MOST_BYTES) -> Packed:
    """Fetch a study or a whole campaign as it stands, running or not.

    Args:
        jobs: of the cluster.
        name: of the study or campaign.
        where: it is kept there.
        most: the bytes that may come, unpacked.

    Raises:
        StudyError: when the cluster cannot pack it, with its own words.
        ParcelError: when what came is not a packed study.
        UnreachableError: when the cluster does not answer.
    """
    job = jobs.wait(jobs.run(_PACK, [name, "-o", "-"], name, where))
    log = jobs.logs(job.id)
    if job.status != "SUCCEEDED":
        raise StudyError(f"{name!r} cannot be fetched from {jobs.address}: {_said(log) or job.message}")
    place = f"what came from {jobs.address}"
    return from_bytes(from_text(log, place), place, most)


def listed(jobs: Jobs, where: Where) -> list[dict[str, Any]]:
    """Return the studies that a cluster keeps, also those of before its head was started anew.

    Ray's own list of jobs is lost with its head; the ledger is not.

    Args:
        jobs: of the cluster.
        where: they are kept there.

    Returns:
        As ``studies --json`` prints them there.

    Raises:
        StudyError: when the ledger there cannot be read, with the cluster's own words.
        UnreachableError: when the cluster does not answer.
    """
    job = jobs.wait(jobs.run(_LIST, ["--json"], "", where))
    log = jobs.logs(job.id)
    for line in log.splitlines():
        if line.startswith("{") and _STUDIES_SCHEMA in line:
            found: list[dict[str, Any]] = json.loads(line)["studies"]
            return found
    raise StudyError(f"the studies at {jobs.address} cannot be listed: {_said(log) or job.message}")


def digest_of(raw: Mapping[str, Any]) -> str:
    """Return what tells one spec from another, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(raw, sort_keys=True, default=str).encode()).hexdigest()[:16]


def refuse_passwords(raw: Mapping[str, Any]) -> None:
    """Refuse to send a password along with a spec.

    Raises:
        SpecError: naming every place that holds one.
    """
    problems = [
        f"{place}: holds a password, which would travel with the spec and stay on the cluster; leave it out and put it "
        "into ~/.pgpass there, or write ${env:NAME} in its place and set NAME there"
        for place, text in _texts(raw)
        if has_password(text)
    ]
    if problems:
        raise SpecError(problems)


def _taking(take_over: bool) -> list[str]:
    return ["--take-over"] if take_over else []


def _said(log: str) -> str:
    """Return the problems that a job's log names."""
    return " ".join(line.removeprefix("tune-vfl: ") for line in log.splitlines() if line.startswith("tune-vfl: "))


def _texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, place)


def _running(jobs: Jobs, name: str, where: Where) -> ClusterJob | None:
    """Return the job that runs a study; one that keeps it elsewhere runs another study of that name."""
    alive = (job for job in jobs.list() if job.status not in ENDED and job.does not in (_PACK, _LIST))
    return next((job for job in alive if job.study == name and job.home == (where.home or "")), None)
