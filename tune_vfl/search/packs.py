"""How many workers a search uses and how many trials a pack holds. Both change the speed, never a result.

Sixteen trained networks in one pass are where stacking has given most of what it can; trials times seeds counts.
Beyond that a bigger pack has drawbacks only: more is lost when it is killed, and a sampler that learns gets fewer
rounds. Trials that are trained differently cannot share a pass, so a pack of them has only the drawbacks: it holds one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tune_vfl.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tune_vfl.spec import Resources

LANES = 16
# A kill loses a pack's work: no pack is meant to last longer than this.
LONGEST_PACK_SECONDS = 600.0


def worker_count(resources: Resources, available: Mapping[str, float], *, most: int, grows: bool = False) -> int:
    """Return how many packs run at once.

    Args:
        resources: what one pack takes, and the ``concurrency`` asked for.
        available: the cluster's resources, ``CPU`` and ``GPU``.
        most: no more than this are useful.
        grows: the cluster adds machines on demand, so that what is there now is no limit.

    Raises:
        SpecError: when not even one pack finds room.
    """
    rooms = [available.get("CPU", 0.0) / resources.cpu]
    if resources.gpu:
        rooms.append(available.get("GPU", 0.0) / resources.gpu)
    room = math.floor(min(rooms) + 1e-9)
    if room < 1 and not grows:
        raise SpecError(
            f"resources: one pack takes {resources.cpu:g} CPU and {resources.gpu:g} GPU, but there are "
            f"{available.get('CPU', 0):g} CPU and {available.get('GPU', 0):g} GPU; ask for less"
        )
    asked = resources.concurrency if isinstance(resources.concurrency, int) else max(1, room)
    # More packs at once than there is room for would only wait for each other.
    return max(1, min(asked if grows else min(asked, room), most))


def pack_size(resources: Resources, *, trials: int, seeds: int, workers: int, most: int) -> int:
    """Return how many trials a pack holds.

    Args:
        resources: ``pack`` is taken as it is, unless it is ``auto``.
        trials: how many are still to be run.
        seeds: networks a trial.
        workers: packs that run at once.
        most: how many trials one pass can take, 1 where nothing stacks.
    """
    if isinstance(resources.pack, int):
        return resources.pack
    largest = max(1, min(most, math.ceil(LANES / seeds)))
    rounds = math.ceil(trials / (workers * largest))
    return max(1, min(largest, math.ceil(trials / max(1, rounds * workers))))


def shortened(size: int, seconds_per_trial: float) -> int:
    """Return the pack size that keeps a pack within :data:`LONGEST_PACK_SECONDS`."""
    if seconds_per_trial <= 0:
        return size
    return max(1, min(size, int(LONGEST_PACK_SECONDS / seconds_per_trial)))
