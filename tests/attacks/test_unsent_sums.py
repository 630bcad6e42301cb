"""Matched filter by the ledger of sparsified gradients: what waits in a place of the batch, sent later or never."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.attacks.test_matched_filter import OF_TWO, VARIANTS
from tests.helpers.visits import FILTER, WIDTH, packed, success, visits_of, world
from tune_vfl.attacks.parts.unsent_sums import _below
from tune_vfl.defenses.sparsification import Sparsification, SparsificationParams
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.visits import Visits

EARLY = FILTER(FILTER.Params(rounds=6))
"""With many rounds the plain filter comes nearer to what the ledger finds."""


def thinned(visits: Visits, **params) -> Visits:
    """Return visits whose gradients the defense sent: those of a batch's mean loss, times its rows, as recorded."""
    defense = Sparsification(SparsificationParams(**params), num_classes=2, embedding_dims=[visits.received.shape[-1]])
    defense.begin()
    received = torch.zeros_like(visits.received)
    for epoch, (gradients, places) in enumerate(zip(visits.received, visits.places, strict=True)):
        for ids in places.argsort().split(visits.batch):
            sent = defense.cut_gradient(gradients[ids] / len(ids), y=torch.zeros(len(ids)))
            received[epoch, ids] = sent * len(ids)
    return replace(visits, received=received, mechanism=defense.mechanism())


def hidden(seed=0, *, batch=100, classes=4, tell=True, **params):
    """Return labels and the view of a world whose gradients were sparsified."""
    y, view = world(seed, classes=classes, noise=0.5, features=1.0, tell=tell)
    visits = view.granted("visits")
    visits = visits_of(visits.received, visits.sent, seed=seed, batch=batch)
    return y, view.holding(visits=thinned(visits, **{"drop": 0.98, **params}))


def undeclared(view):
    return view.holding(visits=replace(view.granted("visits"), mechanism=None))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("batch", "rule"), [(100, "drop"), (70, "drop"), (70, "per_size"), (5000, "drop")])
def test_labels_are_found_by_what_sent_entries_add_up(classes, batch, rule):
    y, view = hidden(classes=classes, batch=batch, residual_on_resize=rule)
    answers = EARLY.run(view)
    assert set(answers) == {*(OF_TWO if classes == 2 else VARIANTS), "ledger"}
    plain = success(EARLY.run(undeclared(view))["matched_filter"], y)
    assert success(answers["ledger"], y) > plain + 0.03
    assert success(answers["matched_filter"], y) > plain - 0.02


def test_the_rule_by_which_a_residual_is_dropped_matters():
    y, view = hidden(batch=70, residual_on_resize="per_size")
    found = []
    for rule in ("kept_by_size", "dropped_on_resize"):
        visits = replace(view.granted("visits"), mechanism=Mechanism(unsent=rule))
        found.append(success(FILTER().run(view.holding(visits=visits))["ledger"], y))
    assert found[0] > found[1] + 0.02


def test_a_ledger_of_nothing_names_no_class():
    found = []
    for seed in range(4):
        y, view = hidden(seed, tell=False)
        found.append(success(FILTER().run(view)["ledger"], y))
    assert abs(sum(found) / 4 - 0.25) < 0.04


@pytest.mark.parametrize("times", [(*range(11), 11.5), tuple(t + 0.5 for t in range(12))])
def test_entries_that_several_epochs_share_are_no_ledger(times):
    _, view = hidden()
    visits = replace(view.granted("visits"), times=tuple(map(float, times)))
    assert set(EARLY.run(view.holding(visits=visits))) == VARIANTS


@pytest.mark.parametrize("broken", [False, True])
def test_a_pack_equals_its_members_one_by_one_beside_one_that_diverged(broken):
    views = [hidden(seed)[1] for seed in (0, 1)]
    both = packed([undeclared(view) for view in views])
    visits = replace(both.granted("visits"), mechanism=views[0].granted("visits").mechanism)
    if broken:
        visits.received[1] = torch.nan
    together = EARLY.run(both.holding(visits=visits))["ledger"].scores
    assert torch.isfinite(together).all()
    for index, view in enumerate(views[:1] if broken else views):
        alone = EARLY.run(view)["ledger"].scores
        assert ((together[index] - alone).abs() > 5e-3).float().mean() < 0.01


def test_rows_that_are_not_looked_at_may_stand_in_any_sum():
    y, view = hidden(classes=2)
    answer = FILTER(FILTER.Params(rows=600, rounds=6)).run(view)["ledger"]
    plain = FILTER(FILTER.Params(rows=600, rounds=6)).run(undeclared(view))["filter"]
    assert answer.scores.shape == (600, 2)
    assert success(answer, y) > success(plain, y)


@pytest.mark.parametrize(
    ("mean", "variance", "limit"), [(0.0, 1.0, 0.5), (1.5, 2.0, 1.0), (-3.0, 1.0, 2.0), (0.1, 1.0, 9.0)]
)
def test_what_is_known_to_be_small_has_the_moments_of_a_cut_normal_number(mean, variance, limit):
    at = torch.linspace(-limit, limit, 200_001, dtype=torch.float64)
    weight = (-(at - mean).square() / (2 * variance)).exp()
    weight = weight / weight.sum()
    first = (weight * at).sum()
    found: tuple[Tensor, Tensor] = _below(*map(torch.tensor, (mean, variance, limit)))
    assert float(found[0]) == pytest.approx(float(first), abs=1e-3)
    assert float(found[1]) == pytest.approx(float((weight * (at - first).square()).sum()), rel=1e-2)


def test_what_is_nearly_impossible_lies_at_the_limit():
    mean, variance = _below(torch.tensor(50.0), torch.tensor(1.0), torch.tensor(2.0))
    assert float(mean) == 2.0
    assert 0 < float(variance) < 0.01


def test_each_party_sends_the_largest_entries_of_its_own():
    """What one party was not sent is as large as before, beside another one whose gradients are much smaller."""
    y, view = world(0, classes=4, noise=0.5, features=1.0)
    visits, d = view.granted("visits"), WIDTH // 2
    parts = [visits.received[..., :d], 1e-3 * visits.received[..., d:]]
    sent = [thinned(replace(visits, received=part), drop=0.98) for part in parts]
    both = replace(sent[0], received=torch.cat([part.received for part in sent], -1))
    of_two, of_one = (
        success(FILTER().run(view.holding(visits=replace(both, widths=widths)))["ledger"], y) for widths in ((d, d), ())
    )
    assert of_two > of_one + 0.05
