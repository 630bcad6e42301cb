"""The cost of a defense: CPU time of a training with it over CPU time of a training without it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.timed import TimedTraining
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell

SECONDS = 0.25
"""For the steps of both trainings; on small data most of a training. What comes before a first step is done whole."""
FEWEST_STEPS = 5
"""Of each training, however long they take; but see `ENOUGH_SECONDS`."""
ENOUGH_SECONDS = 120.0
"""After these no further step is taken: where one takes long, it says enough."""


def training_cost(cell: Cell, params: Mapping[str, Any], undefended: Cell, *, device: str = "cpu") -> float:
    """Return the ratio of the CPU times of trainings with and without the cell's defense.

    One network of each is trained in this thread, a step of one after a step of the other, so that whatever else the
    machine does meets both. Both are extrapolated to whole trainings, what comes before the first step (teachers,
    codecs, tables) included. One long stretch, not several short ones: some defenses grow dearer as the model learns.

    Args:
        cell: its defense is measured.
        params: a setting of the defense; the cell's fixed parameters are laid over it.
        undefended: the cell without a defense.
        device: on a GPU, for which the CPU only waits, time is taken instead.

    Raises:
        SpecError: when the defense does not take the setting.
    """
    defended, plain = Task.open(_quiet(cell)), Task.open(_quiet(undefended))
    with_it = defense_params(cell.defense, {**params, **cell.fixed}, num_classes=cell.num_classes)
    without = defense_params("none", {}, num_classes=cell.num_classes)
    clock = _clock(device)
    begun = clock()
    # A seed of no study: a process caches parts of earlier trainings, such as a teacher, by seed.
    pack = Pack((zlib.crc32(cell.model_dump_json().encode()),), None)
    TimedTraining(plain, [without], pack, clock=clock, device=device)  # for both: a process keeps what it has cut
    one = TimedTraining(plain, [without], pack, clock=clock, device=device)
    other = TimedTraining(defended, [with_it], pack, clock=clock, device=device)
    while one.step() and other.step():
        stepped = sum(one.steps) + sum(other.steps)
        if (stepped >= SECONDS and len(other.steps) >= FEWEST_STEPS) or clock() - begun > ENOUGH_SECONDS:
            break
    return other.whole / one.whole


def _quiet(cell: Cell) -> Cell:
    """Return the cell without attacks, which are no part of a training's cost."""
    return cell.model_copy(update={"attacks": ()})


def _clock(device: str) -> Callable[[], float]:
    if device == "cpu":
        return time.process_time

    def after_all_work() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return after_all_work
