"""Labels by forces: the energy's gradient, worlds that forces alone give away, and what must find nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm, one_hot

from tests.helpers.visits import FILTER, SEEN, success, visits_of
from tune_vfl.attacks.parts.columns import scaled, standardized
from tune_vfl.attacks.parts.folded_rows import FOLDS
from tune_vfl.attacks.parts.forces import DOUBT, RIDGE, WIDEST, Forces, Pushes, single_epochs
from tune_vfl.defenses.potential_energy import NEAREST, PotentialEnergy, PotentialEnergyParams, potential_energy
from tune_vfl.evaluation import evaluate
from tune_vfl.evaluation.grants.visits import entries_of
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.mechanism import Mechanism, Repulsion
from tune_vfl.protocol.view import View
from tune_vfl.seeds import Streams

ROWS, WIDTH, WEIGHT, KNOWN = 400, 6, 20.0, 8


def declared(weight):
    return Mechanism(repels=Repulsion(torch.as_tensor(weight, dtype=torch.float64), NEAREST))


def felt(sent, y, weight):
    """Return the gradients of a batch's mean loss for what was sent, times its rows, by autograd."""
    rows = sent.clone().requires_grad_()
    (weight * potential_energy(rows, y)).backward()
    return rows.grad * len(y)


def repelled(seed=0, *, classes=2, batch=40, width=WIDTH, weight=WEIGHT, noise=1.0, epochs=6, tell=True):
    """Return labels and the view of rows whose gradients hold forces, a slope and noise; features say nothing."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (ROWS,), generator=g)
    sent = layer_norm(torch.randn(epochs, ROWS, width, generator=g), (width,))
    slope = torch.randn(width, width, generator=g) / width**0.5
    received = noise * (sent @ slope + torch.randn(sent.shape, generator=g))
    visits = visits_of(received, sent, seed=seed, batch=batch, mechanism=declared(weight))
    shown = y if tell else y[torch.randperm(ROWS, generator=g)]
    for epoch, places in enumerate(visits.places):
        for ids in places.argsort().split(batch):
            received[epoch, ids] += felt(sent[epoch, ids], shown[ids], weight)
    ids = torch.cat([(y == k).nonzero().flatten()[:KNOWN] for k in range(classes)])
    x = torch.randn(ROWS, 3, generator=g)
    held = {
        "visits": visits,
        "features": Features(x, x[:1]),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(ids, y[ids]),
        "class_prior": one_hot(y, classes).float().mean(0),
    }
    return y, View("matched_filter", (), classes, Streams(seed), held)


def by_labels(view, y, *, rows=None, times=3, epochs=None, classes=2):
    """Return the evidence of forces ``(n, K)`` when all labels are known, and the model."""
    visits = view.granted("visits").batched()
    rows = torch.arange(ROWS) if rows is None else rows
    epochs = single_epochs(visits.times) if epochs is None else epochs
    model = Forces(visits, rows[None], classes, visits.mechanism.repels, epochs)
    for _ in range(times):
        (said,) = model.evidence(one_hot(y[rows], classes).float()[None])
    return said[0], model


def wrong(said, y):
    return float((said.argmax(-1) != y).float().mean())


def pushes(rows, nearest=NEAREST, strength=1.0):
    """Return each push ``(B, B, d)``, one row of a class of its own at a time."""
    of = Pushes.of(rows, nearest, torch.tensor(strength, dtype=torch.float64))
    return of.sums(torch.eye(len(rows), dtype=torch.float64)), of


def test_a_push_is_the_gradient_of_the_energy():
    g = torch.Generator().manual_seed(0)
    rows = layer_norm(torch.randn(9, 4, generator=g), (4,)) * torch.linspace(0.5, 3, 9)[:, None]
    rows[1] = 2 * rows[0]  # no angle
    rows[2] = -rows[0]  # and the largest one
    rows[3] = 0  # no direction
    rows[4] = rows[0] + 1e-2 * torch.randn(4, generator=g)  # a large force
    y = torch.zeros(9, dtype=torch.int64)
    found, of = pushes(rows)
    wanted = felt(rows.double(), y, 1.0) / 9 * (8 * 7)  # ordered pairs of the eight that have a direction
    torch.testing.assert_close(2 * found.sum(1), wanted, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(of.squares(), found.square().sum((-1, -2)), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(of.products(), found.mT @ found, rtol=1e-6, atol=1e-5)
    assert not found[:3, :3].any()
    assert not found[3].any()
    assert not found[:, 3].any()
    assert torch.isfinite(found).all()
    torch.testing.assert_close(pushes(2 * rows, strength=6.0)[0], 3 * found)
    assert not pushes(rows, 4.0)[0].any()
    turned = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    wanted = torch.tensor([[0.0, 1.0], [0.5, 0.0]], dtype=torch.float64) / (torch.pi / 2) ** 2
    torch.testing.assert_close(pushes(turned)[0].sum(1), wanted)


def raised(matrix, share):
    return matrix + share * matrix.diagonal().mean() * torch.eye(len(matrix), dtype=matrix.dtype)


def naive_epoch(sent, along, received, places, shares, noise, batch, weight):
    """Return the evidence ``(N, K)`` of one epoch and its noise, row by row and pair by pair."""
    (rows, classes), (_, d) = shares.shape, received.shape
    matrix, right, seen = {}, {}, []
    for ids in places.argsort().split(batch):
        p = shares[ids]
        pairs = float((p.sum(0) ** 2 - (p**2).sum(0)).sum())
        strength = 2 * weight * len(ids) / max(pairs, 2)
        for place, i in enumerate(ids):
            forces = torch.zeros(len(ids), d, dtype=torch.float64)
            for other, j in enumerate(ids):
                u, v = (sent[of] / sent[of].norm() for of in (i, j))
                angle = float((u @ v).clamp(-1, 1).arccos())
                if i != j:
                    forces[other] = strength * (v - (u @ v) * u) / (angle**2 * math.sin(angle) * sent[i].norm())
            doubt = noise.diagonal().mean() + DOUBT * (forces**2).sum() / d
            for k in range(classes):
                z = torch.cat(
                    [torch.ones(1, dtype=torch.float64), along[i], torch.eye(classes, dtype=torch.float64)[k]]
                )
                left = received[i] - p[:, k] @ forces
                for fold in set(range(FOLDS)) - {place % FOLDS}:
                    of = p[place, k] / doubt
                    matrix[fold] = matrix.get(fold, 0) + of * z[:, None] * z
                    right[fold] = right.get(fold, 0) + of * z[:, None] * left
                seen.append((i, k, place % FOLDS, z, left, forces))
    said, learned = torch.zeros(rows, classes, dtype=torch.float64), torch.zeros_like(noise)
    for i, k, fold, z, wanted, forces in seen:
        inverse = torch.linalg.inv(raised(noise + DOUBT * forces.T @ forces, 1e-8))
        left = wanted - z @ torch.linalg.solve(raised(matrix[fold], RIDGE), right[fold])
        said[i, k] = -left @ inverse @ left / 2
        pulled = noise @ inverse @ left
        learned += shares[i, k] * (pulled[:, None] * pulled - noise @ inverse @ noise)
    return said, raised(noise + learned / rows, 1e-3)


@pytest.mark.parametrize(("classes", "batch", "at_once"), [(2, 9, 1), (3, 6, 100)])
def test_the_evidence_is_that_of_its_naive_twin(classes, batch, at_once, monkeypatch):
    monkeypatch.setattr("tune_vfl.attacks.parts.forces._CHUNK", at_once)
    rows, d, g = 31, 4, torch.Generator().manual_seed(0)
    sent, received = torch.randn(2, 2, rows, d, generator=g)
    received = received * torch.tensor([0.5, 3.0]).view(2, 1, 1) + 1
    shares = torch.rand(rows, classes, generator=g, dtype=torch.float64)
    shares = (shares / shares.sum(-1, keepdim=True)).float().double()
    visits = visits_of(received, sent, batch=batch, mechanism=declared(0.7)).batched()
    model = Forces(visits, torch.arange(rows)[None], classes, visits.mechanism.repels, [0, 1])
    along, (sent, received) = scaled(standardized(sent)).double(), (sent.double(), received.double())
    noise = [raised(torch.cov(x.T, correction=0), 1e-3) for x in received]
    for _ in range(3):
        (found,) = model.evidence(shares.float()[None])
        wanted = torch.zeros(rows, classes, dtype=torch.float64)
        for e in range(2):
            of = sent[e], along[e], received[e], visits.places[0, e]
            said, noise[e] = naive_epoch(*of, shares, noise[e], batch, 0.7)
            wanted += said
            torch.testing.assert_close(model._noise[0][0, e], noise[e], rtol=1e-4, atol=1e-5)
        wanted = wanted - wanted.amax(-1, keepdim=True)
        torch.testing.assert_close(found[0], wanted.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("epochs", [3, 32, 33, 50, 100])
def test_the_epochs_that_stand_alone_are_told_by_the_mean_epochs(epochs):
    entries = entries_of(epochs, rows=10, width=2)
    times = [(of[0] + of[-1]) / 2 for of in entries]
    assert single_epochs(times) == [i for i, of in enumerate(entries) if len(of) == 1]
    assert single_epochs([0.5, 2.5]) == []


@pytest.mark.parametrize(("classes", "batch"), [(2, 40), (4, 40), (2, 70), (4, 30), (2, 1000)])
def test_forces_alone_tell_the_classes_from_a_few_known_rows(classes, batch):
    y, view = repelled(classes=classes, batch=batch, noise=0.3)
    answers = FILTER().run(view)
    assert success(answers["forces"], y) > 0.99
    assert success(answers["matched_filter"], y) > 0.99
    visits = replace(view.granted("visits"), mechanism=None)
    plain = FILTER().run(view.holding(visits=visits))
    assert "forces" not in plain
    assert success(plain["matched_filter"], y) < 0.95


def test_gradients_of_other_rows_tell_nothing():
    found = []
    for seed in range(4):
        y, view = repelled(seed, tell=False)
        found.append(success(FILTER().run(view)["forces"], y))
    assert abs(sum(found) / 4 - 0.5) < 0.06


def test_without_a_weight_nothing_changes():
    """A member of weight 0 beside one that repels: the one's answers are those of the filter that knows nothing."""
    views = [repelled(seed, weight=w)[1] for seed, w in ((0, 0.0), (1, WEIGHT))]
    together = FILTER().run(stacked(views, declared([0.0, WEIGHT])))
    plain = FILTER().run(stacked(views, None))
    for name in set(plain) - {"matched_filter"}:
        torch.testing.assert_close(together[name].scores[0], plain[name].scores[0], atol=1e-4, rtol=0)
    assert torch.equal(together["forces"].scores[0], together["filter"].scores[0])
    torch.testing.assert_close(
        together["matched_filter"].scores[0], plain["matched_filter"].scores[0], atol=1e-4, rtol=0
    )


