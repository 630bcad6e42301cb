"""mixup and instahide: shares, partners, inputs that agree with targets at every party; test rows as they are."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from tests.helpers.problems import made_up_split, network_for
from tune_vfl.data.base import Split
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.defenses.parts import mixing as _mixing
from tune_vfl.defenses.parts.mixing import MixingParams, draw_shares
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.metrics.utility import utility
from tune_vfl.models.layers import select_member
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Batch, Pack, Rows
from tune_vfl.seeds import Stream
from tune_vfl.spec import Training, parse

BOTH = ("mixup", "instahide")
ALONE = Pack((0,), None)


@pytest.mark.parametrize("mix", [2, 3, 4])
def test_shares_are_those_of_a_plain_loop_that_draws_until_they_fit(mix):
    shares = draw_shares(Stream(0, "shares"), 20_000, mix)
    torch.testing.assert_close(shares.sum(-1), torch.ones(20_000))
    assert shares.max() <= 0.65
    g, expected = torch.Generator().manual_seed(1), []
    while len(expected) < 5000:
        draw = torch.randn(mix, generator=g).abs()
        if (draw / draw.sum()).max() <= 0.65:
            expected.append(draw / draw.sum())
    levels = torch.linspace(0.05, 0.95, 10)
    torch.testing.assert_close(
        shares[:, 0].quantile(levels), torch.stack(expected)[:, 0].quantile(levels), rtol=0, atol=0.02
    )


def test_a_draw_of_two_fits_as_often_as_the_closed_form_says(monkeypatch):
    # Both shares are at most c where the ratio of two half-normals, half Cauchy, lies between (1-c)/c and c/(1-c).
    expected = 2 / math.pi * (math.atan(0.65 / 0.35) - math.atan(0.35 / 0.65))
    assert (1 - expected) ** _mixing.REDRAWS < 1e-8
    monkeypatch.setattr(_mixing, "REDRAWS", 1)
    shares = draw_shares(Stream(0, "shares"), 40_000, 2)
    assert (shares[:, 0] != 0.5).float().mean().item() == pytest.approx(expected, abs=0.01)
    assert shares.max() <= 0.65


def test_one_row_has_all_of_its_mixture():
    assert torch.equal(draw_shares(Stream(0, "shares"), 10, 1), torch.ones(10, 1))


def telling_split(seed, classes=3, rows=40):
    """Every party's columns are the one-hot label and the row's number."""
    y = torch.arange(rows) % classes
    x = torch.cat([one_hot(y, classes).float(), torch.arange(rows).float().unsqueeze(1)], dim=1)
    return Split(
        passive_train=(x, x.clone()),
        passive_test=(x[:5], x[:5]),
        active_train=x.clone(),
        active_test=x[:5],
        y_train=y,
        y_test=y[:5],
        train_rows=torch.arange(rows),
        test_rows=torch.arange(5),
    )


def defended(name, split, pack, members=None, *, classes=3, **params):
    members = members or MixingParams(**params)
    defense = DEFENSES[name](members, num_classes=classes, embedding_dims=[5, 5])
    y = pack.spread(split.y_train)
    defense.setup(y, torch.arange(y.shape[-1]).expand(y.shape), seed=pack.member_seeds)
    return defense


def mixtures(name, epochs=1, **params):
    """The batches of a few epochs beside what became of them, and the labels then."""
    split = telling_split(0)
    rows, defense, seen = Rows(split, ALONE), defended(name, split, ALONE, **params), []
    for epoch in range(epochs):
        for batch in rows.batches(16):
            mixed = defense.inputs(batch, rows, epoch=epoch)
            seen.append((epoch, batch, mixed, defense.labels(batch.y, batch.ids)))
    return seen


@pytest.mark.parametrize("mix", [2, 3])
@pytest.mark.parametrize("remix", ["epoch", "once"])
def test_labels_are_mixed_as_the_rows_of_every_party_are(mix, remix):
    for _, batch, mixed, labels in mixtures("mixup", 2, mix=mix, remix=remix):
        torch.testing.assert_close(labels.sum(-1), torch.ones(len(labels)))
        assert torch.equal(mixed.y, batch.y)
        for x in mixed.features:
            torch.testing.assert_close(x[:, :3], labels)  # its columns were the one-hot label
            torch.testing.assert_close(x, mixed.features[0])  # the same partners and shares at every party
        assert not torch.allclose(mixed.features[0], batch.features[0])


def test_every_row_is_a_partner_equally_often():
    defense = defended("mixup", telling_split(0), ALONE, mix=3)
    for place in range(3):
        assert torch.equal(defense.mixtures(0).partners[:, place].sort().values, torch.arange(40))
    assert torch.equal(defense.mixtures(0).partners[:, 0], torch.arange(40))


@pytest.mark.parametrize("name", BOTH)
def test_mixtures_last_an_epoch_or_for_ever(name):
    def by_row(remix):
        found = [{}, {}]
        for epoch, batch, mixed, _ in mixtures(name, 2, remix=remix):
            found[epoch] |= dict(zip(batch.ids.tolist(), mixed.passive[0], strict=True))
        return [torch.stack([epoch[i] for i in range(40)]) for epoch in found]

    first, second = by_row("once")
    assert torch.equal(first, second)
    first, second = by_row("epoch")
    assert not torch.isclose(first.abs(), second.abs())[:, 3].any()


@pytest.mark.parametrize("mix", [1, 2])
def test_instahide_is_mixup_with_signs_of_each_party_s_own(mix):
    plus = total = agree = 0
    for (_, batch, hidden, labels), (_, _, mixed, same) in zip(
        mixtures("instahide", 8, mix=mix), mixtures("mixup", 8, mix=mix), strict=True
    ):
        assert torch.equal(labels, same)
        assert not torch.equal(hidden.passive[0], batch.passive[0])
        for a, b in zip(hidden.features, mixed.features, strict=True):
            assert torch.equal(a.abs(), b)
        there = mixed.passive[0] > 0
        signs = [x[there] > 0 for x in hidden.features[:2]]
        plus += int(signs[0].sum())
        agree += int((signs[0] == signs[1]).sum())
        total += int(there.sum())
    # Of 800 and more fair coins, four standard deviations are 0.07.
    assert total > 600
    assert plus / total == pytest.approx(0.5, abs=0.08)
    assert agree / total == pytest.approx(0.5, abs=0.08)


TRAINING = Training(epochs=6, batch_size=14, lr=0.01)


def trained(hooks, split, pack):
    network = network_for(split if pack.trials is None else split.seed(0), pack)
    SplitTraining(network, Rows(split, pack), TRAINING, hooks, pack.lead).run()
    return network


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("remix", ["epoch", "once"])
def test_a_pack_trains_what_its_members_train_alone(name, remix):
    splits, pack = [made_up_split(s, parties=2) for s in (0, 1)], Pack((0, 1), 2)
    members = [MixingParams(remix=remix)] * 4
    stacked = Split.stack(splits)
    together = trained([defended(name, stacked, pack, members, classes=2)], stacked, pack)
    for member in range(4):
        own, alone = splits[member % 2], Pack((member % 2,), None)
        single = trained([defended(name, own, alone, classes=2, remix=remix)], own, alone)
        for a, b in zip(select_member(together, member).parameters(), single.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", BOTH)
def test_trials_share_the_mixtures_of_their_seeds(name):
    """And each member has its own where a hook before has given them rows of their own, or rows are asked for apart."""
    stacked, pack = Split.stack([made_up_split(s, parties=2) for s in (0, 1)]), Pack((0, 1), 3)
    rows, members = Rows(stacked, pack), [MixingParams(mix=3)] * 6
    once, each = (defended(name, stacked, pack, members, classes=2) for _ in range(2))
    for epoch in range(2):
        for batch in rows.batches(16):
            shared = once.inputs(batch, rows, epoch=epoch)
            assert {len(x) for x in shared.by_seed} == {2}
            assert {len(x) for x in shared.features} == {6}
            own = each.inputs(Batch(batch.passive, batch.own, batch.y, batch.ids), rows, epoch=epoch)
            assert all(map(torch.equal, shared.features, own.features))
            assert torch.equal(shared.ids, batch.ids)
            labels = once.labels(batch.y, batch.ids)
            for member in range(6):
                apart = [batch.ids[m].roll(m - member) for m in range(6)]
                assert torch.equal(once.labels(batch.y, torch.stack(apart))[member], labels[member])


def test_mixing_nothing_is_no_defense():
    split = made_up_split(0)
    plain, mixed = (trained(h, split, ALONE) for h in ([], [defended("mixup", split, ALONE, classes=2, mix=1)]))
    for a, b in zip(plain.parameters(), mixed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_on_mixtures_is_training_on_rows_mixed_by_hand():
    split = made_up_split(0)
    ours = trained([defended("mixup", split, ALONE, classes=2, remix="once")], split, ALONE)
    twin, defense = network_for(split, ALONE), defended("mixup", split, ALONE, classes=2, remix="once")
    mixtures = defense.mixtures(0)
    partners, shares = mixtures.partners, mixtures.shares
    x, own, y = (
        torch.stack([sum(shares[i, j] * part[partners[i, j]] for j in range(2)) for i in range(70)])
        for part in (split.passive_train[0], split.active_train, one_hot(split.y_train, 2).float())
    )
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    order = Stream(0, "order")
    for _ in range(TRAINING.epochs):
        for rows in order.permutation(70).split(14):
            loss = nn.functional.cross_entropy(twin([x[rows]], own[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def cell(name, **changes):
    raw = {"study": "s", "dataset": "digits", "defense": name, "attacks": ["grad_cluster"], **changes}
    return resolve(parse({"training": {"epochs": 8}, "budget": {"seeds": 1, "trials": 1}, **raw}))


@pytest.mark.parametrize("name", BOTH)
def test_test_rows_are_read_as_they_are(name):
    run = train_pack(Task.open(cell(name)), [MixingParams()], ALONE)
    with torch.no_grad():
        plain = run.network(run.split.passive_test, run.split.active_test).softmax(-1)
    assert run.table["utility",] == [utility(run.task.cell.metric, plain.double().numpy(), run.y_test.numpy())]


@pytest.mark.parametrize(("model", "epochs"), [("mlp", 8), ("cnn", 5)], ids=["mlp", "cnn"])
def test_it_is_evaluated_on_real_data(model, epochs):
    cells = (cell(name, model={"name": model}, training={"epochs": epochs}) for name in BOTH)
    mixed, hidden = (evaluate_pack(c, [{"mix": 2}, {"mix": 4}]) for c in cells)
    assert [o.outcome for o in [*mixed, *hidden]] == ["ok"] * 4
    assert mixed[0].utility.mean > 0.8
    assert mixed[0].utility.mean > hidden[0].utility.mean > hidden[1].utility.mean - 0.1


def test_rows_are_looked_up_for_each_member():
    splits = [made_up_split(s) for s in (0, 1)]
    rows = Rows(Split.stack(splits), Pack((0, 1), 2))
    ids = torch.tensor([[3, 3], [0, 69], [5, 1], [2, 2]])
    passive, own = rows.take(ids)
    for member in range(4):
        assert torch.equal(passive[member], splits[member % 2].passive_train[0][ids[member]])
        assert torch.equal(own[member], splits[member % 2].active_train[ids[member]])


def test_a_batch_lists_its_features_as_a_split_does():
    x, own, y = torch.zeros(3, 2), torch.ones(3, 1), torch.zeros(3, dtype=torch.int64)
    batch = Batch(passive=[x], own=own, y=y, ids=y)
    changed = batch.with_features([x + 1, own + 1])
    assert torch.equal(changed.passive[0], x + 1)
    assert torch.equal(changed.own, own + 1)
    alone = Batch(passive=[x], own=None, y=y, ids=y)
    assert len(alone.features) == 1
    assert alone.with_features([x + 1]).own is None


def test_a_reader_is_told_what_mixing_leaves_open():
    for name, mix in (("mixup", 2), ("instahide", 1)):
        defense = DEFENSES[name](DEFENSES[name].Params(mix=mix), num_classes=3, embedding_dims=[2])
        defense.setup(torch.tensor([0, 1, 2]), torch.arange(3))
        notes = " ".join(defense.notes())
        assert "unmixed" in notes
        assert ("partners and shares" in notes) == (mix > 1)
