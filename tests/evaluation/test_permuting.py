"""The p-value beside an attack's success: small where answers know labels, any where not, none for oracles."""

import numpy as np
import pytest
import torch

from tests.helpers.cells import cells
from tune_vfl.attacks import Norm, Pmc
from tune_vfl.evaluation import evaluate_pack
from tune_vfl.evaluation.permuting import on_permuted_labels, p_value_of
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.protocol.answers import Answer

Y = torch.tensor([[0, 1, 2] * 20, [2, 1, 0] * 20])
SEEDS = (0, 1)


def answer_of(classes, **fields):
    """Say these classes, for sure."""
    return Answer(scores=torch.nn.functional.one_hot(classes, 3).float(), ids=torch.arange(60).expand(2, 60), **fields)


def p_of(attack, answer, y=Y, num_classes=3):
    columns = score_answer(answer, y, y[:, :4], num_classes, SEEDS)
    return p_value_of(attack, {"a": columns}, {"a": on_permuted_labels(answer, y, num_classes, SEEDS)})


def test_answers_that_know_the_labels_have_the_smallest_and_constant_ones_the_largest():
    assert p_of(Pmc(), answer_of(Y)) == 0.01
    assert p_of(Pmc(), answer_of(torch.zeros_like(Y))) == 1.0
    assert p_of(Pmc(), answer_of(torch.roll(Y, 7, -1))) > 0.01


def test_only_rows_that_count_are_permuted():
    told = answer_of(Y, counted=torch.arange(60).expand(2, 60) < 2)
    # Two rows of two classes: every second order is right by chance, with each of two seeds.
    assert 0.1 < p_of(Pmc(), told) < 0.5


def test_a_side_that_nobody_knows_is_found_on_permuted_labels_too():
    binary = (Y == 1).long()
    ids = torch.arange(60).expand(2, 60)
    turned = Answer(scores=-binary.float(), ids=ids)
    assert p_of(Norm(), turned, binary, 2) == 0.01
    assert p_of(Norm(), Answer(scores=-binary.float(), ids=ids, oriented=True), binary, 2) == 1.0
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 60)))
    assert p_of(Norm(), Answer(scores=noise, ids=ids), binary, 2) > 0.05


def test_answers_that_were_made_from_the_labels_have_none():
    binary = (Y == 1).long()
    oracle = Answer(scores=binary.float(), ids=torch.arange(60).expand(2, 60), folds=Y)
    assert p_of(Norm(), oracle, binary, 2) is None
    broken = Answer(scores=torch.full((2, 60), torch.nan), ids=torch.arange(60).expand(2, 60))
    assert p_of(Norm(), broken, binary, 2) is None


def test_an_outcome_carries_them():
    (outcome,) = evaluate_pack(cells("training.epochs=2")("norm", "mean", defense="none"), [{}])
    assert outcome.attacks["norm"].p_value == pytest.approx(0.01)
    assert outcome.attacks["mean"].p_value is None


def test_above_fifty_classes_five_answers_count():
    y = torch.arange(60).expand(2, 60)
    scores = torch.nn.functional.one_hot((y + 1) % 60, 60).float() + 0.5 * torch.nn.functional.one_hot(y, 60)
    assert p_of(Pmc(), Answer(scores=scores, ids=y), y, 60) == 0.01
    assert p_of(Pmc(), Answer(scores=torch.zeros(2, 60, 60), ids=y), y, 60) == 1.0, "equal scores answer nothing"
