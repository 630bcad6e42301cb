"""Selection by rank: the n-th largest magnitude beside a full sort, and what is kept."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.defenses.parts.selection import keep_largest, top_magnitudes, top_magnitudes_on_device

RANKS = [0, 3, 30, 3, 17, 31]


def naive(rows, ranks):
    """The n-th largest magnitude by a full sort."""
    descending = [np.sort(np.abs(row))[::-1] for row in rows.numpy()]
    return [math.inf if n == 0 else -1.0 if n > len(r) else r[n - 1] for r, n in zip(descending, ranks, strict=True)]


@given(seed=st.integers(0, 500), drift=st.floats(-1, 1), share=st.floats(0, 1), ties=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_rank_is_found_among_numbers_that_move_jump_and_break(seed, drift, share, ties):
    rng = np.random.default_rng(seed)
    for step in range(60):
        numbers = (rng.standard_normal(97) * math.exp(drift * step)).astype(np.float32)
        numbers = numbers.round() if ties else numbers
        if step in (20, 21):
            numbers[3:9] = [math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, math.nan]
        rank = 97 - round(share * 96)
        rows = torch.from_numpy(numbers.copy()).unsqueeze(0)
        expected = float(np.sort(np.abs(numbers))[97 - rank])
        assert top_magnitudes(rows, [rank]).tolist() == pytest.approx([expected], rel=0, abs=0, nan_ok=True)
        assert top_magnitudes_on_device(rows, [rank]).tolist() == pytest.approx([expected], rel=0, abs=0, nan_ok=True)
        np.testing.assert_array_equal(rows[0].numpy(), numbers)


def test_members_with_other_ranks_get_their_own_limit():
    rows = torch.randn(6, 30, generator=torch.Generator().manual_seed(0))
    assert top_magnitudes(rows, RANKS).tolist() == naive(rows, RANKS)
    assert top_magnitudes_on_device(rows, RANKS).tolist() == naive(rows, RANKS)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_kept_is_what_a_comparison_keeps(ties, dtype):
    g = torch.Generator().manual_seed(1)
    for step in range(20):
        rows = torch.randn(6, 30, generator=g, dtype=dtype)
        rows = rows.round() if step % 2 else rows
        limit = torch.tensor(naive(rows, RANKS), dtype=dtype).unsqueeze(-1)
        kept = keep_largest(rows, RANKS, ties=ties)
        assert torch.equal(kept, torch.where(rows.abs() >= limit if ties else rows.abs() > limit, rows, 0))
