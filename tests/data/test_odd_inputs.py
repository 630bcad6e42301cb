"""Three hundred odd inputs: each is read right, told of, or refused by name; none is wrong."""

import pytest

from tests.helpers.odd_inputs import Odd, odd_inputs

INPUTS = list(odd_inputs())


def test_there_are_three_hundred_of_different_names() -> None:
    assert len({(odd.kind, odd.name) for odd in INPUTS}) == len(INPUTS) >= 300


@pytest.mark.slow  # a minute: each is written and read, and its columns looked at
@pytest.mark.parametrize("odd", INPUTS, ids=lambda odd: f"{odd.kind}: {odd.name}")
def test_an_odd_input_is_read_right_told_or_refused(odd: Odd) -> None:
    assert odd.outcome() in {"right", "told", "refused"}, odd.outcome()
