"""How many trials each study of a campaign gets before anything is known."""

from math import inf

import pytest

from tune_vfl.errors import SpecError
from tune_vfl.records.shares import even_shares


def test_all_get_as_many_and_the_first_ones_what_does_not_divide() -> None:
    assert even_shares([3, 0, 1], [inf] * 3, 11) == [4, 4, 3]


def test_what_a_small_space_leaves_goes_to_the_others() -> None:
    assert even_shares([0, 0, 0], [inf, 2, 5], 24) == [17, 2, 5]


def test_published_settings_are_never_cut_for_another_ones_share() -> None:
    assert even_shares([9, 1, 1], [inf] * 3, 15) == [9, 3, 3]


def test_a_study_without_published_settings_gets_a_trial_all_the_same() -> None:
    assert even_shares([4, 0], [4, inf], 5) == [4, 1]


def test_a_total_below_the_published_settings_is_refused_with_the_numbers() -> None:
    with pytest.raises(SpecError, match=r"7 are fewer than the 8 that 2 defenses need .* at least 8"):
        even_shares([3, 5], [inf, inf], 7)
    assert even_shares([3, 5], [inf, inf], 8) == [3, 5]


def test_what_comes_first_counts_and_nobody_takes_more_than_it_can() -> None:
    assert even_shares([6, 2], [inf, inf], 12) == [6, 6]
    assert even_shares([6, 2, 1], [inf, 3, 1], 100_000)[1:] == [3, 1]
    assert even_shares([2, 1], [2, 1], 9) == [2, 1]
