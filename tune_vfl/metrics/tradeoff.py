"""Published scalars that combine utility and protection.

None of them is an objective of a search, which keeps utility and protection apart; they are here for comparison with
papers. Floats in, float out; NaN in, NaN out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tune_vfl.errors import ShapeError, UsageError


def cap(utilities: Sequence[float], recovery_errors: Sequence[float]) -> float:
    """Calibrated averaged performance: the mean of utility times recovery error over settings of one defense.

    The number depends on which settings are averaged, so it can only be compared over the same ones. FedAdOb, eq. 13.

    Args:
        utilities: utility at each setting, in [0, 1].
        recovery_errors: at the same settings the MSE of a reconstruction, or one minus the success of a label attack.

    Returns:
        The mean product, larger is better for the defense; one setting gives its product.

    Raises:
        ShapeError: without settings, or when the lengths differ.

    Example:
        >>> from tune_vfl.metrics import cap
        >>> round(cap([0.9, 0.8], recovery_errors=[0.3, 0.6]), 3)
        0.375
    """
    if len(utilities) != len(recovery_errors) or not len(utilities):
        raise ShapeError(
            f"CAP needs a utility and a recovery error for each setting, got {len(utilities)} and "
            f"{len(recovery_errors)}"
        )
    return float(np.mean(np.multiply(utilities, recovery_errors)))


def dcs(success: float, utility: float, *, floor: float, undefended: float, beta: float = 0.5) -> float:
    """Defense capability score: how near a defense is to the ideal.

    The ideal is an attack no better than its floor, at the utility of the undefended model.

    ``1 / (1 + sqrt((1 - beta) (success - floor)^2 + beta (utility - undefended)^2))``. VFLAIR (Zou et al. 2023).

    Args:
        success: what the attack reaches under the defense.
        utility: under the defense.
        floor: the success that needs no federation.
        undefended: the utility of the undefended model.
        beta: how much utility weighs, in [0, 1].

    Returns:
        A number in (0, 1], 1 at the ideal.

    Raises:
        UsageError: for a beta outside [0, 1].

    Example:
        >>> from tune_vfl.metrics import dcs
        >>> round(dcs(0.6, 0.9, floor=0.5, undefended=0.95), 3)
        0.927
    """
    if not 0 <= beta <= 1:
        raise UsageError(f"DCS weighs by beta between 0 and 1, got {beta}")
    return 1 / (1 + math.sqrt((1 - beta) * (success - floor) ** 2 + beta * (utility - undefended) ** 2))


def leak_per_training_auc(leak_auc: float, train_auc: float) -> float:
    """GAFM's rule to select parameters: leak AUC over training AUC; smaller is better. NaN for a training AUC of 0.

    Example:
        >>> from tune_vfl.metrics import leak_per_training_auc
        >>> round(leak_per_training_auc(0.6, 0.9), 3)
        0.667
    """
    return leak_auc / train_auc if train_auc else float("nan")


def utility_per_leak(test_auc: float, leak_auc: float) -> float:
    """GAFM's ratio of test AUC over leak AUC; larger is better. NaN for a leak AUC of 0.

    Example:
        >>> from tune_vfl.metrics import utility_per_leak
        >>> round(utility_per_leak(0.9, 0.6), 3)
        1.5
    """
    return test_auc / leak_auc if leak_auc else float("nan")
