"""What a server holds of a client's single steps, laid beside plain loops; and who is refused it."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
import torch.nn.functional as F

from tests.helpers.cells import cells
from tests.helpers.problems import made_up_split, network_for
from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest
from tune_vfl.attacks.bgi import Bgi, BgiParams
from tune_vfl.defenses.base import DEFENSES, Defense, DefenseCapabilities
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.coverage import coverage_of
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.client_gradients import ClientGradients, SingleSteps
from tune_vfl.evaluation.grants.client_model import ClientNetwork
from tune_vfl.evaluation.grants.received import target_rows
from tune_vfl.evaluation.pictured import pictured
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.horizontal.shards import client_seed
from tune_vfl.protocol.granted import Pairs
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.spec import HORIZONTAL, Strict, Training, parse
from tune_vfl.spec.raw import apply_settings

SETTINGS = ("federation=horizontal", "clients=4", "rounds=2")
SEEDS = (3, 5)
cell_of = cells(*SETTINGS, dataset="digits", defense="none")


class Server(Attack[Strict]):
    """Sees all that there is of a client."""

    name = "server"
    capabilities = AttackCapabilities(
        goal="features",
        who="active",
        sees=frozenset({"client_gradients", "top_gradients", "client_model", "shared_part"}),
        federations=HORIZONTAL,
    )
    wants = TargetRequest(6, 0, 2)

    def target_request(self):
        return self.wants

    def run(self, view):
        return {}


class Doubled(Defense):
    """Changes rows, labels and what is uploaded, each in its own way, and keeps the bottom models."""

    capabilities = DefenseCapabilities(federations=HORIZONTAL, client_bottom="kept")

    def begin(self):
        self.left = 0.0

    def inputs(self, batch, rows, *, epoch):
        return batch.with_features([x + 0.1 * epoch for x in batch.features])

    def labels(self, y, ids):
        return (y + 1) % self.num_classes

    def client_update(self, update, *, taking):
        assert bool(taking.all())
        assert taking.shape == (*update.shape[:-1], 1)
        self.left = self.left + update
        return 3 * self.left + self.streams["upload"].normal(*update.shape[-2:])


@cache
def trained():
    task = Task.open(cell_of("wmi"))
    return train_pack(task, [Strict(), Strict()], Pack(SEEDS, 2), [Server()])


def steps_of(network, x, y, parameters):
    """Gradients of batches ``(G, B, ...)`` by plain passes."""
    found = []
    for rows, labels in zip(x, y, strict=True):
        loss = F.cross_entropy(network.head(network.bottoms[0](rows)), labels)
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]))
    return torch.stack(found)


@pytest.mark.parametrize("member", range(4))
def test_a_client_uploads_the_gradient_of_its_loss_on_each_batch(member):
    run = trained()
    alone, network = run.member(member), copy.deepcopy(run.member(member).network)
    view = view_of(Server(), alone)
    seen = view.granted("client_gradients")
    targets, _ = target_rows(Server.wants, alone.y_train.shape[-1], SEEDS[member % 2])
    assert torch.equal(seen.ids, targets)
    assert (seen.batch, seen.shape) == (2, (1, 8, 8))
    x, y = alone.x_train[targets].view(3, 2, 1, 8, 8), alone.y_train[targets].view(3, 2)
    wanted = steps_of(network, x, y, list(network.parameters()))
    torch.testing.assert_close(seen.gradients["last"], wanted, atol=1e-6, rtol=1e-4)
    assert not torch.allclose(seen.gradients["first"], wanted, atol=1e-3)
    stacked = view_of(Server(), run).granted("client_gradients")
    assert torch.equal(stacked.gradients["last"][member], seen.gradients["last"])
    assert torch.equal(stacked.ids[member], seen.ids)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_client_that_trains_by_adam_uploads_its_first_step_too(decay):
    _, network, split, training = made_up()
    defense = DEFENSES["none"](Strict(), num_classes=3, embedding_dims=[5])
    recipe = training.model_copy(update={"optimizer": "adam", "weight_decay": decay, "lr": 0.01})
    keeper = SingleSteps([Server()], recipe, split.y_train.shape[-1])
    keeper.begin(SplitTraining(network, Rows(split, Pack((7,), None)), recipe, [defense, keeper], ()))
    (gradients,), (steps,) = keeper.of(Server.wants).values(), keeper.of(Server.wants, "adam").values()
    for gradient, step in zip(gradients, steps, strict=True):
        alike = copy.deepcopy(network)
        parameters = list(alike.parameters())
        before = torch.cat([p.detach().flatten() for p in parameters])
        at = 0
        for p in parameters:
            p.grad = gradient[at : at + p.numel()].view_as(p).clone()
            at += p.numel()
        torch.optim.Adam(parameters, lr=0.01, weight_decay=decay).step()
        moved = torch.cat([p.detach().flatten() for p in parameters]) - before
        torch.testing.assert_close(step, -moved / 0.01, atol=1e-4, rtol=1e-3)


def test_steps_of_sgd_are_gradients_and_are_kept_once():
    defense, network, split, training = made_up()
    recipe = training.model_copy(update={"optimizer": "sgd"})
    keeper = SingleSteps([Server()], recipe, split.y_train.shape[-1])
    keeper.begin(SplitTraining(network, Rows(split, Pack((7,), None)), recipe, [defense, keeper], ()))
    assert keeper.of(Server.wants)
    assert not keeper.of(Server.wants, "adam")


def test_who_sees_the_top_model_alone_has_no_step_of_adam():
    defense, network, split, training = made_up()
    attack = Server()
    attack.sees = lambda: frozenset({"top_gradients"})
    keeper = SingleSteps([attack], training.model_copy(update={"optimizer": "adam"}), split.y_train.shape[-1])
    keeper.begin(SplitTraining(network, Rows(split, Pack((7,), None)), keeper.training, [defense, keeper], ()))
    assert keeper.of(Server.wants)
    assert not keeper.of(Server.wants, "adam")


def test_the_models_that_a_server_knows_upload_what_was_uploaded():
    alone = trained().member(1)
    view = view_of(Server(), alone)
    seen, top = view.granted("client_gradients"), view.granted("top_gradients")
    known, part = view.granted("client_model"), view.granted("shared_part")
    x, y = alone.x_train[seen.ids].view(3, 2, 1, 8, 8), alone.y_train[seen.ids].view(3, 2)
    for moment in ("first", "last"):
        network = known.network(moment, "any")
        found = []
        for rows, labels in zip(x, y, strict=True):
            gradients = torch.autograd.grad(F.cross_entropy(network(rows), labels), list(network.parameters()))
            found.append(torch.cat([g.flatten() for g in gradients]))
        torch.testing.assert_close(torch.stack(found), seen.gradients[moment], atol=1e-6, rtol=1e-4)
        above = list(part.top(moment).parameters())
        assert all(torch.equal(a, b) for a, b in zip(above, network.top.parameters(), strict=True))
        width = sum(p.numel() for p in above)
        assert torch.equal(top.gradients[moment], seen.gradients[moment][:, -width:])
        assert torch.equal(
            view_of(Server(), trained()).granted("top_gradients").gradients[moment][1], top.gradients[moment]
        )
    assert known.shared_from == 0
    one, two = (part.bottom(view.streams.fresh(name)) for name in ("one", "two"))
    assert one(x[0]).shape == (2, 10)
    assert not torch.equal(one(x[0]), two(x[0]))


def loop_of(defense, network, split, training):
    keeper = SingleSteps([Server()], training, split.y_train.shape[-1])
    loop = SplitTraining(network, Rows(split, Pack((7,), None)), training, [defense, keeper], ())
    return keeper, loop


def made_up(epochs=3):
    split = made_up_split(0, classes=3, own=False)
    network = network_for(split, Pack((7,), None), classes=3)
    defense = Doubled(Strict(), num_classes=3, embedding_dims=[5])
    defense.setup(split.y_train, torch.arange(70), seed=client_seed(7, 0))
    return defense, network, split, Training(epochs=epochs, optimizer="sgd", lr=0.5, batch_size=10)


def test_what_a_defense_does_while_a_client_trains_and_when_it_uploads_is_in_what_the_server_holds():
    defense, network, split, training = made_up()
    before = copy.deepcopy(network.state_dict())
    keeper, loop = loop_of(defense, network, split, training)
    keeper.begin(loop)
    keeper.end(loop)
    kept = keeper.of(Server.wants)
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())
    targets, _ = target_rows(Server.wants, 70, 7)
    noise = Doubled(Strict(), num_classes=3, embedding_dims=[5])
    noise.setup(split.y_train, torch.arange(70), seed=client_seed(7, 0))
    parameters = list(network.top.parameters())
    for moment, epoch in (("first", 0), ("last", 2)):
        x, y = split.passive_train[0][targets] + 0.1 * epoch, (split.y_train[targets] + 1) % 3
        plain = steps_of(network, x.view(3, 2, 4), y.view(3, 2), parameters)
        drawn = torch.cat([noise.streams["upload"].normal(1, plain.shape[-1]) for _ in range(3)])
        # Nothing of one batch is left over for the next one, although the defense remembers what it sent.
        torch.testing.assert_close(kept[moment], 3 * plain + drawn / -0.5, atol=1e-5, rtol=1e-4)


def test_a_network_of_several_parties_is_no_clients():
    split = made_up_split(0)
    network = network_for(split, Pack((7,), None))
    defense = DEFENSES["none"](Strict(), num_classes=2, embedding_dims=[5])
    keeper, loop = loop_of(defense, network, split, Training(epochs=1))
    keeper.begin(loop)
    keeper.end(loop)
    assert keeper.of(Server.wants) == {}


def test_an_attack_on_labels_is_handed_nothing_and_too_small_a_client_is_an_error():
    attack = type("Labels", (Server,), {"wants": None})()
    assert ClientGradients().hand_out(attack, trained()) is None
    defense, network, split, training = made_up()
    few = type("Few", (Server,), {"wants": TargetRequest(8, 0, 8)})
    small = copy.deepcopy(split)
    object.__setattr__(small, "y_train", split.y_train[:9])
    keeper = SingleSteps([few()], training, 9)
    with pytest.raises(SpecError, match="half of a client's 9 rows make no batch of 8"):
        keeper.begin(SplitTraining(network, Rows(small, Pack((7,), None)), training, [defense, keeper], ()))


def test_what_bottom_models_are_changes_nothing_that_bgi_says():
    """It reads no number of theirs: with another one in its place, and other gradients of it, it answers the same."""
    attack = Bgi(BgiParams(rows=2, steps=5, restarts=1, surrogates=("fresh",)))
    runs = [trained_for(attack), trained_for(attack)]
    changed = runs[1]
    for network in (changed.network, *changed.kept(ClientNetwork)._networks.values()):
        for p in network.bottoms[0].parameters():
            p.data.normal_()
    steps = changed.kept(SingleSteps)
    width = sum(p.numel() for p in changed.network.bottoms[0].parameters())
    for gradient in steps._kept.values():
        gradient[..., :width] = 7.0
    one, two = (attack.run(view_of(attack, run)) for run in runs)
    assert one.keys() == {"cosine_fresh_first", "cosine_fresh_last"}
    for name, answer in one.items():
        assert torch.equal(answer.rows, two[name].rows)


def trained_for(attack):
    task = Task.open(cell_of("wmi"))
    return train_pack(task, [Strict()], Pack((0,), None), [attack])


def test_a_taught_surrogate_embeds_as_the_client_does_and_brings_rows_back():
    attack = Bgi(BgiParams(rows=4, steps=40, restarts=1, moments=("last",), tv=0.01, l2=(0.0, 0.1), fit_steps=300))
    run = trained_for(attack)
    found = attack.run(view_of(attack, run))
    assert set(found) == {"cosine_fresh_last", "cosine_trained_last"}
    assert found["cosine_trained_last"].validation > 0.4 > 0.0 > found["cosine_fresh_last"].validation
    true = run.x_train[found["cosine_trained_last"].ids]
    errors = {name: (answer.rows - true).square().mean() for name, answer in found.items()}
    assert errors["cosine_trained_last"] < (run.x_train.mean(0) - true).square().mean()
    assert errors["cosine_trained_last"] < 0.5 * errors["cosine_fresh_last"]


def test_bgi_needs_known_rows_only_to_teach_and_refuses_a_lesson_about_the_untrained_model():
    fresh = Bgi(BgiParams(surrogates=("fresh",)))
    assert "pairs" not in fresh.sees()
    assert "pairs" in Bgi().sees()
    params = BgiParams(surrogates=("trained",), moments=("first",))
    (problem,) = Bgi.problems(params, num_classes=10, mode="label_only")
    assert "add last or fresh" in problem
    assert not Bgi.problems(BgiParams(surrogates=("trained",)), num_classes=10, mode="label_only")
    view = view_of(Bgi(), trained_for(Bgi()))
    few = view.holding(pairs=Pairs(view.pairs.features[:9], view.pairs.embeddings[:9]))
    assert set(Bgi(BgiParams(steps=2, restarts=1)).run(few)) == {"cosine_fresh_first", "cosine_fresh_last"}
    with pytest.raises(SpecError, match="needs 10 known rows to train a surrogate, got 9"):
        Bgi(BgiParams(surrogates=("trained",))).run(few)


def test_sums_over_clients_and_hidden_bottom_models_are_beyond_what_these_attacks_read():
    with pytest.raises(SpecError, match="'wgi' reads client_gradients, and with federation"):
        cell_of("wgi", settings=["secure=true"])
    with pytest.raises(SpecError, match="'bgi' reads top_gradients"):
        cell_of("bgi", settings=["secure=true"])
    with pytest.raises(SpecError, match="'bgi' reads shared_part, and without a top model"):
        cell_of("bgi", settings=["model.top=none"])
    with pytest.raises(SpecError, match="'wgi' is not for a vertical federation"):
        cells(dataset="digits")("wgi")


def test_the_default_of_a_horizontal_cell_is_the_servers_attacks_on_features():
    for portfolio in ("default", "default_features"):
        assert {a.name for a in cell_of(portfolio).attacks} == {"bgi", "bmi", "wgi", "wmi"}
    assert {a.name for a in cell_of("default", settings=["secure=true"]).attacks} == {"bmi", "wmi"}
    raw = {"study": "s", "dataset": "digits", "defense": "none", "attacks": ["wmi"], "budget": {"trials": 1}}
    spec = parse(apply_settings(raw, SETTINGS))
    covered = coverage_of(spec, cell_of("wmi"))
    assert (set(covered.untried), covered.acts, covered.features) == ({"bgi", "bmi", "wgi"}, False, True)
    summed = coverage_of(spec, cell_of("wmi", settings=["secure=true"]))
    assert set(summed.untried) == {"bmi"}


def test_a_cell_is_measured_end_to_end_with_labels_beside_rows():
    quick = {"name": "wgi", "rows": 4, "batch": 2, "methods": "idlg", "moments": "first", "iterations": 60}
    cell = cell_of(quick, budget={"trials": 1, "seeds": 2})
    (outcome,) = evaluate_pack(cell, [{}])
    assert outcome.outcome == "ok"
    score = outcome.attacks["wgi"]
    assert score.mean > 0.5
    assert score.extra["label_recovery"] == 1.0
    assert score.floor == 0.0
    (shown,) = pictured(cell, {})
    assert (shown.true - shown.found).square().mean().item() == pytest.approx(shown.mse)  # paired as it is scored
