"""Isotropic noise: its length, and that it follows the gradient's scale."""

import math

import pytest
import torch

from tune_vfl.defenses.iso import Iso, IsoParams


def sent(grad, ratio):
    y = torch.zeros(grad.shape[:-1], dtype=torch.int64)
    return Iso(IsoParams(ratio=ratio), num_classes=2, embedding_dims=[grad.shape[-1]]).cut_gradient(grad, y=y)


@pytest.mark.parametrize("d", [1, 4, 64])
def test_a_row_of_noise_is_ratio_times_as_long_as_the_longest_row(d):
    grad = torch.zeros(320_000 // d, d)
    grad[7] = 3 / math.sqrt(d)
    noise = sent(grad, 2.0) - grad
    # Mean squared length (2 * 3)^2; 320,000 draws leave 0.25%.
    assert noise.square().sum(-1).mean().item() == pytest.approx(36, rel=0.02)


def test_the_scale_of_the_gradient_does_not_matter():
    grad = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sent(grad * 1e-3, 1.0), sent(grad, 1.0) * 1e-3)


def test_a_zero_gradient_stays_zero():
    assert not sent(torch.zeros(5, 3), 25.0).any()