def stacked(views, mechanism):
    """Return the view of a pack whose members are these."""
    visits = [v.granted("visits") for v in views]
    seen = {name: torch.stack([getattr(v, name) for v in visits]) for name in SEEN}
    x = torch.stack([v.features.train for v in views])
    known = [torch.stack([getattr(v.auxiliary, name)[: 2 * KNOWN] for v in views]) for name in ("ids", "labels")]
    held = {
        "visits": replace(visits[0], **seen, mechanism=mechanism),
        "features": Features(x, x[:, :1]),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(*known),
        "class_prior": torch.stack([v.class_prior for v in views]),
    }
    return View("matched_filter", (len(views),), 2, Streams(list(range(len(views)))), held)


@pytest.mark.parametrize("broken", [False, True])
def test_a_pack_equals_its_members_one_by_one_beside_one_that_diverged(broken):
    """The members rest after different numbers of rounds."""
    weights = (WEIGHT, 5.0)
    views = [repelled(seed, weight=w, noise=0.3)[1] for seed, w in enumerate(weights)]
    both = stacked(views, declared(weights))
    if broken:
        both.granted("visits").received[1] = torch.nan
        both.granted("visits").sent[1] = torch.nan
    together = FILTER().run(both)["forces"].scores
    assert torch.isfinite(together).all()
    for index, view in enumerate(views[:1] if broken else views):
        alone = FILTER().run(view)["forces"].scores
        assert ((together[index] - alone).abs() > 5e-3).float().mean() < 0.01


