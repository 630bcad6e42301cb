"""Rows read off a linear layer's gradients: exactly, through dropped entries, through noise, and not at all."""

import pytest
import torch

from tune_vfl.attacks.parts.read_off import read_off

ROWS, OUTPUTS, COLUMNS = 12, 40, 60


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gradients(noise=0.0):
    """Rows, and a layer's gradients of each: the bias's, which a ReLU has cut, and its product with the row."""
    x, bias = normal(ROWS, COLUMNS, seed=1), normal(ROWS, OUTPUTS, seed=2).clamp(min=0) / 10
    weight = bias.unsqueeze(-1) * x.unsqueeze(-2)
    return x, weight + noise * normal(*weight.shape, seed=3), bias + noise * normal(*bias.shape, seed=4)


def by_the_bias(weight, bias):
    """What comes nearest to the gradients if the bias's are taken as they are (Phong et al.)."""
    return (bias.unsqueeze(-2) @ weight).squeeze(-2) / bias.square().sum(-1, keepdim=True)


def error(found, x):
    return float((found - x).square().mean())


def test_without_noise_rows_are_read_exactly():
    x, weight, bias = gradients()
    found = read_off(weight, bias, image=False)
    torch.testing.assert_close(found.rows, x, atol=1e-4, rtol=1e-4)
    assert found.share.min() > 1 - 1e-6


def test_zeros_are_entries_that_were_left_out():
    x, weight, bias = gradients()
    kept = weight.abs() >= weight.abs().flatten(1).quantile(0.5, dim=-1).view(-1, 1, 1)
    found = read_off(weight * kept, bias, image=False).rows
    there = kept.any(-2)
    assert there.float().mean() > 0.9
    assert error(found[there], x[there]) < 0.02
    assert error(by_the_bias(weight * kept, bias)[there], x[there]) > 2 * error(found[there], x[there])


@pytest.mark.parametrize("noise", [0.03, 0.1, 0.2])
def test_noise_is_averaged_out_and_what_is_left_of_it_is_known(noise):
    x, weight, bias = gradients(noise)
    found = read_off(weight, bias, image=False)
    assert error(found.rows, x) < error(by_the_bias(weight, bias), x)
    assert error(found.rows, x) < error(torch.zeros_like(x), x)
    assert float(found.share.mean()) == pytest.approx(1 - error(found.rows, x), abs=0.15)


def test_where_there_is_only_noise_rows_are_about_their_mean():
    _, weight, bias = gradients(100.0)
    found = read_off(weight, bias, image=False)
    assert found.rows.std(0).mean() < 0.5
    assert found.share.mean() < 0.2


def test_images_are_found_through_noise_in_which_their_bias_is_lost():
    x, bias = normal(ROWS, 400, seed=1).abs().clamp(max=1), normal(ROWS, OUTPUTS, seed=2).clamp(min=0) / 10
    noise = 0.1
    weight = bias.unsqueeze(-1) * x.unsqueeze(-2) + noise * normal(ROWS, OUTPUTS, 400, seed=3)
    bias = bias + noise * normal(ROWS, OUTPUTS, seed=4)
    found = read_off(weight, bias, image=True).rows
    assert error(found, x) < error(x.mean(0), x)
    assert error(by_the_bias(weight, bias).clamp(0, 1), x) > 1.5 * error(x.mean(0), x)


def test_gradients_of_nothing_say_nothing():
    found = read_off(torch.zeros(3, 4, 5), torch.zeros(3, 4), image=False)
    assert torch.equal(found.rows, torch.zeros(3, 5))
    assert torch.isfinite(found.share).all()
    x, weight, bias = gradients()
    weight[0], bias[0] = 0.0, 0.0
    found = read_off(weight, bias, image=False)
    torch.testing.assert_close(found.rows[1:], x[1:], atol=1e-3, rtol=1e-3)
    assert torch.isfinite(found.rows).all()
    assert found.share[0] < 1e-6


def test_a_bias_that_was_left_out_spoils_no_other_row():
    x, weight, bias = gradients()
    bias[0] = 0.0
    found = read_off(weight, bias, image=False)
    torch.testing.assert_close(found.rows[1:], x[1:], atol=1e-3, rtol=1e-3)
    assert torch.isfinite(found.rows).all()
    assert found.share[0] < 1e-6
    seen = read_off(weight.abs(), bias, image=True)  # an image's sign and length are known without it
    assert torch.isfinite(seen.rows).all()
    assert torch.corrcoef(torch.stack([seen.rows[0], x[0].abs()]))[0, 1] > 0.95


def test_a_single_row_is_not_drawn_to_itself_alone():
    x, weight, bias = gradients()
    found = read_off(weight[:1], bias[:1], image=False)
    torch.testing.assert_close(found.rows, x[:1], atol=1e-4, rtol=1e-4)
    assert float(found.share) > 1 - 1e-6


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_taken_as_left_out(value):
    x, weight, bias = gradients()
    without, broken = weight.clone(), weight.clone()
    without[0, 3, :7], broken[0, 3, :7] = 0.0, value
    found, expected = (read_off(w, bias, image=False) for w in (broken, without))
    assert torch.equal(found.rows, expected.rows)
    torch.testing.assert_close(found.rows[1:], x[1:], atol=1e-3, rtol=1e-3)
    nothing = read_off(torch.full_like(weight, value), torch.full_like(bias, value), image=False)
    assert torch.equal(nothing.rows, torch.zeros_like(x))
