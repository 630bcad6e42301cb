"""Functions of the normal and of Student's t distribution that intervals need.

scipy is imported at the first call, so that folds and advantages need not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.statistics.arrays import Floats


def normal_below(x: ArrayLike) -> Floats:
    """Return the standard normal distribution function at ``x``; any shape, infinities included."""
    from scipy.special import ndtr

    return np.asarray(ndtr(np.asarray(x, dtype=np.float64)))


def normal_quantile(share: ArrayLike) -> Floats:
    """Return the quantile of the standard normal distribution at ``share``."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.asarray(share, dtype=np.float64)))


def t_quantile(share: ArrayLike, df: ArrayLike) -> Floats:
    """Return the quantile of Student's t; ``share`` in (0, 1) and degrees of freedom of shapes that broadcast."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(np.asarray(df, dtype=np.float64), np.asarray(share, dtype=np.float64)))


def satterthwaite(parts: Sequence[ArrayLike], df: Sequence[float]) -> Floats:
    """Degrees of freedom of a sum of independent variances (Satterthwaite 1946).

    Args:
        parts: the variances, shapes that broadcast.
        df: the degrees of freedom of each.

    Returns:
        ``(sum of parts)² / sum(part² / df)``; where all parts are 0, when nothing hangs on it, the least of ``df``.
    """
    arrays = np.broadcast_arrays(*(np.asarray(p, dtype=np.float64) for p in parts))
    total = np.asarray(sum(arrays), dtype=np.float64)
    if not total.any():
        return np.full(total.shape, float(min(df)))
    # Relative to the largest sum, so that squares of tiny variances do not vanish.
    scale = total.max()
    weighted = sum((a / scale) ** 2 / f for a, f in zip(arrays, df, strict=True))
    safe = np.where(total > 0, weighted, 1.0)
    return np.asarray(np.where(total > 0, (total / scale) ** 2 / safe, float(min(df))))
