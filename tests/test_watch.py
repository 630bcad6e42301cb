"""What must not wait for ever: a search whose Ray died under it, and a trial that is out of time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.base import OutOfTimeError, time_limit
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


def mistaken():
    """Like compiled code that turns the alarm's exception into one of its own."""
    try:
        time.sleep(5)
    except OutOfTimeError:
        raise SystemError("bad call flags") from None


def deaf():
    """Like compiled code that swallows the alarm's exception and goes on."""
    try:
        time.sleep(5)
    except OutOfTimeError:
        time.sleep(10)


@pytest.mark.parametrize("work", [mistaken, deaf])
def test_time_that_is_over_ends_as_such(work):
    with pytest.raises(OutOfTimeError), time_limit(0.05):
        work()


def test_an_error_in_time_stays_itself():
    with pytest.raises(ZeroDivisionError), time_limit(5.0):
        1 / 0  # noqa: B018
