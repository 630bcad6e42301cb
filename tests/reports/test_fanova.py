"""Shares of parameters: what can be told by hand, and Optuna's own answer to the same question."""

from __future__ import annotations

import numpy as np
import pytest

from reports.fanova import Column, shares

RNG = np.random.default_rng(0)
A, B = RNG.uniform(0, 1, (2, 60))
WORDS = RNG.integers(0, 3, 60).astype(float)


def test_of_a_sum_each_has_what_it_varies_by():
    found = shares([Column(A), Column(B)], 3 * A + B)
    assert found == pytest.approx([0.9, 0.1], abs=0.06)


def test_what_matters_only_together_matters_alone_to_none():
    a, b = (RNG.integers(0, 2, 60).astype(float) for _ in range(2))
    found = shares([Column(a, 2), Column(b, 2)], (a != b).astype(float))
    assert found == pytest.approx([0, 0], abs=1e-12)
    assert shares([Column(a, 2), Column(b, 2)], a) == pytest.approx([1, 0])


def test_numbers_of_which_one_is_far_away_count_by_the_room_they_take():
    """A cut at .5 of 0 to 1 leaves halves; of 0 to 10 the left is a twentieth."""
    step = (A > 0.5).astype(float)
    far = np.append(A, 10.0)
    together = shares([Column(np.append(A, 0.99)), Column(np.append(B, 0.5))], np.append(step, 1.0))
    assert together == pytest.approx([1, 0], abs=0.02)
    other = np.append(B, 0.5)
    near, wide = (shares([Column(c), Column(other)], np.append(step + B, 1.5)) for c in (np.append(A, 0.99), far))
    assert near[0] > 0.7
    assert wide[0] < near[0] - 0.2, "most of the room of the first is where nothing changes"


def test_nothing_matters_to_what_never_changes():
    assert shares([Column(A), Column(B)], np.full(60, 0.3)) is None
    same = shares([Column(np.ones(60)), Column(B)], B)
    assert same == pytest.approx([0, 1])


def test_the_same_seed_gives_the_same_shares():
    y = A * B
    assert (shares([Column(A), Column(B)], y) == shares([Column(A), Column(B)], y)).all()


@pytest.mark.parametrize("seed", range(3))
def test_optunas_own_answer_is_near(seed):
    import optuna
    from optuna.importance import FanovaImportanceEvaluator

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0, 1, 4)
    y = weights[0] * A + weights[1] * np.sin(4 * B) + weights[2] * (WORDS == 1) + weights[3] * A * B
    space = {
        "a": optuna.distributions.FloatDistribution(A.min(), A.max()),
        "b": optuna.distributions.FloatDistribution(B.min(), B.max()),
        "w": optuna.distributions.CategoricalDistribution(["x", "y", "z"]),
    }
    study = optuna.create_study()
    for a, b, w, value in zip(A.tolist(), B.tolist(), WORDS.astype(int).tolist(), y.tolist(), strict=True):
        params = {"a": a, "b": b, "w": "xyz"[w]}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
    theirs = FanovaImportanceEvaluator(n_trees=16, seed=0).evaluate(study)
    mine = shares([Column(A), Column(B), Column(WORDS, 3)], y)
    assert mine == pytest.approx([theirs[name] for name in "abw"], abs=0.08)
