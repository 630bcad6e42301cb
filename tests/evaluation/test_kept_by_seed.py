"""What an outcome keeps of each seed, so that intervals can be computed from it later."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.helpers.cells import cells
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.row_variance import row_variance
from tune_vfl.evaluation.summarizing import CHOSEN
from tune_vfl.records.confirmations import candidates_of

cell_of = cells("training.epochs=2")


def test_the_spread_over_rows_in_closed_form() -> None:
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]])
    y = np.array([0, 1, 0, 1])
    assert row_variance("accuracy", scores, y) == pytest.approx(0.75 * 0.25 / 4)
    assert row_variance("auc", scores, y) == 0.0, "both positives are above both negatives"
    assert math.isnan(row_variance("f1", scores, y))
    assert math.isnan(row_variance("auc", np.eye(3), np.arange(3)))


def test_the_spread_of_an_auc_is_that_of_redrawn_rows() -> None:
    rng = np.random.default_rng(0)
    aucs, said = [], []
    for _ in range(400):
        y = np.repeat([0, 1], [120, 60])
        positive = rng.normal(size=180) + y
        aucs.append((positive[y == 1][:, None] > positive[y == 0][None, :]).mean())
        said.append(row_variance("auc", np.stack([-positive, positive], axis=1), y))
    assert np.mean(said) == pytest.approx(np.var(aucs), rel=0.2)


def test_an_outcome_holds_the_spread_and_every_candidate_of_each_seed() -> None:
    cell = cell_of("norm", {"name": "direction"}, {"name": "pmc", "variants": ["logreg", "head_only"]})
    [outcome] = evaluate_pack(cell, [{"scale": 1e-3}])
    assert outcome.outcome == "ok", outcome.reason
    assert len(outcome.utility_variance) == 2
    assert all(0 < v < 0.01 for v in outcome.utility_variance)
    for name, score in outcome.attacks.items():
        assert score.values in [pytest.approx(v) for v in score.candidates.values()], name
        for values in candidates_of(score).values():
            assert len(values) == 2
            assert np.mean(values) <= score.mean + 1e-12, "the success is the best candidate's"
    # Variants among which an attacker can choose are one candidate, whatever is chosen with which seed.
    assert set(outcome.attacks["pmc"].candidates) == {CHOSEN, "head_only"}
