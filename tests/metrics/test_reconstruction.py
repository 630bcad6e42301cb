"""Metrics of reconstructions and published trade-offs: closed forms, a naive twin of SSIM, and what is undefined."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.metrics import reconstruction, tradeoff


def images(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def naive_ssim(found, true):
    """One window after the other, the weights from the two-dimensional Gaussian, moments about the window's means."""
    values = []
    for a, b in zip(found.reshape(-1, *found.shape[2:]), true.reshape(-1, *true.shape[2:]), strict=True):
        height, width = a.shape
        rows = max(k for k in range(1, 12, 2) if k <= height)
        columns = max(k for k in range(1, 12, 2) if k <= width)
        weights = np.array(
            [
                [math.exp(-((i - rows // 2) ** 2 + (j - columns // 2) ** 2) / (2 * 1.5**2)) for j in range(columns)]
                for i in range(rows)
            ]
        )
        weights /= weights.sum()
        for top in range(height - rows + 1):
            for left in range(width - columns + 1):
                p, q = (x[top : top + rows, left : left + columns] for x in (a, b))
                mp, mq = (weights * p).sum(), (weights * q).sum()
                vp, vq = (weights * (p - mp) ** 2).sum(), (weights * (q - mq) ** 2).sum()
                both = (weights * (p - mp) * (q - mq)).sum()
                values.append((2 * mp * mq + 1e-4) * (2 * both + 9e-4) / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4)))
    return float(np.mean(values))


@pytest.mark.parametrize("shape", [(2, 3, 16, 14), (3, 1, 8, 4), (2, 1, 28, 11), (1, 1, 5, 1), (1, 2, 12, 10)])
def test_ssim_equals_window_after_window(shape):
    true = images(*shape)
    found = np.clip(true + 0.2 * np.random.default_rng(1).standard_normal(shape), 0, 1)
    assert reconstruction.ssim(found, true) == pytest.approx(naive_ssim(found, true), abs=1e-10)


def test_ssim_of_constants_and_of_the_same_image():
    true = images(2, 1, 14, 14)
    assert reconstruction.ssim(true, true) == pytest.approx(1.0)
    dark, light = np.zeros((1, 1, 12, 12)), np.ones((1, 1, 12, 12))
    # Without structure only the luminance term is left: c1 / (1 + c1).
    assert reconstruction.ssim(dark, light) == pytest.approx(1e-4 / (1 + 1e-4))
    assert reconstruction.ssim(1 - true, true) < 0


def test_psnr_is_a_mean_over_images_and_capped():
    true = np.zeros((3, 1, 4, 4))
    found = np.stack([np.full((1, 4, 4), e) for e in (0.1, 0.01, 0.0)])
    assert reconstruction.psnr(found, true) == pytest.approx((20 + 40 + 100) / 3)
    assert reconstruction.psnr(true, true) == 100.0
    assert reconstruction.mse(found, true) == pytest.approx((0.01 + 0.0001) / 3)


def test_images_are_clamped_and_tables_are_not():
    true, found = np.ones((2, 1, 3, 3)), np.full((2, 1, 3, 3), 3.0)
    assert reconstruction.mse(found, true) == 0.0
    assert reconstruction.psnr(found, true) == 100.0
    assert reconstruction.mse(found.reshape(2, 9), true.reshape(2, 9)) == 4.0


@given(st.integers(0, 1000), st.floats(0, 1))
def test_what_is_recovered_is_the_share_of_the_variance(seed, share):
    true = np.random.default_rng(seed).standard_normal((20, 3))
    mean = true.mean(0)
    part = mean + share * (true - mean)
    assert reconstruction.recovered(part, true, mean) == pytest.approx(1 - (1 - share) ** 2)
    assert reconstruction.mse_of_the_mean(mean, true) == pytest.approx(true.var(0).mean())
    assert reconstruction.recovered(true + 9, true, mean) == 0.0


def test_what_is_undefined_is_nan():
    nothing, true = np.zeros((0, 1, 4, 4)), images(1, 1, 4, 4)
    for measure in (reconstruction.mse, reconstruction.psnr, reconstruction.ssim):
        assert math.isnan(measure(nothing, nothing))
        assert math.isnan(measure(np.full_like(true, np.nan), true))
        with pytest.raises(ShapeError, match="shape"):
            measure(true[:, :, :2], true)
    assert math.isnan(reconstruction.recovered(true, true, true[0]))
    table = true.reshape(1, 16)
    for measure in (reconstruction.psnr, reconstruction.ssim):
        with pytest.raises(ShapeError, match="images"):
            measure(table, table)


def test_cap_is_the_published_product_for_one_setting():
    assert tradeoff.cap([0.877], [0.368]) == pytest.approx(0.3227, abs=5e-5)
    assert tradeoff.cap([0.5, 1.0], [0.2, 0.4]) == pytest.approx(0.25)
    assert math.isnan(tradeoff.cap([math.nan], [0.1]))
    for wrong in ([], [0.1, 0.2]):
        with pytest.raises(ShapeError, match="CAP"):
            tradeoff.cap([0.5] if wrong else [], wrong)


def test_dcs_is_one_at_the_ideal_and_falls_with_either_distance():
    assert tradeoff.dcs(0.1, 0.9, floor=0.1, undefended=0.9) == 1.0
    assert tradeoff.dcs(0.5, 0.6, floor=0.1, undefended=0.9) == pytest.approx(1 / (1 + math.sqrt(0.08 + 0.045)))
    assert tradeoff.dcs(0.5, 0.0, floor=0.1, undefended=0.9, beta=0.0) == pytest.approx(1 / 1.4)
    with pytest.raises(UsageError, match="beta"):
        tradeoff.dcs(0, 0, floor=0, undefended=0, beta=2)


def test_ratios_of_gafm():
    assert tradeoff.leak_per_training_auc(0.6, 0.8) == pytest.approx(0.75)
    assert tradeoff.utility_per_leak(0.93, 0.62) == pytest.approx(1.5)
    assert math.isnan(tradeoff.leak_per_training_auc(0.6, 0.0))
    assert math.isnan(tradeoff.utility_per_leak(0.6, 0.0))
