"""Randomised response: keep rates, one draw for all epochs, and the corrected loss."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from tune_vfl.defenses.label_dp import LabelDp, LabelDpParams, keep_probability
from tune_vfl.errors import DataError
from tune_vfl.protocol.losses import task_loss


def made(params, classes, y, seed=0):
    defense = LabelDp(params, num_classes=classes, embedding_dims=[4])
    defense.setup(y, torch.arange(y.shape[-1]).expand_as(y), seed=seed)
    return defense


@pytest.mark.parametrize(("epsilon", "rate"), [(1.0, 0.2320), (4.0, 0.8585)])
def test_keep_rate(epsilon, rate):
    y = torch.arange(100_000) % 10
    assert keep_probability(epsilon, 10) == pytest.approx(rate, abs=5e-5)
    noisy = made(LabelDpParams(epsilon=epsilon), 10, y).labels(y, torch.arange(100_000))
    # A share of 100,000 draws has a standard error below 0.0014; 0.006 is more than four of them.
    assert (noisy == y).double().mean().item() == pytest.approx(rate, abs=0.006)
    swaps = torch.bincount(((noisy - y) % 10)[noisy != y], minlength=10)[1:].double()
    assert (swaps / swaps.sum() - 1 / 9).abs().max() < 0.012


@given(low=st.floats(0.01, 20), more=st.floats(0.01, 20), classes=st.integers(2, 12))
@settings(max_examples=30, deadline=None)
def test_a_larger_budget_keeps_every_label_that_a_smaller_one_keeps(low, more, classes):
    y = torch.arange(200) % classes
    ids = torch.arange(200)
    small, large = (made(LabelDpParams(epsilon=e), classes, y).labels(y, ids) == y for e in (low, low + more))
    assert (large | ~small).all()
    assert keep_probability(low, classes) * (1 - 1e-12) <= keep_probability(low + more, classes)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_reordering_a_batch_reorders_its_labels(seed):
    y = torch.arange(50) % 3
    defense = made(LabelDpParams(), 3, y, seed)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(seed))
    everything = defense.labels(y, torch.arange(50))
    assert torch.equal(defense.labels(y[order], order), everything[order])
    assert torch.equal(defense.labels(y, torch.arange(50)), everything)  # not drawn again


def test_no_label_is_more_than_e_to_epsilon_likelier_under_another_class():
    kept = keep_probability(1.5, 4)
    assert kept / ((1 - kept) / 3) == pytest.approx(math.exp(1.5))


def test_the_corrected_loss_is_the_cross_entropy_after_swapping():
    y = torch.randint(0, 4, (30,), generator=torch.Generator().manual_seed(0))
    logits = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
    defense = made(LabelDpParams(epsilon=1.0, forward_correct=True), 4, y)
    kept = keep_probability(1.0, 4)
    matrix = torch.full((4, 4), (1 - kept) / 3).fill_diagonal_(kept)
    naive = -((logits.softmax(-1) @ matrix).log() * one_hot(y, 4)).sum(-1).mean()
    torch.testing.assert_close(defense.loss(logits, y, []), naive)
    positive = logits[:, :1]  # a net with one output
    two = made(LabelDpParams(epsilon=1.0, forward_correct=True), 2, y % 2)
    p = positive.sigmoid().squeeze(-1)
    kept = keep_probability(1.0, 2)
    seen = torch.where(y % 2 == 1, p * kept + (1 - p) * (1 - kept), (1 - p) * kept + p * (1 - kept))
    torch.testing.assert_close(two.loss(positive, y % 2, []), -seen.log().mean())


def test_the_plain_loss_is_left_alone():
    y, logits = torch.tensor([0, 1, 2]), torch.eye(3)
    assert torch.equal(made(LabelDpParams(), 3, y).loss(logits, y, []), task_loss(logits, y))


def test_rows_that_were_not_set_up_and_ids_that_are_no_row_numbers_are_errors():
    y = torch.tensor([0, 1, 0])
    defense = LabelDp(LabelDpParams(), num_classes=2, embedding_dims=[4])
    defense.setup(y, torch.tensor([4, 0, 2]))
    with pytest.raises((IndexError, RuntimeError)):
        defense.labels(y[:1], torch.tensor([3]))
    with pytest.raises(DataError, match="number the rows"):
        defense.setup(y, torch.tensor([0, 1, 10**12]))
    with pytest.raises(DataError, match="number the rows"):
        defense.setup(y, torch.tensor([0, 1, -1]))
