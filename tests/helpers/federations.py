"""Small federations of clients."""

from typing import Any

from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.clients import Clients
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.horizontal.cohort import Cohort
from tune_vfl.horizontal.rounds import Rounds
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import parse


def task_of(defense: str = "none", attacks: Any = ("bmi",), **fields: Any) -> Task:
    """Return the task of a horizontal cell on digits."""
    raw = {"study": "s", "dataset": "digits", "defense": defense, "attacks": list(attacks), **fields}
    return open_task(parse({"federation": "horizontal", **raw}))


def begun(task: Task, pack: Pack, **params: Any) -> tuple[Clients, list[Cohort], Rounds]:
    """Return a federation before its first round, all of its trials with the same parameters of the defense."""
    clients = Clients(task, pack)
    built = defense_params(task.cell.defense, params, num_classes=task.cell.num_classes)
    return (clients, *clients.begin([built] * (pack.trials or 1)))
