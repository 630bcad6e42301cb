"""Local baselines: the utility that the label party, or one client, reaches without the others, by the same recipe."""

from __future__ import annotations

import math
from dataclasses import replace

from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of
from tune_vfl.metrics.utility import utility
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict


def alone(task: Task) -> list[float]:
    """Return the utility of the label party's own model, a value a seed.

    It trains a bottom model on its own columns and the top model on that, with the cell's recipe and rows. A party with
    labels only guesses: every row gets the shares of the training labels. A training that diverges guesses too. In the
    horizontal setting it is the mean over clients, each of which trains both models on its own rows, as often as a
    client of the federation does.
    """
    guesses, kind = guessed(task), FEDERATIONS[task.cell.federation.name]
    dataset = kind.of_one(task.dataset)
    if dataset is None:
        return guesses
    cell = task.cell.model_copy(update={"defense": "none", "fixed": {}, "attacks": (), "mode": "label_only"})
    own = replace(task, cell=cell, dataset=dataset, attacks=())
    packs = [Pack(cell.seeds, 1)] if own.stackable else [Pack((s,), None) for s in cell.seeds]
    reached: list[float] = []
    for pack in packs:
        training = kind(own, [Strict()], pack)
        for _ in training.apart():
            pass
        reached += training.finish().table["utility",]
    return [value if math.isfinite(value) else guess for value, guess in zip(reached, guesses, strict=True)]


def guessed(task: Task) -> list[float]:
    """Return the utility of answering every row with the training labels' class shares, a value a seed."""
    import numpy as np

    cell, values = task.cell, []
    for seed in cell.seeds:
        split = split_of(task, Pack((seed,), None))
        shares = np.bincount(split.y_train.reshape(-1).numpy(), minlength=cell.num_classes) / split.y_train.numel()
        labels = split.y_test.reshape(-1).numpy()
        values.append(utility(cell.metric, np.tile(shares, (len(labels), 1)), labels))
    return values
