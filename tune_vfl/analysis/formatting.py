"""Formatting of numbers, settings and metric names in decisions and reports."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

NOT_NEEDED = "not needed"
"""Stands in a table for an attack that was left out of a setting: others had found nearly all with every seed."""

METRICS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "top5": "top-5 accuracy",
    "leak_auc": "leak AUC",
    "top1": "top-1 success",
}


def metric(name: str) -> str:
    """Return a metric's name for a text."""
    return METRICS.get(name, name.replace("_", " "))


def number(value: Any) -> str:
    """Return a parameter's value in about three significant digits; words as they are."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return value if isinstance(value, str) else json.dumps(value, default=str)
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    small, _, power = f"{value:.3g}".partition("e")
    return f"{small}e{int(power)}" if power else small


def score(value: float | None, std: float | None = None, digits: int = 3) -> str:
    """Return a mean, with its standard deviation over the seeds where there is one; a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" + (f" ± {std:.{digits}f}" if std is not None else "")


def span(value: float | None, interval: tuple[float, float] | None, std: float | None = None) -> str:
    """Return a mean with its 90% interval in parentheses, or with its standard deviation where there is none."""
    if value is None or interval is None:
        return score(value, std)
    return f"{score(value)} ({score(interval[0])} to {score(interval[1])})"


def setting(params: Mapping[str, Any], only: Sequence[str] | None = None) -> str:
    """Return parameters as ``scale=0.00316, k=3``; with ``only``, those of these names."""
    names = [n for n in params if only is None or n in only]
    return ", ".join(f"{n}={number(params[n])}" for n in names) or "no parameters"


def count(how_many: int, one: str, many: str | None = None) -> str:
    """Return ``1 trial`` or ``3 trials``."""
    return f"{how_many} {one if how_many == 1 else many or one + 's'}"


def counted(trials: Mapping[str, int]) -> str:
    """Return trials by outcome: ``22 ok, 1 diverged``."""
    return ", ".join(f"{number} {outcome}" for outcome, number in trials.items() if number) or "no trials"


def listed(items: Sequence[str], word: str = "and") -> str:
    """Return ``a, b and c``."""
    return f" {word} ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def sentence(text: str) -> str:
    """Return ``It is so.`` of ``it is so``."""
    return f"{text[:1].upper()}{text[1:]}."


def short(value: float, digits: int = 3) -> str:
    """Return a share or a difference without its leading zero: ``.941``, ``-.004``, ``1.000``."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def short_span(value: float, interval: tuple[float, float] | None, digits: int = 3) -> str:
    """Return ``.941 (.936 to .946)``; the number alone where it has no interval."""
    if interval is None:
        return short(value, digits)
    return f"{short(value, digits)} ({short(interval[0], digits)} to {short(interval[1], digits)})"
