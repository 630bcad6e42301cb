"""How much of a noisy matrix's first direction is told from noise: the formula against matrices that are drawn."""

import pytest
import torch

from tune_vfl.attacks.parts.read_off import _known, read_off

M, N, DRAWS = 30, 120, 60


def drawn(strength: float, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy matrices' largest singular values, squared, and how much of their directions is true."""
    stream = torch.Generator().manual_seed(0)
    left, right = torch.zeros(M), torch.zeros(N)
    left[0], right[0] = 1.0, 1.0
    matrices = strength * left[:, None] * right + noise * torch.randn(DRAWS, M, N, generator=stream)
    _, sizes, found = torch.linalg.svd(matrices, full_matrices=False)
    return sizes[:, 0].square(), (found[:, 0] @ right).square()


@pytest.mark.parametrize("strength", [22.0, 30.0, 60.0])
def test_the_share_that_is_no_noise_is_the_square_of_the_overlap_with_the_truth(strength: float) -> None:
    largest, overlap = drawn(strength, 1.0)
    known = _known(largest, torch.ones(DRAWS), M, N)
    assert float(known.mean()) == pytest.approx(float(overlap.mean()), abs=0.02)
    assert float(known.mean()) == pytest.approx(float(_known(largest * 9, torch.full((DRAWS,), 9.0), M, N).mean()))


def test_noise_alone_is_known_to_be_nothing_and_no_noise_leaves_everything() -> None:
    largest, _ = drawn(0.0, 1.0)
    assert float(_known(largest, torch.ones(DRAWS), M, N).max()) == 0.0, "three deviations above what noise comes to"
    clear, _ = drawn(20.0, 0.0)
    assert float(_known(clear, torch.zeros(DRAWS), M, N).min()) == 1.0


def test_rows_are_drawn_to_their_mean_by_what_is_noise() -> None:
    """Rows around 2, read off without noise but for one whose layer says nothing: that one is the others' mean."""
    x = 0.3 * torch.randn(8, 50, generator=torch.Generator().manual_seed(1)) + 0.5
    bias = torch.rand(8, 10, generator=torch.Generator().manual_seed(2)) + 0.5
    weight = bias.unsqueeze(-1) * x.unsqueeze(-2)
    weight[0], bias[0] = 0.0, 0.0
    found = read_off(weight, bias, image=False)
    torch.testing.assert_close(found.rows[1:], x[1:], atol=1e-3, rtol=1e-3)
    assert float(found.rows[0].mean()) == pytest.approx(float(x[1:].mean()), abs=0.05)
    assert float(found.share[0]) < 1e-6
    assert found.share[1:].min() > 0.999
