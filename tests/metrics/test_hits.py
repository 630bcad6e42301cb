"""What many sets of class scores say at once is what the plain functions say of each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.metrics.hits import hits_of
from tune_vfl.metrics.leakage import f1, top1

NUMBERS = st.sampled_from([-1.0, 0.0, 0.25, float("nan"), float("inf"), -float("inf")]) | st.floats(-9, 9)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 1)), max_size=30)


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_each_says_exactly_what_the_plain_functions_say(sets):
    scores = [np.array([(a, b) for a, b, _ in rows], dtype=np.float64).reshape(-1, 2) for rows in sets]
    labels = [np.array([t for *_, t in rows], dtype=np.int64) for rows in sets]
    for said, s, y in zip(hits_of(scores, labels), scores, labels, strict=True):
        np.testing.assert_array_equal(said, (top1(s, y), f1(s, y)))
