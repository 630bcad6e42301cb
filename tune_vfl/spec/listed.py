"""Lists that may be written as their one entry: ``attacks: norm`` for ``attacks: [norm]``, ``tv: 0.1`` likewise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Return the absolute paths among options, in their lists and mappings too."""
    return [text for text in _texts(options) if Path(text).is_absolute()]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)
