"""What a client reaches by itself, and what a defense costs, in the horizontal setting."""

from __future__ import annotations

import torch

from tests.helpers.federations import begun, task_of
from tune_vfl.evaluation.alone import alone
from tune_vfl.evaluation.cost import training_cost
from tune_vfl.evaluation.federated import train_clients, utilities_by_client
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict

HOW = {"clients": 6, "rounds": 8, "budget": {"seeds": 2}}


def test_clients_alone_know_less_than_together():
    task = task_of(**HOW)
    own = alone(task)
    together = train_clients(task, [Strict()], Pack(task.cell.seeds, 1)).table["utility",]
    assert len(own) == len(together) == 2
    assert all(mine < theirs for mine, theirs in zip(own, together, strict=True))


def test_a_client_alone_is_one_that_nobody_averages():
    task = task_of(**HOW)
    clients, (cohort,), _ = begun(task, Pack(task.cell.seeds, 1))
    for epoch in range(8):
        for _ in cohort.loop.epoch_steps(epoch):
            pass
    reached, _ = utilities_by_client(clients, [cohort])
    torch.testing.assert_close(torch.tensor(alone(task)), reached.mean(-1), check_dtype=False)


def test_no_defense_costs_what_no_defense_costs():
    cell = task_of(**HOW).cell
    assert 0.5 < training_cost(cell, {}, cell) < 2
