"""Local baselines: the utility that the label party, or one client, reaches without the others, by the same recipe."""

from __future__ import annotations

import math
from dataclasses import replace

from tune_vfl.evaluation.clients import Clients
from tune_vfl.evaluation.federated import begin, utilities_by_client
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, train_pack
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
    guesses = guessed(task)
    if task.cell.federation.horizontal:
        return _or_guess(_of_clients(task), guesses)
    if task.dataset.active is None:
        return guesses
    own = _of_the_label_party(task)
    packs = [Pack(task.cell.seeds, 1)] if own.architecture.stackable else [Pack((s,), None) for s in task.cell.seeds]
    reached: list[float] = []
    for pack in packs:
        table = train_pack(own, [Strict()], pack).table
        reached += table["utility",]
    return _or_guess(reached, guesses)


def _or_guess(reached: list[float], guesses: list[float]) -> list[float]:
    return [value if math.isfinite(value) else guess for value, guess in zip(reached, guesses, strict=True)]


def _of_clients(task: Task) -> list[float]:
    """Return the mean utility of clients that share nothing, a value a seed.

    A client makes as many passes over its rows, or single steps, as in the federation: where each round has a share of
    the clients, it trains in that share of the rounds, at the learning rates of these.
    """
    cell = task.cell.model_copy(update={"defense": "none", "fixed": {}, "attacks": ()})
    own, federation, reached = replace(task, cell=cell, attacks=()), cell.federation, []
    packs = [Pack(cell.seeds, 1)] if own.stacks(Strict()) else [Pack((s,), None) for s in cell.seeds]
    for pack in packs:
        clients = Clients(own, pack)
        cohorts, _ = begin(clients, [Strict()])
        for cohort in cohorts:
            cohort.network.train()
            for number in federation.rounds_of_a_client(federation.rounds or 1):
                for epoch in range(federation.passes(number), federation.passes(number + 1)):
                    for _ in cohort.loop.epoch_steps(epoch, federation.local_steps):
                        pass
        reached += utilities_by_client(clients, cohorts)[0].mean(-1).tolist()
    return reached


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


def _of_the_label_party(task: Task) -> Task:
    """Return the task of a model on the label party's columns alone, which needs no join with other parties."""
    dataset = task.dataset
    assert dataset.active is not None  # noqa: S101 - looked at by the caller
    own = replace(dataset, passive=(dataset.active,), active=None)
    cell = task.cell.model_copy(update={"defense": "none", "fixed": {}, "attacks": (), "mode": "label_only"})
    return replace(task, cell=cell, dataset=own, attacks=())
