"""How many trials a pack holds. It changes the speed, never a result.

Sixteen trained networks in one pass are where stacking has given most of what it can; trials times seeds counts. A
network in seventy costs some two thirds of one in sixteen, but a sampler that learns would get fewer rounds: so many
are taken while it does not look at what came back. Trials that are trained differently cannot share a pass, and a pack
of them would only lose more when it is killed: it holds one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tune_vfl.spec import Resources

LANES = 16
BLIND_LANES = 72
"""While a sampler does not look at what came of its trials."""
# A kill loses a pack's work: no pack is meant to last longer than this.
LONGEST_PACK_SECONDS = 600.0


def pack_size(resources: Resources, *, trials: int, seeds: int, workers: int, most: int, lanes: int = LANES) -> int:
    """Return how many trials a pack holds.

    Args:
        resources: ``pack`` is taken as it is, unless it is ``auto``.
        trials: how many are still to be run.
        seeds: networks a trial.
        workers: packs that run at once.
        most: how many trials one pass can take, 1 where nothing stacks.
        lanes: networks that a pack is to hold.
    """
    if isinstance(resources.pack, int):
        return resources.pack
    largest = max(1, min(most, math.ceil(lanes / seeds)))
    rounds = math.ceil(trials / (workers * largest))
    return max(1, min(largest, math.ceil(trials / max(1, rounds * workers))))


def shortened(size: int, seconds_per_trial: float) -> int:
    """Return the pack size that keeps a pack within :data:`LONGEST_PACK_SECONDS`."""
    if seconds_per_trial <= 0:
        return size
    return max(1, min(size, int(LONGEST_PACK_SECONDS / seconds_per_trial)))