def test_the_declared_weight_is_the_size_of_forces():
    y, view = repelled(noise=2.0, weight=20.0)
    errors = {}
    for weight in (5.0, 20.0, 80.0):
        visits = replace(view.granted("visits"), mechanism=declared(weight))
        said, _ = by_labels(view.holding(visits=visits), y)
        errors[weight] = -float(said.log_softmax(-1).gather(-1, y[:, None]).mean())
    assert errors[20.0] < 0.8 * min(errors[5.0], errors[80.0])


def test_a_single_pair_is_believed_up_to_what_is_always_doubted():
    """Two rows a batch: the force is there or not, its doubt is .1 of its square, and so the odds are 1 / (2 * .1)."""
    y, view = repelled(batch=2, epochs=1, noise=0.01, weight=5.0)
    said, _ = by_labels(view, y, times=8)
    pairs = view.granted("visits").places[0].argsort().view(-1, 2)
    of, same = said[pairs], y[pairs]
    odds = of.gather(-1, same.unsqueeze(-1)).squeeze(-1) - of.gather(-1, 1 - same.unsqueeze(-1)).squeeze(-1)
    assert odds.max() < 6.5
    assert (odds.median() - 5).abs() < 0.5


def test_noise_is_measured_in_each_epoch():
    y, view = repelled(noise=0.0, epochs=2)
    visits = view.granted("visits")
    drawn = torch.randn(visits.received.shape, generator=torch.Generator().manual_seed(5))
    size = torch.tensor([0.5, 4.0]).view(2, 1, 1)
    view = view.holding(visits=replace(visits, received=visits.received + size * drawn))
    _, model = by_labels(view, y, times=12)
    measured = model._noise[0][0].diagonal(dim1=-1, dim2=-2).mean(-1).sqrt()
    torch.testing.assert_close(measured.float(), size.flatten(), rtol=0.2, atol=0)


