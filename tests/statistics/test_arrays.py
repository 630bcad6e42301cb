"""What every estimate asks of its numbers: the axes by name, none of them empty, and no number missing."""

import numpy as np
import pytest

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics.arrays import finite, seeds_of


def test_numbers_with_the_named_axes_are_taken_as_they_are():
    found = finite([[1, 2, 3], [4, 5, 6]], "settings seeds", "utility")
    assert found.dtype == np.float64
    assert found.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert seeds_of(found, "utility") == 3
    assert seeds_of(found[:, :2], "utility") == 2
    assert finite([0.5], "seeds", "guess").tolist() == [0.5]


@pytest.mark.parametrize("shape", [(2,), (2, 3, 4), (0, 3), (3, 0)])
def test_other_axes_and_empty_ones_are_refused_by_name(shape):
    with pytest.raises(ShapeError, match=r"utility: expected \(settings, seeds\), none of them empty, got shape"):
        finite(np.zeros(shape), "settings seeds", "utility")


def test_the_first_number_that_is_missing_is_named_with_its_place():
    block = np.zeros((2, 3))
    block[1, 2] = block[1, 0] = np.inf
    with pytest.raises(UsageError, match="utility: inf at settings 1, seeds 0; leave out"):
        finite(block, "settings seeds", "utility")


def test_a_single_seed_has_no_spread():
    with pytest.raises(UsageError, match="utility: an interval needs at least 2 seeds, got 1"):
        seeds_of(np.zeros((4, 1)), "utility")
