"""Lists that may be written as their one entry: ``attacks: norm`` for ``attacks: [norm]``, ``tv: 0.1`` likewise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator

T = TypeVar("T")


def as_list(value: Any) -> Any:
    """Wrap a single name, number or mapping into a list; other values unchanged."""
    return [value] if isinstance(value, (str, int, float, Mapping)) else value


Listed = Annotated[tuple[T, ...], BeforeValidator(as_list)]
"""A parameter ``Listed[float]``: a tuple, read from a list or from a single entry."""


def absolute_paths(options: Mapping[str, Any]) -> list[str]:
    """Return the absolute paths among options and in their lists."""
    given = [value for option in options.values() for value in (option if isinstance(option, list) else [option])]
    return [value for value in given if isinstance(value, str) and Path(value).is_absolute()]
