"""Which members of a pack have the same seed and the same rows."""

import pytest
import torch

from tune_vfl.protocol.members import Pack, equal_trials

IDS = torch.arange(10).view(2, 5)


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_trials_of_a_pack_are_equal(trials: int) -> None:
    pack = Pack((7, 3), trials)
    assert equal_trials(pack.member_seeds, pack.spread(IDS)) == trials


def test_one_trial_and_trials_that_differ_in_seeds_or_rows_count_by_themselves() -> None:
    rows = IDS.repeat(2, 1)
    assert equal_trials(7, IDS) == 1
    assert equal_trials([7, 3, 3, 7], rows) == 1
    assert equal_trials([7, 3, 7], rows[:3]) == 1
    rows[3, 4] = 0
    assert equal_trials([7, 3, 7, 3], rows) == 1
    assert equal_trials([7, 3, 7, 3]) == 2
