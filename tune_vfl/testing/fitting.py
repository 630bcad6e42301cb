"""Parameters for the contract of a defense: those that fit a case, and others of the same structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import ValidationError

from tune_vfl.defenses.base import Defense
from tune_vfl.spec import Strict
from tune_vfl.testing.gradients import Case


def allows(defense: type[Defense], case: Case) -> bool:
    """Return whether the defense's capabilities allow this many classes."""
    return defense.capabilities.classes == "any" or case.num_classes == 2


def fitting(defense: type[Defense], case: Case) -> Strict:
    """Return quick parameters, the defaults for most, whole numbers lowered and choices changed until they fit."""
    params = defense.Params(**defense.quick)
    for name, value in params.model_dump().items():
        others: Sequence[Any] = get_args(defense.Params.model_fields[name].annotation)
        if isinstance(value, int) and not isinstance(value, bool):
            others = range(value, 0, -1)
        if _problems(defense, params, case):
            tried = (_changed(defense, params, name, other) for other in others)
            params = next((p for p in tried if p is not None and not _problems(defense, p, case)), params)
    assert not _problems(defense, params, case)
    return params


def _problems(defense: type[Defense], params: Strict, case: Case) -> list[str]:
    return defense.problems(params, num_classes=case.num_classes, mode=case.mode_for(defense.capabilities.modes))


def _changed(defense: type[Defense], params: Strict, name: str, value: Any) -> Strict | None:
    try:
        return defense.Params.model_validate({**params.model_dump(), name: value})
    except ValidationError:
        return None


def other(defense: type[Defense], case: Case) -> Strict:
    """Return parameters of the same structure whose numbers differ from the default where they may."""
    params = fitting(defense, case)
    for name, value in params.model_dump().items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            half = _changed(defense, params, name, value / 2 if isinstance(value, float) else value - 1)
            if half is not None and defense.structure(half) == defense.structure(params):
                params = params if _problems(defense, half, case) else half
    return params
