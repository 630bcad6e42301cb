"""Plain data: a strict reader of JSON from others, and numbers in few digits."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from pydantic_core import from_json

MOST_DIGITS = 250
"""Digits of a whole number: one that has no more is within the range of a float."""
_CUT = 40


def load_plain(text: str) -> Any:
    """Parse JSON strictly.

    Raises:
        ValueError: in words, when it is no JSON, nests deeper than 200 levels, gives a key twice in one object, or
            holds NaN, infinity, a number beyond the range of a float, or half of a surrogate pair.
    """
    from_json(text)  # ends at 200 levels, where Python's own reader ends with the stack
    return json.loads(text, object_pairs_hook=_once, parse_int=_whole, parse_float=_finite, parse_constant=_refused)


def rounded(value: Any, but: Collection[str] = ()) -> Any:
    """Round the numbers of plain data to six digits, the resolution of a figure; keys in ``but`` keep their values."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: one if key in but else rounded(one, but) for key, one in value.items()}
    return [rounded(one, but) for one in value] if isinstance(value, (list, tuple)) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:_CUT]!r} is given twice in one object")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"expected a number of at most {MOST_DIGITS} digits, got {len(digits):,}")
    return int(digits)


def _finite(number: str) -> float:
    found = float(number)
    if math.isinf(found):
        raise ValueError(f"expected a number below 1.8e308, got {number[:_CUT]}")
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
