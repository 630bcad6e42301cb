"""The papers' scalars of one setting and of several: CAP, and GAFM's two ratios.

They are shown beside a result, and nothing is decided by them. Formulas: :mod:`tune_vfl.metrics.tradeoff`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from tune_vfl.metrics.tradeoff import cap, leak_per_training_auc, utility_per_leak
from tune_vfl.outcome import AttackScore, Outcome


class Scalars(NamedTuple):
    """Published scalars of one attack on one setting; None if the paper's formula does not apply.

    Attributes:
        cap: utility times recovery error: the mean squared error of reconstructed features, or the share of the rows
            under attack whose label is not found. None for an attack that scores rows and names no class.
        utility_per_leak: test AUC over leak AUC, a mean over seeds.
        leak_per_training_auc: leak AUC over the AUC on training rows, a mean over seeds; None where that AUC was not
            measured, as in a search.
    """

    cap: float | None
    utility_per_leak: float | None
    leak_per_training_auc: float | None


def scalars(outcome: Outcome) -> dict[str, Scalars]:
    """Return the scalars of every attack on a setting; of one that is not ``ok``, none."""
    if outcome.outcome != "ok" or outcome.utility is None:
        return {}
    by_auc = outcome.utility.metric == "auc"
    found = {}
    for name, score in outcome.attacks.items():
        leaks = score.values if by_auc and score.metric == "leak_auc" else []
        error = recovery_error(score)
        found[name] = Scalars(
            None if error is None else _finite(cap([outcome.utility.mean], [error])),
            _mean([utility_per_leak(u, leak) for u, leak in zip(outcome.utility.values, leaks, strict=False)]),
            _mean([leak_per_training_auc(k, u) for u, k in zip(outcome.training_utility, leaks, strict=False)]),
        )
    return found


def published(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return the scalars that apply, by attack and name, as plain data."""
    found = {name: {k: v for k, v in of._asdict().items() if v is not None} for name, of in scalars(outcome).items()}
    return {name: of for name, of in found.items() if of}


def recovery_error(score: AttackScore) -> float | None:
    """Return FedAdOb's Rec: of features the mean squared error, of labels one minus top-1; None without either."""
    if score.metric == "reconstruction":
        return _finite(score.extra.get("mse", math.nan))
    found = score.mean if score.metric == "top1" else score.extra.get("top1", math.nan)
    return _finite(1 - found)


class Cap(NamedTuple):
    """CAP of one attack over settings of one defense.

    Attributes:
        settings: how many were averaged.
        cap: the mean of utility times recovery error.
        std: its standard deviation over the settings; 0 for a single one.
    """

    settings: int
    cap: float
    std: float


def cap_by_attack(outcomes: Sequence[Outcome]) -> dict[str, Cap]:
    """Return CAP over those of the settings that are ``ok``, by attack, where the attack has a recovery error."""
    ok = [o for o in outcomes if o.outcome == "ok" and o.utility is not None]
    found = {}
    for name in dict.fromkeys(n for o in ok for n in o.attacks):
        pairs = [
            (o.utility.mean, error)
            for o in ok
            if o.utility is not None and name in o.attacks and (error := recovery_error(o.attacks[name])) is not None
        ]
        if pairs:
            utilities, errors = zip(*pairs, strict=True)
            mean = cap(utilities, errors)
            squares = math.fsum((u * e - mean) ** 2 for u, e in pairs)
            found[name] = Cap(len(pairs), mean, math.sqrt(squares / max(len(pairs) - 1, 1)))
    return found


def _mean(values: Sequence[float]) -> float | None:
    return _finite(fmean(values)) if values else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
