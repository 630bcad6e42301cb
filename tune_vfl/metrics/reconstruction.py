"""Error of reconstructed features against the true ones.

numpy in, float out. Rows are ``(n, d)`` of a table, in standardized units, or images ``(n, C, H, W)`` in [0, 1];
reconstructed images are clamped to that range first. Without rows, or with a number that is not finite, every score is
NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_vfl.errors import ShapeError
from tune_vfl.metrics.utility import Floats

MOST_DECIBELS = 100.0
WINDOW, SIGMA, K1, K2 = 11, 1.5, 0.01, 0.03


def is_image(x: Floats) -> bool:
    """Whether rows are images ``(n, C, H, W)``; anything else counts as a table."""
    return x.ndim == 4


def _pair(found: Floats, true: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if found.shape != true.shape:
        raise ShapeError(f"a reconstruction has the shape of the rows, {true.shape}, got {found.shape}")
    a, b = np.asarray(found, dtype=np.float64), np.asarray(true, dtype=np.float64)
    return (np.clip(a, 0.0, 1.0) if is_image(b) else a), b


def _images(found: Floats, true: Floats, what: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not is_image(true):
        raise ShapeError(f"{what} is for images (n, C, H, W), got rows of shape {true.shape}")
    return _pair(found, true)


def mse(found: Floats, true: Floats) -> float:
    """Mean squared error over rows, channels and pixels (or columns); smaller is closer.

    Raises:
        ShapeError: when the shapes differ.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import mse
        >>> mse(np.array([[0.0, 1.0]]), np.array([[0.0, 0.5]]))
        0.125
    """
    a, b = _pair(found, true)
    return _finite(np.square(a - b).mean()) if b.size else float("nan")


def mse_of_the_mean(mean: Floats, true: Floats) -> float:
    """The error of one constant answer, such as the mean of a party's rows: reachable without an attack.

    Args:
        mean: one row, ``(d,)`` or ``(C, H, W)``.
        true: ``(n, ...)``.
    """
    return mse(np.broadcast_to(mean, true.shape), true)


def recovered(found: Floats, true: Floats, mean: Floats) -> float:
    """``1 - MSE / MSE of the mean``: the share of the variance that a reconstruction explains, never below 0.

    Args:
        found: ``(n, ...)`` reconstructions.
        true: ``(n, ...)`` the rows.
        mean: one row, the answer without an attack.

    Returns:
        A number in [0, 1], larger is more leakage; NaN where the error of the mean is 0.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import recovered
        >>> true = np.array([[0.0, 0.0], [2.0, 2.0]])
        >>> recovered(true * 0.5 + 0.5, true, mean=true.mean(0))
        0.75
    """
    without = mse_of_the_mean(mean, true)
    return max(0.0, 1 - mse(found, true) / without) if without > 0 else float("nan")


def psnr(found: Floats, true: Floats) -> float:
    """Peak signal to noise ratio in decibels, ``10 log10(1 / MSE)`` of each image, at most 100, averaged over images.

    Raises:
        ShapeError: for tables, or when the shapes differ.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import psnr
        >>> image = np.zeros((1, 1, 16, 16))
        >>> round(psnr(image + 0.1, image), 3)
        20.0
    """
    a, b = _images(found, true, "PSNR")
    if not b.size:
        return float("nan")
    errors = np.square(a - b).mean(axis=(1, 2, 3))
    decibels = -10 * np.log10(np.maximum(errors, 10 ** (-MOST_DECIBELS / 10)))
    return _finite(decibels.mean())


def ssim(found: Floats, true: Floats) -> float:
    """Structural similarity with a Gaussian window of 11x11 and sigma 1.5, K1 .01, K2 .03 and data range 1.

    Windows lie wholly inside the image; the mean is over windows, channels and images. An image that is lower or
    narrower than 11 gets, along that axis, the largest odd window that fits, the Gaussian cut off there. Wang et al.,
    "Image Quality Assessment: From Error Visibility to Structural Similarity", IEEE TIP 13 (2004).

    Returns:
        A number in [-1, 1], larger is more alike.

    Raises:
        ShapeError: for tables, or when the shapes differ.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.metrics import ssim
        >>> image = np.random.default_rng(0).random((1, 1, 16, 16))
        >>> round(ssim(image, image), 3)
        1.0
    """
    a, b = _images(found, true, "SSIM")
    if not b.size:
        return float("nan")
    c1, c2 = K1**2, K2**2
    mean_a, mean_b = _windowed(a), _windowed(b)
    var_a, var_b = _windowed(a * a) - mean_a**2, _windowed(b * b) - mean_b**2
    both = _windowed(a * b) - mean_a * mean_b
    alike = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    return _finite((alike / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean())


def gaussian_window(length: int) -> NDArray[np.float64]:
    """Return the weights along an axis of ``length`` pixels: of the largest odd window up to 11; they sum to 1."""
    size = min(WINDOW, length - 1 + length % 2)
    weights = np.exp(-0.5 * np.square((np.arange(size) - size // 2) / SIGMA))
    normed: NDArray[np.float64] = weights / weights.sum()
    return normed


def _windowed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted means over all windows that lie inside ``(n, C, H, W)``."""
    from scipy.ndimage import correlate1d

    for axis in (2, 3):
        weights = gaussian_window(x.shape[axis])
        margin = len(weights) // 2
        means = correlate1d(x, weights, axis=axis, mode="nearest")
        x = np.take(means, np.arange(margin, x.shape[axis] - margin), axis=axis)
    return x


def _finite(value: Any) -> float:
    return float(value) if np.isfinite(value) else float("nan")
