"""A published number as a paper prints it: mean, deviation, range, and the last digit that it is known to."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"(-?\d*\.?\d+)"
_FORM = re.compile(rf"{_NUMBER}(?:\s*±\s*{_NUMBER})?(?:\s*\({_NUMBER} to {_NUMBER}\))?")


@dataclass(frozen=True)
class PublishedNumber:
    """A number of a published table, in the unit of the library: shares and AUCs, never percent.

    Attributes:
        text: as the paper prints it.
        mean: over the paper's repeats.
        std: deviation over the repeats; None where the paper gives none.
        low, high: worst and best repeat; None where the paper gives none.
        rounding: half a unit of the last printed digit of the mean.
    """

    text: str
    mean: float
    std: float | None = None
    low: float | None = None
    high: float | None = None
    rounding: float = 0.0


def read_published(text: str, *, percent: bool = False) -> PublishedNumber:
    """Read ``.93``, ``.56±.04`` or ``.93 (.91 to .95)``.

    Args:
        text: the number as printed.
        percent: the paper prints percent.

    Raises:
        ValueError: for another form.

    >>> read_published("38.5±.2", percent=True).mean
    0.385
    """
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise ValueError(f"expected a number such as .93, .56±.04 or '.93 (.91 to .95)', or '-', got {text!r}")
    unit = 100.0 if percent else 1.0
    mean, std, low, high = (None if part is None else float(part) / unit for part in found.groups())
    digits = len(found[1].partition(".")[2])
    return PublishedNumber(text.strip(), mean or 0.0, std, low, high, 0.5 * 10.0**-digits / unit)
