"""Visits: what is kept of a training is what was sent and received, less the noise that the attacker knows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.helpers.cells import cells
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.visits import FIRST, MEMBER_BYTES, MOST, KeptVisits, entries_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import split_of, train_pack, untrained
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.seeds import Streams
from tune_vfl.spec import Training

PACK = Pack((0, 1), 1)


def opened(*settings, defense="laplace"):
    task = Task.open(cells(*settings, defense=defense, attacks=["matched_filter"])())
    return task, task.watching[0]


def trained(task, given=(), pack=PACK):
    params = [defense_params(task.cell.defense, p, num_classes=2) for p in given or [{}]]
    return train_pack(task, params, pack, task.watching)


def kept(defense, gradient):
    """Return the keeper of a training of one epoch, of one step."""
    keeper = KeptVisits([], Training(epochs=1), gradient.shape[-2])
    keeper.begin(SimpleNamespace(hooks=[defense]))
    ids = torch.arange(gradient.shape[-2]).expand(gradient.shape[:-1])
    keeper.inputs(SimpleNamespace(ids=ids), None, epoch=0)
    keeper.send_embedding(torch.zeros_like(gradient), party=0)
    keeper.gradient_received(gradient, party=0, ids=ids, epoch=0, step=0)
    return keeper


@pytest.mark.parametrize("epochs", [1, 3, 7, 31, 32, 33, 60, 300])
def test_entries_cover_every_epoch_once_and_the_first_ones_alone(epochs):
    entries = entries_of(epochs, rows=10, width=2)
    assert [e for entry in entries for e in entry] == list(range(epochs))
    assert len(entries) == min(epochs, MOST)
    assert all(len(entry) == 1 for entry in entries[:FIRST])
    later = [len(entry) for entry in entries[FIRST:]]
    assert not later or max(later) - min(later) <= 1


def test_wide_embeddings_of_many_rows_share_entries_more():
    assert len(entries_of(300, rows=10**6, width=64)) == FIRST + 1
    rows, width = 50_000, 32
    count = len(entries_of(300, rows=rows, width=width))
    assert FIRST + 1 < count < MOST
    assert 2 * 4 * rows * width * count <= MEMBER_BYTES < 2 * 4 * rows * width * (count + 1)


def passed_by(monkeypatch):
    """Return lists of what passes the keeper in the steps of trainings from here on, by party and epoch."""
    sent, received, step = {}, {}, {}
    ask, send, receive = KeptVisits.inputs, KeptVisits.send_embedding, KeptVisits.gradient_received

    def seen_inputs(self, batch, rows, *, epoch):
        step.update(ids=batch.ids, epoch=epoch, parties=set())
        return ask(self, batch, rows, epoch=epoch)

    def seen_send(self, embedding, *, party):
        if party not in step["parties"]:  # what is sent later is sent outside of a step
            step["parties"].add(party)
            sent.setdefault((party, step["epoch"]), []).append((step["ids"], embedding.detach().clone()))
        return send(self, embedding, party=party)

    def seen_receive(self, gradient, *, party, ids, epoch, step):
        received.setdefault((party, epoch), []).append((ids, gradient * ids.shape[-1]))
        return receive(self, gradient, party=party, ids=ids, epoch=epoch, step=step)

    monkeypatch.setattr(KeptVisits, "inputs", seen_inputs)
    monkeypatch.setattr(KeptVisits, "send_embedding", seen_send)
    monkeypatch.setattr(KeptVisits, "gradient_received", seen_receive)
    return sent, received


def by_row(steps):
    """Return ``(T, N, d)`` of the steps of an epoch."""
    ids, values = (torch.cat(part, -1 - i) for i, part in enumerate(zip(*steps, strict=True)))
    return values.gather(1, ids.argsort(-1).unsqueeze(-1).expand_as(values))


@pytest.mark.parametrize(("epochs", "parties"), [(5, 2), (40, 1)])
def test_what_is_kept_is_what_was_sent_and_received(monkeypatch, epochs, parties):
    """Of a long training an entry is the mean of its epochs; a gradient is times the rows of its batch."""
    settings = [f"training.epochs={epochs}", f"dataset.passive_parties={parties}"]
    task, attack = opened(*settings, defense="gaussian")
    both = passed_by(monkeypatch)
    run = trained(task)
    rows = run.y_train.shape[-1]
    assert rows % task.cell.training.batch_size
    entries = entries_of(epochs, rows=rows, width=8)
    for party in range(parties):
        visits = view_of(attack, replace(run, parties=(party,))).granted("visits")
        for name, seen in zip(("sent", "received"), both, strict=True):
            values = getattr(visits, name)
            assert values.shape[:3] == (2, len(entries), rows)
            for at, entry in enumerate(entries):
                expected = torch.stack([by_row(seen[party, epoch]) for epoch in entry]).mean(0)
                torch.testing.assert_close(values[:, at], expected, atol=1e-5, rtol=1e-4)
        assert visits.times == tuple(sum(entry) / len(entry) for entry in entries)


def test_several_parties_lie_side_by_side():
    task, attack = opened("training.epochs=2", "dataset.passive_parties=2")
    run = trained(task)
    alone = [view_of(attack, replace(run, parties=(p,))).granted("visits") for p in range(2)]
    both = view_of(attack, replace(run, parties=(0, 1))).granted("visits")
    assert torch.equal(both.received, torch.cat([v.received for v in alone], -1))
    assert torch.equal(both.sent, torch.cat([v.sent for v in alone], -1))
    assert torch.equal(both.places, alone[1].places)


@pytest.mark.parametrize("epochs", [4, 40])
def test_places_are_the_order_of_the_training(epochs):
    """Of an entry of several epochs it is the last one's."""
    task, attack = opened(f"training.epochs={epochs}")
    run = trained(task)
    visits = view_of(attack, run).granted("visits")
    rows = Rows(split_of(task, PACK), PACK)
    size = task.cell.training.batch_size
    assert visits.batch == size
    orders = [torch.cat([batch.ids for batch in rows.batches(size)], -1) for _ in range(epochs)]
    for at, entry in enumerate(entries_of(epochs, rows=rows.count, width=8)):
        assert torch.equal(visits.places[:, at].argsort(-1), orders[entry[-1]])
        assert torch.equal(visits.places[:, at].sort(-1).values, torch.arange(rows.count).expand(len(orders[0]), -1))


