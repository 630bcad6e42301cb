"""Seats for drivers on a cluster's head: so many searches run there at once, others wait for their turn in Ray's queue.

A head offers them as a resource of Ray's; one that was started without them takes every driver at once. Of the packs of
each job, those that run and those that wait, Tune reserves a placement group for each.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tune_vfl.cluster.relay import Relay

SEAT = "tune_vfl_driver"
"""The resource of which a search or a resume takes one."""
DRIVERS = frozenset({"search", "resume"})
"""The verbs that take a seat: they run for hours, and hold up to a gigabyte; others do not wait for them."""


def offers_seats(cluster: Relay) -> bool:
    """Return whether a machine of the cluster, its head, has seats; False where the cluster cannot list its machines.

    Raises:
        UnreachableError: when it does not answer.
    """
    return any(SEAT in node.resources_total for node in cluster.states("nodes") if node.state == "ALIVE")


def places_of(drivers: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the place in the queue of each driver that waits, the first one's is 1.

    Args:
        drivers: id and status of each that takes a seat, the oldest first.
    """
    waiting = [job for job, status in drivers if status == "PENDING"]
    return {job: place for place, job in enumerate(waiting, 1)}


def packs_by_job(cluster: Relay) -> dict[str, tuple[int, int]]:
    """Count the packs of every job that has any, those that run and those that wait, by Ray's own id of the job.

    There are none where a cluster cannot list them.

    Raises:
        UnreachableError: when the cluster does not answer.
    """
    states = Counter((str(group.creator_job_id), str(group.state)) for group in cluster.states("placement_groups"))
    found = {job: (states[job, "CREATED"], states[job, "PENDING"]) for job, _ in states}
    return {job: packs for job, packs in found.items() if any(packs)}
