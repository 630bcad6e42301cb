"""What a federation's utility is: the mean over its clients, trained or alone, each with its own network."""

import math
from typing import Any

import pytest
import torch

from tests.helpers.federations import begun, task_of
from tune_vfl.evaluation.alone import alone
from tune_vfl.evaluation.clients import utilities_by_client
from tune_vfl.evaluation.federations import horizontal
from tune_vfl.evaluation.table import below
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict

HOW: dict[str, Any] = {"clients": 3, "rounds": 1, "training": {"batch_size": 64}}
BY_CLIENT = torch.tensor([[0.9, 0.6, 0.3], [0.5, 0.8, 0.8]])
VARIANCES = torch.tensor([[1e-4, 2e-4, 6e-4], [3e-4, 3e-4, 3e-4]])


def test_utility_and_its_variance_are_means_over_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server averages is the same everywhere: only what clients keep makes the means differ from the first."""
    monkeypatch.setattr(horizontal, "utilities_by_client", lambda *_: (BY_CLIENT, VARIANCES))
    table = train_pack(task_of(**HOW), [Strict()], Pack((0, 1), 1)).table
    assert table["utility",] == pytest.approx([0.6, 0.7])
    assert table["utility_variance",] == pytest.approx([3e-4, 3e-4])
    assert table["before_end", "utility"] == pytest.approx([0.6, 0.7])
    spread = below(table, "logged")["utility_std_over_clients"]
    assert spread == pytest.approx([0.3, math.sqrt(0.03)]), "a sample's deviation: n - 1"


def test_a_member_is_lost_with_any_of_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BY_CLIENT.clone()
    broken[1, 2] = math.nan
    monkeypatch.setattr(horizontal, "utilities_by_client", lambda *_: (broken, VARIANCES))
    table = train_pack(task_of(**HOW), [Strict()], Pack((0, 1), 1)).table
    assert table["lost",] == ["", "training"]
    assert table["utility",] == pytest.approx([0.6, math.nan], nan_ok=True)


def test_clients_that_keep_their_bottom_models_are_measured_each_with_its_own() -> None:
    task = task_of("fedadob", clients=3, rounds=2, shards={"classes": 4}, training={"batch_size": 64})
    clients, cohorts, rounds = begun(task, Pack((0,), 1))
    rounds.run()
    reached, _ = utilities_by_client(clients, cohorts)
    assert reached.std() > 0.01, "other rows, other bottom models"
    run = train_pack(task, [task.defense.Params()], Pack((0,), 1))
    assert run.table["utility",] == pytest.approx(reached.mean(-1).tolist())


@pytest.mark.parametrize("steps", [1, 3])
def test_a_client_alone_trains_as_many_batches_as_in_the_federation(steps: int) -> None:
    """With ``local_steps`` a round is a few batches of a pass, and so it is for a client that shares nothing."""
    task = task_of(**{**HOW, "rounds": 4}, local_steps=steps)
    clients, (cohort,), _ = begun(task, Pack(task.cell.seeds, 1))
    cohort.network.train()
    for number in range(4):
        for _ in cohort.loop.epoch_steps(number, steps):
            pass
    assert cohort.loop._step == 4 * steps
    reached, _ = utilities_by_client(clients, [cohort])
    assert alone(task) == pytest.approx(reached.mean(-1).tolist(), abs=1e-6)
    whole = alone(task_of(**{**HOW, "rounds": 4}))
    assert all(more > few for more, few in zip(whole, alone(task), strict=True)), "whole passes reach more"
