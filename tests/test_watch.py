"""A search whose Ray died under it ends with a message instead of waiting for ever; a slow answer is forgiven."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.errors import UnreachableError
from tune_vfl.search.watch import NodeWatch


def ended(answers):
    """Return after how many looks the watch gave up; None when it never did."""
    told = iter(answers)
    watch = NodeWatch(lives=lambda: next(told), every=0.0)
    for looks in range(1, len(answers) + 1):
        try:
            watch.on_step_begin(looks, [])
        except UnreachableError:
            return looks
    return None


@given(st.lists(st.booleans(), max_size=30))
def test_three_dead_looks_in_a_row_end_a_search(answers):
    naive = next((i + 1 for i in range(2, len(answers)) if not any(answers[i - 2 : i + 1])), None)
    assert ended(answers) == naive


def test_it_looks_only_from_time_to_time():
    watch = NodeWatch(lives=lambda: pytest.fail("looked too early"), every=1000.0)
    watch.on_step_begin(1, [])
