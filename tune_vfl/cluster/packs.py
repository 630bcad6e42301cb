"""The packs of each job on a cluster, those that run and those that wait, from the dashboard's placement groups."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.cluster.dashboard import fetch

if TYPE_CHECKING:
    from tune_vfl.machine.web import Server

_MOST = 10_000


class Packs(NamedTuple):
    """The number of a job's packs that run, and of those that wait for room."""

    running: int = 0
    waiting: int = 0


def packs_by_job(server: Server) -> dict[str, Packs]:
    """Return the packs of every job that has any, by Ray's own id of the job; nothing where the dashboard cannot say.

    Args:
        server: the dashboard.
    """
    raw = fetch(server, f"/api/v0/placement_groups?limit={_MOST}")
    return count(raw) if raw is not None else {}


def count(raw: bytes) -> dict[str, Packs]:
    """Count what the dashboard has answered: Tune reserves room for each pack as a placement group."""
    try:
        listed: list[dict[str, Any]] = json.loads(raw)["data"]["result"]["result"]
        states = Counter((str(group["creator_job_id"]), str(group["state"])) for group in listed)
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    found = {job: Packs(states[job, "CREATED"], states[job, "PENDING"]) for job, _ in states}
    return {job: packs for job, packs in found.items() if any(packs)}
