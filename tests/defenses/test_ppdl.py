"""PPDL: a loop over entries beside the vectorised choice, and the published shares of accepted entries."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from tune_vfl.defenses.parts import sparse_vector
from tune_vfl.defenses.parts.sparse_vector import accepted_by_links, accepted_places, next_acceptances
from tune_vfl.defenses.ppdl import Ppdl, PpdlParams
from tune_vfl.seeds import Streams
from tune_vfl.testing.gradients import softmax_gradient

BATCHES = 400


def made(d=10, members=None, **params):
    return Ppdl(members or PpdlParams(**params), num_classes=10, embedding_dims=[d])


def naive_choice(scores, thresholds, count):
    """Walk over the places one by one."""
    chosen, current = [], thresholds[0]
    for place, score in enumerate(scores):
        if len(chosen) == count:
            break
        if score >= current:
            chosen.append(place)
            current = thresholds[place + 1] if place + 1 < len(scores) else None
    return chosen


@given(n=st.integers(1, 70), share=st.floats(0, 1), seed=st.integers(0, 999), spread=st.floats(0.1, 5))
@settings(max_examples=150, deadline=None)
def test_the_choice_is_that_of_a_walk_over_the_entries(n, share, seed, spread):
    g = torch.Generator().manual_seed(seed)
    scores, thresholds = (torch.randn(3, n, generator=g) * s for s in (1, spread))
    counts = [int(share * n), n, 0]
    accepted, complete = accepted_places(scores, thresholds, counts)
    for member, count in enumerate(counts):
        expected = naive_choice(scores[member].tolist(), thresholds[member].tolist(), count)
        assert accepted[member].nonzero().flatten().tolist() == expected
        assert complete[member].item() == (len(expected) == count)
    assert torch.equal(accepted_by_links(scores, thresholds, counts), accepted)


@given(n=st.integers(1, 90), seed=st.integers(0, 99), high=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_the_next_acceptance_is_the_first_score_that_reaches_the_threshold(n, seed, high):
    g = torch.Generator().manual_seed(seed)
    scores, thresholds = (torch.randint(-4, 5, (1, n), generator=g).float() for _ in range(2))
    thresholds += high  # so that some are reached far away only, or never
    expected = [next((t for t in range(s, n) if scores[0, t] >= thresholds[0, s]), n) for s in range(n)]
    assert next_acceptances(scores, thresholds)[0].tolist() == expected


@pytest.mark.parametrize("rare", [-3.0, 0.0, 2.0, 3.5, 9.0])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 500, 3000])
def test_a_long_walk_is_the_naive_one_where_acceptances_are_near_far_and_nowhere(rare, count):
    g = torch.Generator().manual_seed(0)
    scores, thresholds = torch.randn(1, 3000, generator=g), torch.randn(1, 3000, generator=g) / 2 + rare
    accepted, complete = accepted_places(scores, thresholds, [count])
    expected = naive_choice(scores[0].tolist(), thresholds[0].tolist(), count)
    assert accepted[0].nonzero().flatten().tolist() == expected
    assert complete.item() == (len(expected) == count)
    assert torch.equal(accepted_by_links(scores, thresholds, [count]), accepted)


def test_the_choice_is_the_same_of_doubles_of_what_lies_apart_and_without_machine_code(monkeypatch):
    g = torch.Generator().manual_seed(0)
    scores, thresholds = torch.randn(40, 6, generator=g).T, torch.randn(12, 40, generator=g)[::2]
    scores[0, 3] = thresholds[1, 0] = float("nan")
    counts = [40, 40, 5, 0, 1, 20]
    accepted, complete = accepted_places(scores, thresholds, counts)
    assert not accepted[0, 3]
    assert not accepted[1].any()
    assert 0 < accepted.sum() < 106
    monkeypatch.setattr(sparse_vector, "native_visit", lambda: None)
    for ways in ((scores, thresholds), (scores.double(), thresholds.double())):
        again = accepted_places(*ways, counts)
        assert torch.equal(again[0], accepted)
        assert torch.equal(again[1], complete)


@pytest.mark.parametrize("rule", ["leave", "zero"])
@pytest.mark.parametrize(("theta", "epsilon", "sensitivity"), [(0.75, 1.8, 1), (0.2, 1.8, 1), (0.3, 5.0, 1e-4)])
def test_what_is_sent_is_what_the_procedure_says(rule, theta, epsilon, sensitivity):
    # With little noise the choice depends on the data as well.
    grad = torch.randn(12, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 1e-3
    defense = made(5, theta=theta, epsilon=epsilon, sensitivity=sensitivity, on_exhaust=rule)
    sent = defense.cut_gradient(grad, y=torch.zeros(12))
    stream = Streams(0)["cut/0"]
    order, noise = stream.permutation(60).tolist(), stream.laplace(3, 60).double()
    count = int(theta * 60)
    scale = 2 * count * sensitivity / (epsilon * 8 / 9)
    raw = grad.flatten().tolist()
    scores = [min(abs(raw[e]), 1e-3) + 2 * scale * noise[0, t].item() - 1e-4 for t, e in enumerate(order)]
    chosen = naive_choice(scores, (scale * noise[1]).tolist(), count)
    expected = raw if rule == "leave" and len(chosen) < count else [0.0] * 60
    for t in chosen:
        disturbed = raw[order[t]] + 4 * scale * noise[2, t].item()  # a quarter of the budget: four times the scale
        expected[order[t]] = min(max(disturbed, -1e-3), 1e-3)
    torch.testing.assert_close(sent.flatten(), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-15)


@pytest.fixture(scope="module")
def first_step():
    """Gradients of the first step, batch by batch: small logits, ten classes, batches of 32."""
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(BATCHES, 32, 10, generator=g) * 0.05
    y = torch.randint(0, 10, (BATCHES, 32), generator=g)
    return softmax_gradient(logits, one_hot(y, 10).float()), y


def sent_by_pack(first_step, **params):
    grad, y = first_step
    defense = made(members=[PpdlParams(**params)] * BATCHES)
    defense.setup(y, torch.arange(32).expand(y.shape), seed=list(range(BATCHES)))
    return defense.cut_gradient(grad, y=y)


@pytest.mark.parametrize(("theta", "share"), [(0.75, 0.37), (0.5, 0.365), (0.25, 0.25), (0.1, 0.1)])
def test_the_published_shares_are_accepted(first_step, theta, share):
    grad, _ = first_step
    sent = sent_by_pack(first_step, theta=theta)
    changed = (sent != grad) & (sent != 0)
    assert changed.double().mean().item() == pytest.approx(share, abs=0.01)


def test_zeroing_sends_nothing_raw(first_step):
    sent = sent_by_pack(first_step, theta=0.75, on_exhaust="zero")
    assert sent.abs().max().item() <= 1e-3 * (1 + 1e-6)
    assert (sent == 0).double().mean().item() == pytest.approx(0.63, abs=0.01)


def test_members_of_a_pack_with_other_shares_are_what_they_are_alone():
    grad = torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(0)) * 1e-2
    params = [PpdlParams(theta=t, epsilon=e) for t, e in ((0.1, 1.8), (0.3, 1e7), (0.8, 10.0))]
    seeds, y, ids = [4, 5, 4], torch.zeros(3, 9, dtype=torch.int64), torch.arange(9).expand(3, 9)
    defense = made(4, members=params)
    defense.setup(y, ids, seed=seeds)
    together = defense.cut_gradient(grad, y=y)
    for member, (own, seed) in enumerate(zip(params, seeds, strict=True)):
        single = made(4, members=own)
        single.setup(y[member], ids[member], seed=seed)
        assert torch.equal(together[member], single.cut_gradient(grad[member], y=y[member]))
