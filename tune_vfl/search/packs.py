"""How many trials a pack holds. It changes the speed, never a result.

Sixteen trained networks in one pass are where stacking has given most of what it can; trials times seeds counts.
Beyond that a bigger pack has drawbacks only: more is lost when it is killed, and a sampler that learns gets fewer
rounds. Trials that are trained differently cannot share a pass, so a pack of them has only the drawbacks: it holds one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tune_vfl.spec import Resources

LANES = 16
# A kill loses a pack's work: no pack is meant to last longer than this.
LONGEST_PACK_SECONDS = 600.0


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
