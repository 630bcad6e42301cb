"""The last gate before the ledger: nothing that is not finite gets through as a result."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ValidationError

from tune_vfl.outcome import AttackScore, Outcome, OutcomeName, Score


def clean(outcome: Outcome) -> Outcome:
    """Return an outcome that JSON can hold and that keeps its promise.

    A score that is not finite makes the trial ``diverged``. Other numbers that are not finite, such as one that was
    logged beside the scores, are left out.
    """
    attacks = [*outcome.attacks.values(), *outcome.attackers.values()]
    scores: list[Score] = [*([outcome.utility] if outcome.utility else []), *attacks]
    broken = [s for s in scores if not all(map(math.isfinite, _numbers(s)))]
    raw = _finite_only(outcome.model_dump(mode="json", exclude={"utility", "attacks"} if broken else None))
    if broken and outcome.outcome == "ok":
        raw = {**raw, "outcome": "diverged", "reason": f"a score is not finite: {broken[0].metric} {broken[0].mean}"}
    if broken:
        raw = {k: v for k, v in raw.items() if k not in {"leakage", "leakage_std"}}
    return Outcome.model_validate(raw)


def _numbers(score: Score) -> list[float]:
    beside = [score.advantage, score.advantage_std, score.floor] if isinstance(score, AttackScore) else []
    return [score.mean, score.std, *score.values, *beside]


def _finite_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite_only(v) for k, v in value.items() if not _broken(v)}
    return [None if _broken(v) else _finite_only(v) for v in value] if isinstance(value, list) else value


def _broken(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def read_outcome(raw: Any) -> Outcome:
    """Read what a worker sent. What breaks the promise of an outcome becomes one that keeps it."""
    try:
        return clean(Outcome.model_validate(raw))
    except ValidationError as error:
        numbers = isinstance(raw, dict) and raw.get("outcome") == "ok"
        kind: OutcomeName = "diverged" if numbers and "finite" in str(error) else "error"
        first = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        return Outcome.failed(kind, first)
