"""How fast trials are trained here, from an epoch or two: what an estimate of a search's time starts from."""

from __future__ import annotations

import time

from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Cell, Strict


def seconds_per_epoch(cell: Cell, trials: int) -> float:
    """Return the seconds that an epoch of one trial takes, all its seeds, in a pack of so many without a defense.

    Two trainings of one and of two epochs are compared, so that what every training begins with does not count.

    Args:
        cell: of a study; its defense does not matter.
        trials: in a pack, where the model stacks; else one trains alone.
    """
    task = Task.open(cell.model_copy(update={"defense": "none", "fixed": {}, "attacks": ()}))
    stacks = task.architecture.stackable
    pack = Pack(cell.seeds, trials) if stacks else Pack(cell.seeds[:1], None)
    params = [defense_params("none", {}, num_classes=cell.num_classes)] * (trials if stacks else 1)
    one, two = (_seconds(task, epochs, params, pack) for epochs in (1, 2))
    members = trials if stacks else 1 / len(cell.seeds)
    return max(two - one, one / 10) / members


def _seconds(task: Task, epochs: int, params: list[Strict], pack: Pack) -> float:
    training = task.cell.training.model_copy(update={"epochs": epochs})
    short = Task(task.cell.model_copy(update={"training": training}), task.dataset, task.architecture, ())
    begun = time.perf_counter()
    train_pack(short, params, pack)
    return time.perf_counter() - begun
