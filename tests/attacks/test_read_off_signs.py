"""Columns may be of either sign, which the bias's gradient alone tells: where noise hides it, a row is half undone."""

import math

import pytest
import torch
from torch import Tensor

from tune_vfl.attacks.parts.read_off import read_off

ROWS, OUTPUTS, COLUMNS = 150, 4, 1500
LENGTH = 0.5


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def noisy(noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rows whose gradients are told from noise by their many columns, and their signs by the bias alone."""
    x = normal(ROWS, COLUMNS, seed=1)
    bias = LENGTH * torch.nn.functional.normalize(normal(ROWS, OUTPUTS, seed=2), dim=-1)
    weight = bias.unsqueeze(-1) * x.unsqueeze(-2)
    return x, weight + noise * normal(*weight.shape, seed=3), bias + noise * normal(*bias.shape, seed=4)


@pytest.mark.parametrize(("noise", "wrong"), [(0.35, 0.08), (0.43, 0.12)])
def test_the_share_that_is_found_counts_the_rows_whose_sign_is_wrong(noise: float, wrong: float) -> None:
    x, weight, bias = noisy(noise)
    found = read_off(weight, bias, image=False)
    along = (found.rows * x).sum(-1) / x.square().sum(-1)
    assert float((along < 0).float().mean()) == pytest.approx(wrong, abs=0.05), "a normal law's tail at length / noise"
    assert math.erfc(LENGTH / noise / math.sqrt(2)) / 2 == pytest.approx(wrong, abs=0.01)
    error = float((found.rows - x).square().mean())
    assert float(found.share.mean()) == pytest.approx(1 - error, abs=0.08)


def test_a_row_of_doubtful_sign_is_drawn_to_the_mean_of_both_and_an_image_is_not() -> None:
    _, weight, bias = noisy(0.35)
    bias[0] = 0.0  # as if it were left out: both signs are as likely
    found = read_off(weight, bias, image=False)
    assert float(found.share[0]) == pytest.approx(0.0, abs=1e-3)
    assert float(found.rows[0].square().mean()) < 0.05
    assert float(found.share[1:].mean()) > 0.3
    images = read_off(weight[:1].abs(), bias[:1], image=True)
    assert float(images.share) > 0.01, "pixels are never below 0: their sign needs no bias"
