"""The number of trials in a pack. It changes the speed, never a result.

Stacking gains most up to sixteen networks in one pass (trials times seeds). A network in seventy costs some two thirds
of one in sixteen, but a sampler that learns would get fewer rounds: packs are that large only while the sampler ignores
outcomes. Trials with different training cannot share a pass, and a pack of them would only lose more when it is killed:
it holds one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tune_vfl.spec import Resources

LANES = 16
BLIND_LANES = 72
"""The networks of a pack while a sampler ignores outcomes."""
# A kill loses a pack's work: no pack is meant to last longer than this.
LONGEST_PACK_SECONDS = 600.0


def pack_size(resources: Resources, *, trials: int, seeds: int, workers: int, most: int, lanes: int = LANES) -> int:
    """Return the number of trials in a pack.

    Args:
        resources: ``pack`` is taken as it is, unless it is ``auto``.
        trials: the number of pending trials.
        seeds: networks a trial.
        workers: the number of packs that run at once.
        most: the number of trials that one pass can take, 1 without stacking.
        lanes: the networks of a pack.
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
