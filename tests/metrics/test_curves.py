"""Curves of many scores at once tell what the plain functions tell of each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.twins import success_at_one_percent
from tune_vfl.metrics import together
from tune_vfl.metrics.curves import ends_of
from tune_vfl.metrics.utility import auc

NAN = float("nan")


def plain(scores, y):
    return auc(scores, y), success_at_one_percent(scores, y), success_at_one_percent(-scores, y)


ROWS = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 3.0]) | st.floats(-9, 9), st.integers(0, 1)), max_size=40)


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_each_tells_exactly_what_the_plain_functions_tell(sets):
    scores = [np.array([s for s, _ in rows], dtype=np.float64) for rows in sets]
    labels = [np.array([t for _, t in rows], dtype=np.int64) for rows in sets]
    for found, s, y in zip(ends_of(scores, labels), scores, labels, strict=True):
        np.testing.assert_array_equal(found, plain(s, y))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_large_sets_are_taken_some_at_a_time(monkeypatch, kind):
    monkeypatch.setattr(together, "_NUMBERS_AT_ONCE", 1000)
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 2, 400) for _ in range(7)]
    scores = [(rng.normal(size=400) + y).round(1).astype(kind) for y in labels]
    for found, s, y in zip(ends_of(scores, labels), scores, labels, strict=True):
        np.testing.assert_array_equal(found, plain(s, y))


def test_what_is_undefined_is_no_number():
    y = np.array([0, 1, 1])
    cases = [(np.array([1.0, np.inf, 2.0]), y), (np.array([1.0, NAN, 2.0]), y), (np.ones(3), np.ones(3, int))]
    assert np.isnan([list(ends_of([s], [t])[0]) for s, t in [*cases, (np.empty(0), np.empty(0, int))]]).all()
