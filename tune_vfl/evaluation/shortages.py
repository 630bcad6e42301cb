"""Rows that a task asks for and its data do not have: labels and rows that attackers know, shards of clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from tune_vfl.data.split import training_rows
from tune_vfl.errors import DataError
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.grants.received import target_rows

if TYPE_CHECKING:
    from torch import Tensor

    from tune_vfl.attacks.base import AuxiliaryRequest
    from tune_vfl.evaluation.task import Task


def known_per_class(request: AuxiliaryRequest, task: Task) -> int:
    """Return how many labeled rows of each class an attacker knows: its own number, the threat's or the data's."""
    return request.per_class or task.cell.threat.labels_per_class or task.dataset.recipe.auxiliary_per_class


def shortages(task: Task) -> Iterator[str]:
    """Yield what a task lacks rows for, one sentence each, with the field to change."""
    # The numbers of rows do not depend on the seed; who holds which of them does.
    y = task.dataset.y[training_rows(task.dataset, task.cell.seeds[0], task.cell.rows)]
    yield from dict.fromkeys(_of_labels(task, y))
    try:
        for rows in FEDERATIONS[task.cell.federation.name].rows_under_attack(task):
            if lacking := list(_of_features(task, rows)):
                yield from lacking
                return
    except DataError as error:
        yield str(error)


def _of_labels(task: Task, y: Tensor) -> Iterator[str]:
    classes = task.dataset.num_classes
    counts = torch.bincount(y, minlength=classes).tolist()
    scarce = min(range(classes), key=counts.__getitem__)
    has = f"class {task.dataset.class_names[scarce]!r} has {counts[scarce]:,} rows to train on"
    for attack in task.attacks:
        request = attack.auxiliary_request()
        if request is None:
            continue
        each, total = known_per_class(request, task), request.total
        if request.how == "random":
            total = total or each * classes
            if not classes <= total < len(y):
                yield (
                    f"attacks.{attack.name}: knows the labels of {total:,} of {len(y):,} rows to train on; expected "
                    f"{classes}, one a class, to {len(y) - 1:,}: change aux_total or threat.labels_per_class"
                )
            continue
        field = "threat.labels_per_class" if request.per_class is None else f"attacks.{attack.name}.aux_per_class"
        if request.per_class is None and total:
            field, each = f"attacks.{attack.name}.aux_total", -(-total // classes)
        if each >= counts[scarce]:
            most = counts[scarce] - 1
            times = classes if field.endswith("aux_total") else 1
            yield (
                f"{field}: attackers know the labels of {each} rows of each class, and {has}, of which one at least "
                f"must stay unlabeled; {f'set {field} to {most * times} or less' if most else 'add rows of it'}"
            )


def _of_features(task: Task, rows: int) -> Iterator[str]:
    """Yield which attacks on features lack rows to reconstruct, or to know, of those of the party under attack."""
    kind = FEDERATIONS[task.cell.federation.name]
    there = f"{kind.rows_there} {rows:,} rows to train on"
    for attack in task.attacks:
        request, field = attack.target_request(), f"attacks.{attack.name}"
        if request is None:
            continue
        targets, known = target_rows(request, rows, 0, task.cell.threat)
        if not len(targets):
            most = min(request.rows, rows // 2)
            yield (
                f"{field}: the {most} rows to reconstruct make no batch of {request.batch}: {there}, and half of them "
                f"may be; {f'set {field}.batch to {most} or less' if most else 'add rows'}{kind.more_rows}"
            )
        elif len(known) < request.least:
            enough = rows - len(targets) >= request.least
            remedy = f"set {field}.aux to {request.least}" if enough else f"add rows, or lower {field}.rows"
            yield (
                f"{field}: knows {len(known)} rows and needs {request.least}: {there}, and it reconstructs "
                f"{len(targets)} others; {remedy}{kind.more_rows}"
            )
