"""Geno: the threshold by the book, what it holds back, and a party that drifts."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tune_vfl.defenses.geno import Geno, GenoParams
from tune_vfl.defenses.parts.robust import Window, robust_threshold
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Context


def made(params, rows=8, members=None):
    defense = Geno(params if members is None else [params] * members, num_classes=3, embedding_dims=[4])
    lead = () if members is None else (members,)
    defense.setup(
        torch.zeros(*lead, rows), torch.arange(rows).expand(*lead, rows), seed=0 if members is None else [0] * members
    )
    return defense


@given(half=st.integers(0, 40), seed=st.integers(0, 500))
@settings(max_examples=30, deadline=None)
def test_the_threshold_is_three_robust_deviations_over_the_median(half, seed):
    values = torch.rand(2, 2 * half + 1, generator=torch.Generator().manual_seed(seed))
    rows = values.double().numpy()
    naive = [np.median(r) + 3 * 1.4826 * np.median(np.abs(r - np.median(r))) for r in rows]
    torch.testing.assert_close(robust_threshold(values).double(), torch.tensor(naive), rtol=1e-5, atol=1e-6)


def test_the_window_is_a_hundred_steps_long():
    window = Window()
    for step in range(200):
        threshold = window.threshold(torch.full((1, 3), float(step)))
    ends = range(191, 201)  # a threshold of 100 steps is at most 9 steps old
    found = [robust_threshold(torch.arange(end - 100.0, end).repeat_interleave(3).unsqueeze(0)) for end in ends]
    assert any(torch.equal(threshold, one) for one in found)


@given(seed=st.integers(0, 500), drift=st.floats(-0.2, 0.2), ties=st.booleans())
@settings(max_examples=6, deadline=None)
def test_a_step_gives_what_all_remembered_numbers_gave_a_tenth_of_them_ago_at_most(seed, drift, ties):
    g, window, kept, expected = torch.Generator().manual_seed(seed), Window(), [], []
    for step in range(120):
        values = torch.rand(2, 16 if step % 7 else 5, generator=g) * math.exp(drift * step)
        if ties:
            values = (4 * values).round()
        if step in (40, 41):
            values[1, 2:4] = torch.tensor([math.inf, math.nan])
        kept.append(values)
        expected.append(robust_threshold(torch.cat(kept[-100:], dim=-1)))
        found, late = window.threshold(values), max(min(step + 1, 100) // 10, 1)
        assert any(torch.equal(found, one) for one in expected[-late:])


def test_an_outstanding_row_is_not_sent_and_the_others_are():
    grad = torch.nn.functional.normalize(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    grad = grad * torch.linspace(0.9, 1.1, 8).unsqueeze(-1)
    defense = made(GenoParams())
    assert torch.equal(defense.cut_gradient(grad, y=grad), grad)
    loud = grad.clone()
    loud[3] *= 50
    sent = defense.cut_gradient(loud, y=grad)
    assert not sent[3].any()
    assert torch.equal(sent[[0, 1, 2, 4, 5, 6, 7]], grad[[0, 1, 2, 4, 5, 6, 7]])
    assert defense.logged()["filtered"] == [pytest.approx(1 / 16)]


def test_a_number_is_the_threshold_itself():
    grad = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    sent = made(GenoParams(threshold=1.0)).cut_gradient(grad, y=grad)
    assert torch.equal(sent, torch.tensor([[0.0, 0.0], [0.3, 0.4], [0.0, 0.0]]))
    assert torch.equal(made(GenoParams(threshold=5.0)).cut_gradient(grad, y=grad), grad)  # at the threshold: sent
    assert not made(GenoParams(threshold=0.0)).cut_gradient(grad, y=grad).any()


@pytest.mark.parametrize("wrong", [-1, float("inf"), "often"])
def test_other_thresholds_are_refused(wrong):
    with pytest.raises(ValidationError):
        GenoParams(threshold=wrong)


def context(embeddings, epoch, step):
    lead = embeddings.shape[:-2]
    ids = torch.arange(8).expand(*lead, 8)
    return Context([embeddings], embeddings, ids, ids, epoch, step, lambda c: embeddings)


@pytest.mark.parametrize("threshold", ["auto", 0.5])
@pytest.mark.parametrize("members", [None, 2])
def test_a_party_whose_embeddings_jump_gets_nothing_for_that_step(threshold, members):
    defense = made(GenoParams(scope="party", threshold=threshold), members=members)
    g = torch.Generator().manual_seed(0)
    lead = () if members is None else (members,)
    embeddings = torch.randn(*lead, 8, 4, generator=g)
    grad = torch.randn(*lead, 8, 4, generator=g)
    for epoch in range(20):
        embeddings = embeddings * (1 + 0.01 * torch.rand((), generator=g))
        sent = defense.cut_gradient(grad, y=grad, context=context(embeddings, epoch, epoch))
        assert epoch > 12 or torch.equal(sent, grad)
    # In a pack, the second member's embeddings jump and the first one's stay.
    jump = torch.tensor([1.0, 3.0]).view(2, 1, 1) if members else torch.tensor(3.0)
    sent = defense.cut_gradient(grad, y=grad, context=context(embeddings * jump, 20, 20))
    assert not (sent[1] if members else sent).any()


def test_drift_needs_the_context_of_the_step():
    grad = torch.zeros(8, 4)
    with pytest.raises(UsageError, match="context"):
        made(GenoParams(scope="party")).cut_gradient(grad, y=grad)