def test_entries_that_several_epochs_share_are_not_read():
    y, view = repelled()
    visits = view.granted("visits")
    other = visits.received.clone()
    other[4:] = torch.nan
    said, _ = by_labels(view.holding(visits=replace(visits, received=other, times=(0.0, 1.0, 2.0, 3.0, 4.5, 6.5))), y)
    wanted, _ = by_labels(view, y, epochs=[0, 1, 2, 3])
    assert torch.equal(said, wanted)
    of_means = FILTER().run(view.holding(visits=replace(visits, times=tuple(t + 0.5 for t in visits.times))))
    assert "forces" not in of_means


def test_of_more_pairs_than_are_read_some_epochs_are(monkeypatch):
    y, view = repelled()
    wanted, _ = by_labels(view, y, epochs=[0, 2, 5])
    monkeypatch.setattr("tune_vfl.attacks.parts.forces.PAIRS", 3 * 40 * ROWS)
    said, _ = by_labels(view, y)
    assert torch.equal(said, wanted)
    monkeypatch.setattr("tune_vfl.attacks.parts.forces.PAIRS", 1)
    said, _ = by_labels(view, y)
    assert torch.equal(said, by_labels(view, y, epochs=[0])[0])


def test_rows_that_are_not_looked_at_may_be_of_any_class():
    y, view = repelled(noise=0.3)
    answer = FILTER(FILTER.Params(rows=250)).run(view)["forces"]
    assert answer.scores.shape == (250, 2)
    assert success(answer, y) > 0.9
    rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    said, _ = by_labels(view, y, rows=rows)
    wanted, _ = by_labels(view, y)
    torch.testing.assert_close(said, wanted[rows], atol=1e-3, rtol=1e-3)


def test_each_party_s_rows_repel_each_other_and_no_other_party_s():
    y, first = repelled(0, noise=8.0, weight=10.0, epochs=3)
    _, second = repelled(0, noise=8.0, weight=10.0, epochs=3, width=4)
    parts = [view.granted("visits") for view in (first, second)]
    assert torch.equal(parts[0].places, parts[1].places)
    both = {name: torch.cat([getattr(part, name) for part in parts], -1) for name in ("sent", "received")}
    said, _ = by_labels(first.holding(visits=replace(parts[0], widths=(WIDTH, 4), **both)), y)
    one, two = (by_labels(view, y)[0].log_softmax(-1) for view in (first, second))
    torch.testing.assert_close(said.log_softmax(-1), (one + two).log_softmax(-1), atol=1e-3, rtol=1e-3)


def test_wide_gradients_are_read_in_their_main_directions():
    y, view = repelled(width=WIDEST + 8, weight=40.0, noise=1.0)
    visits = view.granted("visits")
    flat = visits.received @ torch.diag(torch.tensor([1.0] * WIDEST + [1e-3] * 8))
    said, model = by_labels(view.holding(visits=replace(visits, received=flat)), y)
    assert model._received[0].shape[-1] == WIDEST
    assert wrong(said, y) < 0.05


def test_a_class_of_one_row_and_gradients_of_nothing_are_taken():
    y, view = repelled(classes=3)
    alone = torch.where(y == 2, 0, y)
    alone[0] = 2
    visits = view.granted("visits")
    for received in (visits.received, torch.zeros_like(visits.received), 1e12 * visits.received):
        for sent in (visits.sent, torch.zeros_like(visits.sent), visits.sent[:, :1].expand_as(visits.sent)):
            changed = replace(visits, received=received, sent=sent.contiguous())
            said, _ = by_labels(view.holding(visits=changed), alone, classes=3)
            assert torch.isfinite(said).all()


def test_the_defense_declares_its_weights():
    members = [PotentialEnergyParams(weight=w) for w in (0.0, 4.0)]
    found = PotentialEnergy(members, num_classes=2, embedding_dims=[5]).mechanism().repels
    assert (found.weight.tolist(), found.nearest) == ([0.0, 4.0], NEAREST)
    alone = PotentialEnergy(members[1], num_classes=2, embedding_dims=[5]).mechanism()
    assert alone.repels.weight.tolist() == alone.batched().of_members(0).repels.weight.tolist() == 4.0


@pytest.mark.public_data("steel_plates_faults/steel_plates_faults.csv")
def test_a_real_training_is_given_away():
    answer = evaluate(
        "steel_plates", defense="potential_energy", params={"weight": 4.0}, attacks=["matched_filter"], seeds=1,
        settings=["training.epochs=10"],
    )  # fmt: skip
    assert answer["attacks"]["matched_filter"]["values"][0] > 0.99
