"""What a defense costs: the CPU of a training with it over that of one without it."""

from __future__ import annotations

import statistics
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

ROUNDS = 5
ROUND_SECONDS = 0.1
"""For the steps of both trainings of a round; what comes before a first step is done whole, however long it takes."""
ENOUGH_SECONDS = 120.0
"""After these no further round is begun: where one takes long, it says enough."""


def training_cost(cell: Cell, params: Mapping[str, Any], undefended: Cell, *, device: str = "cpu") -> float:
    """Return how many times the CPU of an undefended training one with the cell's defense takes.

    One network of each is trained in this thread, a step of one after a step of the other, so that whatever else the
    machine does meets both; five times, with other seeds. Each round extrapolates both to whole trainings, what comes
    before the first step (teachers, codecs, tables) included, and the median of the rounds' ratios counts: a ratio is
    free of what slows a whole round down, and the median of a round that was disturbed in the middle.

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
    ratios: list[float] = []
    for k in range(ROUNDS):
        if ratios and clock() - begun > ENOUGH_SECONDS:
            break
        # Seeds that nobody trains with: what a process keeps of earlier trainings, such as a teacher, is kept by them.
        pack = Pack((zlib.crc32(f"{k} {cell.model_dump_json()}".encode()),), None)
        one = TimedTraining(plain, [without], pack, clock=clock, device=device)
        other = TimedTraining(defended, [with_it], pack, clock=clock, device=device)
        while one.step() and other.step() and sum(one.steps) + sum(other.steps) < ROUND_SECONDS:
            pass
        ratios.append(other.whole / one.whole)
    return statistics.median(ratios)


def _quiet(cell: Cell) -> Cell:
    """Return the cell without attacks, which are no part of a training."""
    return cell.model_copy(update={"attacks": ()})


def _clock(device: str) -> Callable[[], float]:
    if device == "cpu":
        return time.process_time

    def after_all_work() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return after_all_work
