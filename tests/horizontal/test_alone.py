"""What a client reaches by itself, and what a defense costs, in the horizontal setting."""

import pytest
import torch

from tests.helpers.federations import begun, task_of
from tune_vfl.evaluation.alone import alone
from tune_vfl.evaluation.clients import utilities_by_client
from tune_vfl.evaluation.cost import training_cost
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict

HOW = {"clients": 6, "rounds": 8, "budget": {"seeds": 2}}


def test_clients_alone_know_less_than_together():
    task = task_of(**HOW)
    own = alone(task)
    together = train_pack(task, [Strict()], Pack(task.cell.seeds, 1)).table["utility",]
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


@pytest.mark.parametrize(
    ("how", "epochs", "most"),
    [
        ({"participation": 0.5}, [0, 2, 4, 6], None),
        ({"participation": 1 / 6}, [0, 6], None),
        ({"participation": 0.5, "local_epochs": 2}, [0, 1, 4, 5, 8, 9, 12, 13], None),
        ({"local_steps": 1}, [0, 1, 2, 3, 4, 5, 6, 7], 1),
        ({"participation": 0.5, "local_steps": 1}, [0, 2, 4, 6], 1),
    ],
)
def test_a_client_alone_trains_as_often_as_one_of_the_federation(how, epochs, most):
    """In as many rounds as it takes part in, at their learning rates, and so many batches in each."""
    task = task_of(**HOW, **how, training={"batch_size": 32, "lr_schedule": "inverse_sqrt"})
    clients, (cohort,), _ = begun(task, Pack(task.cell.seeds, 1))
    for epoch in epochs:
        for _ in cohort.loop.epoch_steps(epoch, most):
            pass
    reached, _ = utilities_by_client(clients, [cohort])
    torch.testing.assert_close(torch.tensor(alone(task)), reached.mean(-1), check_dtype=False)


def test_a_client_alone_makes_the_passes_that_a_client_of_the_federation_makes_on_average():
    task = task_of(**HOW, participation=0.5)
    _, _, rounds = begun(task, Pack(task.cell.seeds, 1))
    federation = task.cell.federation
    taken = sum(float(rounds._taking().float().mean()) for _ in range(8))
    assert taken == len(federation.rounds_of_a_client(8)) == 4
    assert federation.rounds_of_a_client(1) == [0]


def test_no_defense_costs_what_no_defense_costs():
    cell = task_of(**HOW).cell
    assert 0.5 < training_cost(cell, {}, cell) < 2