def test_noise_in_the_place_of_a_training_has_its_shape_and_says_nothing():
    task, attack = opened("training.epochs=40")
    run = trained(task)
    real, noise = (view_of(attack, r).granted("visits") for r in (run, untrained(task, PACK, [attack])))
    for name in ("sent", "received", "places"):
        assert getattr(noise, name).shape == getattr(real, name).shape
    assert noise.times == real.times
    assert noise.batch == real.batch
    rows = real.places.shape[-1]
    assert torch.equal(noise.places.sort(-1).values, torch.arange(rows).expand_as(noise.places))
    assert not torch.equal(noise.places[0], noise.places[1])
    assert not torch.equal(noise.sent, noise.received)
    assert float(noise.received.mean().abs()) < 0.01
    assert float(noise.received.std()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("stands_in", [False, True])
def test_a_members_visits_are_its_part_of_the_packs(stands_in):
    task, attack = opened("training.epochs=3", defense="ppdl")
    run = untrained(task, PACK, [attack]) if stands_in else trained(task)
    together = view_of(attack, run).granted("visits")
    for index in range(2):
        alone = view_of(attack, run.member(index)).granted("visits")
        for name in ("sent", "received", "places"):
            assert torch.equal(getattr(alone, name), getattr(together, name)[index])
        assert alone.times == together.times


def test_the_memory_that_is_asked_for_holds_what_is_kept():
    keeper = KeptVisits([], Training(epochs=300, batch_size=100), rows=100)
    keeper.begin(SimpleNamespace(hooks=[]))
    ids = torch.arange(100).expand(2, 100)
    keeper.inputs(SimpleNamespace(ids=ids), None, epoch=0)
    keeper.send_embedding(torch.zeros(2, 100, 3), party=0)
    keeper.gradient_received(torch.zeros(2, 100, 3), party=0, ids=ids, epoch=0, step=0)
    visits = keeper.of()
    held = sum(x.nbytes for x in (visits.sent, visits.received, visits.places))
    assert KeptVisits.bytes_needed([], members=2, rows=100, width=3) == held
    wide = KeptVisits.bytes_needed([], members=1, rows=10**6, width=64)
    assert wide == MEMBER_BYTES + 8 * MOST * 10**6


def test_what_ppdl_sends_at_a_members_bound_counts_as_nothing_and_all_else_stays():
    cls = DEFENSES["ppdl"]
    bounds = [1e-3, 2e-3]
    defense = cls([cls.Params(bound=b) for b in bounds], num_classes=2, embedding_dims=[3])
    sent = torch.tensor([[1e-3, -1e-3, 2e-3], [-2e-3, 5e-4, -0.1]])
    found = kept(defense, sent.expand(2, 2, 3)).of().received[:, 0]
    first = torch.tensor([[0, 0, 2e-3], [-2e-3, 5e-4, -0.1]])
    second = torch.tensor([[1e-3, -1e-3, 0], [0, 5e-4, -0.1]])
    torch.testing.assert_close(found, 2 * torch.stack([first, second]))


def test_where_the_noise_is_below_the_bound_an_entry_at_the_bound_stays():
    cls = DEFENSES["ppdl"]
    defense = cls(cls.Params(bound=1.0, epsilon=100.0), num_classes=2, embedding_dims=[2])
    sent = torch.tensor([[1.0, -1.0], [0.5, 0.0]])
    torch.testing.assert_close(kept(defense, sent).of().received[0], 2 * sent)


@pytest.mark.parametrize("name", ["none", "gaussian"])
def test_under_a_defense_that_declares_nothing_all_that_came_is_kept(name):
    cls = DEFENSES[name]
    defense = cls(cls.Params(), num_classes=2, embedding_dims=[2])
    sent = torch.tensor([[1e-3, -1e-3], [0.5, 0.0]])
    torch.testing.assert_close(kept(defense, sent).of().received[0], 2 * sent)


def test_numbers_that_are_none_count_as_nothing():
    cls = DEFENSES["none"]
    sent = torch.tensor([[torch.nan, -1e-3], [torch.inf, -torch.inf]])
    found = kept(cls(cls.Params(), num_classes=2, embedding_dims=[2]), sent).of().received[0]
    torch.testing.assert_close(found, torch.tensor([[0, -2e-3], [0, 0]]))


def test_laplace_noise_that_drowns_a_gradient_is_clipped_at_the_median_deviation_and_no_other_noise_is():
    cls = DEFENSES["laplace"]
    defense = cls([cls.Params(scale=b) for b in (1.0, 0.1)], num_classes=2, embedding_dims=[1])
    sent = torch.tensor([[-9.0], [-1.0], [0.0], [1.0], [30.0]])
    drowned, clear = kept(defense, sent.expand(2, 5, 1)).of().received[:, 0] / 5
    assert drowned.flatten().tolist() == [-1, -1, 0, 1, 1]
    assert torch.equal(clear, sent)


def test_each_member_of_a_pack_has_the_mechanism_of_its_own_setting():
    task, attack = opened("training.epochs=3", defense="ppdl")
    run = trained(task, [{"bound": 1e-3}, {"bound": 4e-3, "theta": 0.2}], Pack((0,), 2))
    together = view_of(attack, run).granted("visits")
    rows = torch.arange(1, 257)  # of a batch: what is kept is multiplied by them
    for index, bound in enumerate((1e-3, 4e-3)):
        alone = view_of(attack, run.member(index)).granted("visits")
        torch.testing.assert_close(alone.received, together.received[index])
        assert torch.equal(alone.mechanism.coin, together.mechanism.coin[index])
        assert not torch.isin(together.received[index].abs(), torch.tensor(bound) * rows).any()


def test_keeping_noise_draws_the_same_visits_again():
    said = []
    for _ in range(2):
        keeper = KeptVisits([], Training(epochs=3, batch_size=4), rows=10)
        keeper.keep_noise(2, Streams(5))
        said.append(keeper.of((0, 1)))
    assert said[0].received.shape == (3, 10, 4)
    for name in ("sent", "received", "places"):
        assert torch.equal(getattr(said[0], name), getattr(said[1], name))
