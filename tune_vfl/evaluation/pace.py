"""Training speed on this machine, from the first steps of an epoch: the basis of estimates of a search's duration."""

from __future__ import annotations

import time

from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.timed import TimedTraining
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell

MOST_STEPS = 200
"""So many steps tell the pace of an epoch that has more."""


def seconds_per_epoch(cell: Cell, trials: int) -> float:
    """Return the seconds that an epoch of one trial takes, all its seeds, in a pack of so many without a defense.

    The setup of a training does not count.

    Args:
        cell: of a study; its defense does not matter.
        trials: in a pack, where the model stacks; else one trains alone.
    """
    task = Task.open(cell.model_copy(update={"defense": "none", "fixed": {}, "attacks": ()}))
    stacks = task.architecture.stackable
    pack = Pack(cell.seeds, trials) if stacks else Pack(cell.seeds[:1], None)
    params = [defense_params("none", {}, num_classes=cell.num_classes)] * (trials if stacks else 1)
    training = TimedTraining(task, params, pack, clock=time.perf_counter)
    while len(training.steps) <= min(training.per_epoch, MOST_STEPS) and training.step():
        pass
    members = trials if stacks else 1 / len(cell.seeds)
    return training.pace * training.per_epoch / members
