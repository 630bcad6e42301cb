"""The loop of rounds against a naive one, and what must hold of any federated averaging."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.federations import begun, task_of
from tune_vfl.evaluation.clients import Clients, select_client, utilities_by_client
from tune_vfl.evaluation.training import train_pack
from tune_vfl.horizontal.server import Observer, ReceivedUpdate
from tune_vfl.horizontal.shards import client_seed
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream
from tune_vfl.spec import Strict

ALONE, TOGETHER = Pack((0,), None), Pack((0, 1), 2)


def lines(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def naive(clients: Clients, start: nn.Module, *, rounds: int, lr: float, batch: int, momentum: float) -> Tensor:
    """FedAvg as one writes it down: each client in turn, plain autograd, torch's own SGD, a weighted mean."""
    (of_seed,) = clients.splits
    model = copy.deepcopy(start)
    orders = [Stream(client_seed(clients.pack.seeds[0], c), "order") for c in range(len(of_seed))]
    for _ in range(rounds):
        total, weight = torch.zeros_like(lines(model)), 0
        for split, order in zip(of_seed, orders, strict=True):
            local = copy.deepcopy(model)
            sgd = torch.optim.SGD(local.parameters(), lr=lr, momentum=momentum)
            at = order.permutation(len(split.y_train))
            for part in at.split(batch):
                sgd.zero_grad()
                logits = local.top(local.bottoms[0](split.passive_train[0][part]))
                nn.functional.cross_entropy(logits, split.y_train[part]).backward()
                sgd.step()
            total += lines(local) * len(at)
            weight += len(at)
        nn.utils.vector_to_parameters(total / weight, model.parameters())
    return lines(model)


SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 0.2, "momentum": 0.9, "batch_size": 32}


MNIST = pytest.param(
    {"dataset": {"name": "mnist", "rows": 600}},
    marks=pytest.mark.public_data("MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/t10k-images-idx3-ubyte"),
)


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("how", [{"clients": 1}, {}, {"shards": {"dirichlet": 0.5}}, MNIST])
def test_federated_averaging_is_what_a_naive_loop_makes_of_it(model, how):
    task = task_of(rounds=2, model=model, training={**SGD, "lr": 0.05}, **{"clients": 3, **how})
    clients, cohorts, rounds = begun(task, ALONE)
    start = copy.deepcopy(cohorts[0].network)
    rounds.run()
    found = lines(cohorts[0].network)
    assert (found - lines(start)).abs().max() > 0.01, "it has learned something"
    wanted = naive(clients, start, rounds=2, lr=0.05, batch=32, momentum=0.9)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_a_pack_of_trials_seeds_and_clients_is_each_trained_alone():
    task = task_of(clients=3, rounds=2, training=SGD)
    clients, (cohort,), rounds = begun(task, TOGETHER)
    rounds.run()
    for seed in (0, 1):
        _, single, alone = begun(task, Pack((seed,), None))
        alone.run()
        for trial in (0, 1):
            member = select_client(cohort.network, 0, 3)
            mine = torch.cat([p.detach()[trial * 2 + seed].flatten() for p in member.parameters()])
            torch.testing.assert_close(mine, lines(single[0].network), atol=1e-5, rtol=1e-5)
    reached, _ = utilities_by_client(clients, [cohort])
    assert reached.shape == (4, 3)
    torch.testing.assert_close(reached[:2], reached[2:])


def test_clients_in_another_order_make_the_same_model(monkeypatch):
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        task = task_of(clients=3, rounds=2, training=SGD)
        clients, cohorts, rounds = begun(task, ALONE)
        rounds.cohorts = [cohorts[k] for k in order]
        rounds._order = lambda held=rounds.cohorts: held
        rounds._counts = clients.counts
        rounds.run()
        found.append(lines(cohorts[0].network))
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-5)


class _Notes(Observer):
    def __init__(self) -> None:
        self.seen: list[ReceivedUpdate] = []

    def received(self, what: ReceivedUpdate) -> None:
        self.seen.append(what)


@pytest.mark.parametrize("pack", [ALONE, TOGETHER])
def test_who_does_not_take_part_stays_out_of_the_mean(pack):
    task = task_of(clients=4, rounds=3, training=SGD, participation=0.5)
    _, _, rounds = begun(task, pack)
    rounds.server._observers.append(notes := _Notes())
    rounds.run()
    for number in range(3):
        taking = torch.stack([r.taking for r in notes.seen if r.round == number])
        assert (taking.sum(0) == 2).all()
        moved = torch.stack([r.update.abs().sum(-1) > 0 for r in notes.seen if r.round == number])
        assert moved.equal(taking), "who takes part has something to send, and nobody else"


def test_local_steps_are_a_few_batches_a_round():
    seen = []
    for how in ({"local_steps": 1}, {"local_steps": 3}, {"local_epochs": 2}):
        task = task_of(clients=2, rounds=2, training=SGD, **how)
        _, cohorts, rounds = begun(task, ALONE)
        rounds.run()
        seen.append(cohorts[0].loop._step)
    rows = -(-len(cohorts[0].rows._split.y_train) // 32)
    assert seen == [2, 6, 4 * rows]


def test_a_training_that_blows_up_is_lost_and_others_of_its_pack_are_not():
    task = task_of(clients=2, rounds=2, training={**SGD, "lr": 1e12, "momentum": 0.0})
    run = train_pack(task, [Strict()], ALONE)
    assert run.table["lost",] == ["training"]


def test_batch_statistics_are_averaged_where_they_are_shared():
    from tune_vfl.horizontal.vector import Vector

    norm = nn.BatchNorm1d(3)
    vector = Vector.of_statistics([norm], ())
    assert vector.width == 6
    vector.write(torch.arange(6.0).unsqueeze(0))
    assert norm.running_var is not None
    assert norm.running_var.tolist() == [3.0, 4.0, 5.0]
    torch.testing.assert_close(vector.read(), torch.arange(6.0).unsqueeze(0))
