"""The packs of each job on a cluster, those that run and those that wait: Tune reserves a placement group for each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tune_vfl.cluster.relay import Relay


class PackCounts(NamedTuple):
    """The number of a job's packs that run, and of those that wait for room."""

    running: int = 0
    waiting: int = 0


def packs_by_job(cluster: Relay) -> dict[str, PackCounts]:
    """Return the packs of every job that has any, by Ray's own id of the job; none where a cluster cannot list them.

    Raises:
        UnreachableError: when the cluster does not answer.
    """
    states = Counter((str(group.creator_job_id), str(group.state)) for group in cluster.states("placement_groups"))
    found = {job: PackCounts(states[job, "CREATED"], states[job, "PENDING"]) for job, _ in states}
    return {job: packs for job, packs in found.items() if any(packs)}
