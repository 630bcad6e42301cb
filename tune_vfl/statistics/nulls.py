"""Null distributions of attacks: closed forms for success in sample, and a test by permuted labels.

They explain and test. None of them is a floor: the flattery of a maximum fades as the signal grows and a floor does
not, so that subtracting it understates leakage. Floors come from cross-fitting (:mod:`tune_vfl.statistics.floors`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tune_vfl.errors import UsageError
from tune_vfl.statistics.arrays import finite
from tune_vfl.statistics.laws import normal_below

PERMUTATIONS = 99


def center_null(positives: int, negatives: int, dimension: float) -> float:
    """Balanced accuracy on noise from N(0, I) of class centers computed from the same rows that they judge.

    Args:
        positives: rows of class 1.
        negatives: rows of class 0.
        dimension: of the rows; where their covariance is not the identity, :func:`effective_dimension`.

    Returns:
        ``Phi(sqrt(d (1/n1 + 1/n0)) / 2)``, in (1/2, 1).

    Example:
        >>> from tune_vfl.statistics import center_null
        >>> round(center_null(positives=6, negatives=500, dimension=64), 3)
        0.95
    """
    _both(positives, negatives)
    return float(normal_below(math.sqrt(dimension * (1 / positives + 1 / negatives)) / 2))


def effective_dimension(values: ArrayLike) -> float:
    """Effective number of directions of ``(n, d)`` rows, ``tr(S)² / tr(S²)`` of their covariance S, in [1, d].

    Raises:
        ShapeError, UsageError: for another shape, or a number that is not finite.
        UsageError: for rows that are all equal.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import effective_dimension
        >>> round(effective_dimension(np.random.default_rng(0).normal(size=(1000, 4))), 1)
        4.0
    """
    rows = finite(values, "rows d", "values")
    centered = rows - rows.mean(0)
    # Both traces are those of the smaller of the two products.
    product = centered.T @ centered if rows.shape[1] <= len(rows) else centered @ centered.T
    trace = float(np.trace(product))
    if trace <= 0:
        raise UsageError("values: all rows are equal, they have no dimension")
    return trace**2 / float((product**2).sum())


def folded_auc_null(positives: int, negatives: int) -> float:
    """Mean, on noise without ties, of the larger of AUC and 1 - AUC.

    ``1/2 + sqrt(2/pi) sd`` with ``sd² = (n1 + n0 + 1) / (12 n1 n0)``, the mean of a folded normal.

    Example:
        >>> from tune_vfl.statistics import folded_auc_null
        >>> round(folded_auc_null(positives=10, negatives=90), 3)
        0.577
    """
    _both(positives, negatives)
    spread = math.sqrt((positives + negatives + 1) / (12 * positives * negatives))
    return 0.5 + math.sqrt(2 / math.pi) * spread


def permutation_p_value(
    statistic: Callable[[NDArray[np.int64]], float],
    y: ArrayLike,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
) -> float:
    """Probability, under exchangeable labels, of a success at least as large as the observed one.

    Args:
        statistic: the success from labels ``(n,)``, with everything that was chosen by labels inside of it: the best
            variant, the side of a folded AUC, the batches.
        y: ``(n,)`` true labels.
        rng: permutes them.
        permutations: how many; 99 resolve a p of .01.

    Returns:
        ``(1 + permutations at least as large) / (1 + permutations)``, in (0, 1]; NaN where the success is NaN. A
        permutation without a success counts as large.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import permutation_p_value
        >>> y, scores = np.arange(40) % 2, np.arange(40) % 2 + 0.1
        >>> agreement = lambda labels: float((labels == scores.round()).mean())
        >>> permutation_p_value(agreement, y, np.random.default_rng(0))
        0.01
    """
    labels = np.asarray(y, dtype=np.int64)
    found = statistic(labels)
    if math.isnan(found):
        return float("nan")
    return p_value([found], [[statistic(rng.permutation(labels)) for _ in range(permutations)]])


def p_value(found: Sequence[float], null: Sequence[ArrayLike]) -> float:
    """Probability, under exchangeable labels, of a success at least as large as the largest observed one.

    Args:
        found: the success of each variant that the attacker may commit to.
        null: the success of each on permuted labels, ``(B,)`` the same permutations for all.

    Returns:
        ``(1 + permutations at least as large) / (1 + permutations)``, in (0, 1]. A permutation without a success counts
        as large.
    """
    largest = np.max(np.asarray(null, dtype=np.float64), axis=0)
    # Rounding must not tell apart what is equal.
    as_large = int((~(largest < max(found) - 1e-12)).sum())
    return (1 + as_large) / (1 + len(largest))


def _both(positives: int, negatives: int) -> None:
    if positives < 1 or negatives < 1:
        raise UsageError(f"rows of both classes are needed, got {positives} and {negatives}")
