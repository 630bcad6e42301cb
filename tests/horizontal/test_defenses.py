"""Defenses in the loop of rounds: in one pass or alone, SplitFed against naive loops, what FedAdOb's clients keep."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.federations import begun, task_of
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.defenses.gaussian import GaussianParams
from tune_vfl.defenses.parts.passports import PassportLayer
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.clients import select_client
from tune_vfl.evaluation.grants.client_gradients import uploads_of
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.training import train_pack
from tune_vfl.horizontal.rounds import Rounds
from tune_vfl.horizontal.server import Observer, ReceivedUpdate
from tune_vfl.horizontal.shards import client_seed
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import Stream
from tune_vfl.statistics.privacy import epsilon_of

FIT = [name for name in DEFENSES if "horizontal" in DEFENSES[name].capabilities.federations]
QUICK = {"name": "bmi", "most_steps": 1}
ALONE, TOGETHER = Pack((0,), None), Pack((0, 1), 2)
SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 0.1, "batch_size": 64}


def lines(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize("name", FIT)
def test_clients_in_one_pass_are_clients_alone_whoever_takes_part(name):
    task = task_of(name, clients=4, rounds=3, participation=0.5, training=SGD)
    _, alone, first = begun(task, ALONE)
    _, (together,), second = begun(task, TOGETHER)
    first.run()
    second.run()
    for client, cohort in enumerate(alone):
        network = select_client(together.network, client, 4)
        for p, q in zip(network.parameters(), cohort.network.parameters(), strict=True):
            torch.testing.assert_close(p[0], q, rtol=0, atol=1e-5)
            torch.testing.assert_close(p[2], q, rtol=0, atol=1e-5)


def test_splitfed_v1_trains_what_federated_averaging_does():
    found = []
    for name in ("none", "splitfed"):
        _, (cohort,), rounds = begun(task_of(name, clients=4, rounds=2, training=SGD), TOGETHER)
        rounds.run()
        found.append(torch.cat([p.detach().flatten() for p in cohort.network.parameters()]))
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


def naive_v2(splits, start: nn.Module, rounds: int, seed: int, takers: int) -> tuple[Tensor, Tensor]:
    """SplitFed V2 as one writes it down: one upper part, moved by all takers in turn; their bottom models averaged."""
    server, bottom = copy.deepcopy(start.top), copy.deepcopy(start.bottoms[0])
    orders = [Stream(client_seed(seed, c), "order") for c in range(len(splits))]
    turns, taking = Stream(seed, "turns"), Stream(seed, "participation")
    for _ in range(rounds):
        total, weight = torch.zeros_like(lines(bottom)), 0
        rank = taking.permutation(len(splits))
        passes = [order.permutation(len(of.y_train)) for order, of in zip(orders, splits, strict=True)]
        for c in (int(k) for k in turns.permutation(len(splits)) if rank[k] < takers):
            own, split = copy.deepcopy(bottom), splits[c]
            sgd = torch.optim.SGD([*own.parameters(), *server.parameters()], lr=SGD["lr"])
            for part in passes[c].split(SGD["batch_size"]):
                sgd.zero_grad()
                nn.functional.cross_entropy(server(own(split.passive_train[0][part])), split.y_train[part]).backward()
                sgd.step()
            total, weight = total + lines(own) * len(split.y_train), weight + len(split.y_train)
        nn.utils.vector_to_parameters(total / weight, bottom.parameters())
    return lines(bottom), lines(server)


@pytest.mark.parametrize(("participation", "takers"), [(1.0, 4), (0.5, 2), (0.01, 1)])
@pytest.mark.parametrize("seed", [0, 5])
def test_splitfed_v2_is_what_a_naive_loop_makes_of_it(seed, participation, takers):
    shards = {"dirichlet": 1.0}
    task = task_of("splitfed", clients=4, rounds=3, training=SGD, shards=shards, participation=participation)
    clients, cohorts, rounds = begun(task, Pack((seed,), None), version="v2")
    start = copy.deepcopy(cohorts[0].network)
    rounds.run()
    assert not rounds.diverged.any()
    bottom, server = naive_v2(clients.splits[0], start, 3, seed, takers)
    for cohort in cohorts:
        torch.testing.assert_close(lines(cohort.network.bottoms[0]), bottom, rtol=0, atol=1e-5)
        torch.testing.assert_close(lines(cohort.network.top), server, rtol=0, atol=1e-5)


def turns_of(seeds: int | list[int]) -> list[int | None]:
    """Return whose update reached the server when, in four rounds of clients in turn."""
    task = task_of("splitfed", clients=5, rounds=4, training=SGD)
    clients, cohorts, _ = begun(task, ALONE, version="v2")
    seen: list[int | None] = []

    class Noting(Observer):
        def received(self, what: ReceivedUpdate) -> None:
            seen.append(what.client)

    Rounds(cohorts, task.cell.federation, clients.counts, seeds, in_turn=True, observers=[Noting()]).run()
    return seen


def test_each_seed_has_an_order_of_turns_and_each_round_another():
    first = turns_of(0)
    assert first == turns_of(0)
    assert first != turns_of(1)
    by_round = [first[k : k + 5] for k in range(0, 20, 5)]
    assert all(sorted(one) == list(range(5)) for one in by_round)
    assert len(set(map(tuple, by_round))) > 1


def test_clients_in_turn_train_one_seed_at_a_time():
    with pytest.raises(ValueError, match="train one seed at a time"):
        turns_of([0, 1])
    task = task_of("splitfed", clients=4, rounds=3)
    v1, v2 = (defense_params("splitfed", {"version": v}, num_classes=10) for v in ("v1", "v2"))
    assert task.stacks(v1)
    assert not task.stacks(v2)


def test_the_versions_of_splitfed_are_one_where_a_round_has_one_client():
    task = task_of("splitfed", clients=4, rounds=8, participation=0.1)
    versions = [defense_params("splitfed", {"version": v}, num_classes=10) for v in ("v1", "v2")]
    v1, v2 = (train_pack(task, [params], ALONE).table["utility",] for params in versions)
    assert v1[0] > 0.3
    assert v2 == pytest.approx(v1, abs=1e-6)


def test_a_learning_rate_that_blows_up_is_an_outcome_that_says_so():
    blown = {"optimizer": "sgd", "lr": 1e12, "batch_size": 64}
    task = task_of("splitfed", [QUICK], clients=4, rounds=2, participation=0.5, training=blown)
    for outcome in evaluate_pack(task.cell, [{"version": "v1"}, {"version": "v2"}]):
        assert outcome.outcome == "diverged"
        assert "training became non-finite with seed 0, 1, 2" in outcome.reason
        assert outcome.utility is None


def test_the_versions_of_splitfed_share_no_pass_and_differ():
    of = DEFENSES["splitfed"]
    versions = [defense_params("splitfed", {"version": v}, num_classes=10) for v in ("v1", "v2")]
    assert of.structure(versions[0]) != of.structure(versions[1])
    task = task_of("splitfed", [QUICK], clients=4, rounds=5, budget={"seeds": 2})
    outcomes = evaluate_pack(task.cell, [{"version": "v1"}, {"version": "v2"}])
    assert [o.outcome for o in outcomes] == ["ok", "ok"]
    # One upper part learns from every client within a round.
    assert outcomes[1].utility.mean > outcomes[0].utility.mean + 0.05
    assert "second server" in outcomes[0].notes[-1]


def test_clients_of_fedadob_keep_bottom_models_passports_and_statistics():
    task = task_of("fedadob", clients=3, rounds=2, training=SGD, model={"name": "cnn", "channels": [4, 6]})
    _, cohorts, rounds = begun(task, ALONE)

    def passports(cohort):
        return [m.passports.clone() for m in cohort.network.modules() if isinstance(m, PassportLayer)]

    def statistics(cohort):
        return torch.cat([b for n, b in cohort.network.named_buffers() if n.endswith("running_mean")])

    before, start = [passports(c) for c in cohorts], [lines(c.network.bottoms[0]) for c in cohorts]
    rounds.run()
    tops = [lines(c.network.top) for c in cohorts]
    for k, cohort in enumerate(cohorts):
        other = cohorts[k - 1]
        assert torch.equal(tops[k], tops[k - 1])
        assert all(torch.equal(a, b) for a, b in zip(before[k], passports(cohort), strict=True))
        assert not torch.equal(before[k][0], before[k - 1][0])
        assert not torch.equal(start[k], lines(cohort.network.bottoms[0]))
        assert not torch.equal(lines(other.network.bottoms[0]), lines(cohort.network.bottoms[0]))
        assert statistics(cohort).abs().max() > 0
        assert not torch.equal(statistics(cohort), statistics(other))


def test_a_clip_brings_a_budget_and_none_is_logged_without_noise():
    task = task_of("gaussian", [QUICK], clients=3, rounds=4, budget={"seeds": 1})
    plain, clipped, silent = evaluate_pack(task.cell, [{}, {"clip": 1.0, "sigma": 2.0}, {"clip": 1.0, "sigma": 0.0}])
    # mu = sqrt(4) / 2 = 1.
    assert clipped.logged["epsilon"] == pytest.approx(4.37717810, abs=1e-6)
    assert "epsilon" not in plain.logged
    assert "epsilon" not in silent.logged
    assert any("no privacy budget" in note for note in plain.notes)


STEPS = {"name": "wgi", "rows": 3, "methods": "cosine", "steps": 1, "moments": ["first", "last"]}


@pytest.mark.parametrize(
    ("attacks", "optimizer", "steps"),
    [
        ([STEPS], "sgd", 6),
        ([STEPS], "adam", 12),  # a step by each
        ([STEPS, {**STEPS, "name": "bgi", "rows": 2, "surrogates": "fresh", "restarts": 1}], "sgd", 10),
    ],
)
def test_a_budget_counts_every_upload_that_attacks_read(attacks, optimizer, steps):
    recipe = {"optimizer": optimizer, "lr": 0.01}
    task = task_of("gaussian", attacks, clients=3, rounds=4, training=recipe, budget={"seeds": 2})
    params = [GaussianParams(clip=0.01, sigma=0.02), GaussianParams(clip=0.01, sigma=0.04)]
    together = train_pack(task, params, TOGETHER, task.attacks)
    mus = [(4 + steps) ** 0.5 * 0.01 / p.sigma for p in params]
    expected = [epsilon_of(mu) for mu in mus]
    assert together.table["logged", "epsilon"] == pytest.approx([e for e in expected for _ in range(2)], abs=1e-6)
    alone = train_pack(task, params[1:], ALONE, task.attacks)
    assert alone.table["logged", "epsilon"] == pytest.approx(expected[1:], abs=1e-6)
    assert "single steps" in alone.table["notes",][0][-1]


def test_the_noise_of_single_steps_is_drawn_anew_after_the_training():
    still = {"optimizer": "sgd", "lr": 1e-30}
    task = task_of("gaussian", [STEPS], clients=2, rounds=1, training=still, budget={"seeds": 1})
    run = train_pack(task, [GaussianParams(sigma=1.0)], ALONE, task.attacks)
    uploads = uploads_of(task.attacks[0], run)
    assert uploads is not None
    assert not torch.allclose(uploads.gradients["first"], uploads.gradients["last"])


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("fedpass", {}, "not for a horizontal federation; those that are: .*fedadob.*splitfed"),
        ("marvell", {}, "not for a horizontal federation"),
        ("splitfed", {"federation": "vertical"}, "'splitfed' is not for a vertical federation; those that are: cae"),
        ("fedadob", {"federation": "vertical"}, "'fedadob' is not for a vertical federation"),
        ("splitfed", {"attacks": ["wmi"]}, "under splitfed no bottom model reaches the server"),
    ],
)
def test_what_does_not_go_together_is_refused(name, fields, why):
    with pytest.raises(SpecError, match=why):
        task_of(name, **fields)


@pytest.mark.parametrize("name", ["instahide", "mixup"])
def test_clients_mix_their_own_rows_alone(name):
    task = task_of(name, clients=3, rounds=1, training=SGD)
    _, (cohort,), _ = begun(task, Pack((0,), 1))
    (rows,) = cohort.rows.features()
    mixtures = cohort.defense.mixtures(0)
    assert mixtures.partners.shape[:2] == rows.shape[:2]
    assert not torch.equal(mixtures.partners[0], mixtures.partners[1])
    batch = next(cohort.rows.batches(16))
    mixed = cohort.defense.inputs(batch, cohort.rows, epoch=0).features[0].abs()
    for client in range(3):
        at = batch.ids[client]
        shares, partners = mixtures.shares[client][at], mixtures.partners[client][at]
        expected = sum(shares[:, j, None, None, None] * rows[client][partners[:, j]] for j in range(shares.shape[-1]))
        torch.testing.assert_close(mixed[client], expected.abs())


def test_strong_settings_of_every_kind_cost_utility():
    strong = {
        "gaussian": {"sigma": 1.0},
        "laplace": {"scale": 1.0},
        "gradient_compression": {"keep": 0.001},
        "sparsification": {"drop": 0.999, "residual": False},
        "instahide": {"mix": 4},
        "mixup": {"mix": 4},
    }
    recipe = {"clients": 4, "rounds": 10}

    def utility(name: str, **params: Any) -> float:
        task = task_of(name, **recipe)
        run = train_pack(task, [defense_params(name, params, num_classes=10)], Pack((0, 1), 1))
        return sum(run.table["utility",]) / 2

    plain = utility("none")
    for name, params in strong.items():
        assert utility(name, **params) < plain - 0.05, name
