"""The format of a column in its file: an identifier, dates, or numbers written as text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tune_vfl.data.spellings import Spelt, alike

if TYPE_CHECKING:
    import pandas as pd

Looks = Literal["", "identifier", "date", "decimal commas", "numbers as text"]

LEAST_ROWS = 20
"""With fewer known values, that all differ says little."""
MOSTLY = 0.95
"""A column looks like something when this share of its different values does."""
_SAMPLE = 200
_FEW = 32
_MOST_CATEGORIES = 2_000
# An identifier of something else, such as a customer with several loans, repeats; but has more values than a category.
_REPEATED = 0.02

_TIME = r"(?:[T ]+\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:[AaPp]\.?[Mm]\.?)?\s*(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_YEAR = r"(?:19|20)\d{2}"
_WITHOUT_SEPARATORS = rf"{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_DIGITS = re.compile(_WITHOUT_SEPARATORS)
_DATE = re.compile(
    "|".join(
        (
            rf"\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}{_TIME}",
            rf"\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}}){_TIME}",
            rf"{_WITHOUT_SEPARATORS}{_TIME}",
            rf"{_YEAR}[-/](?:0?[1-9]|1[0-2])|(?:0?[1-9]|1[0-2])[-/]{_YEAR}",
            rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.)?[ -]?)?{_MONTH}[ ,-]*(?:\d{{4}}|'?\d{{2}}){_TIME}",
            rf"{_MONTH}[ -]\d{{1,2}}(?:st|nd|rd|th)?,? *\d{{4}}{_TIME}",
            rf"{_YEAR}[ -]{_MONTH}[ -]\d{{1,2}}{_TIME}",
            r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? .*\d{4}.*",
        )
    ),
    re.IGNORECASE,
)
_SECONDS = re.compile(r"[01]\d{9}(?:\d{3}){0,3}(?:\.\d+)?")
_DECORATED = re.compile(r"[^\w\s.,+-]{0,2}\s*[+-]?\s*(?:\d{1,3}(?:[.,' ]\d{3})+|\d+)(?:[.,]\d+)?\s*[^\W\d_]{0,4}\W?")
_COMMAS = re.compile(r"[+-]?(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ID_WORDS = frozenset({"id", "ids", "uuid", "guid", "iban", "ssn", "email", "mail", "phone", "imei", "pan"})
_COUNT_WORDS = frozenset({"no", "nr", "num", "number", "key", "index", "idx", "row", "ref", "code", "account"})
_WHO_WORDS = frozenset({
    "customer", "client", "patient", "user", "person", "member", "subject", "household", "account", "borrower",
    "employee", "student", "driver", "card", "device", "session", "participant", "respondent", "applicant",
    "policyholder", "kunde", "kunden", "kundennummer", "kundennr", "cust", "holder",
})  # fmt: skip
_TIME_WORDS = frozenset({"time", "timestamp", "date", "ts", "at", "epoch", "created", "updated", "opened", "closed"})


@dataclass(frozen=True)
class Written:
    """A column as written in the file.

    Attributes:
        distinct: how many different known values it has.
        common: the share of the rows that have the most frequent value; missing ones count as one value.
        looks: the format of its values; empty for plain numbers and categories.
        slips: the values that make categories of a column that is mostly numbers, with their rows; empty for others.
        spelt: groups of categories that differ in spelling only, with their rows, the most frequent spelling first.
    """

    distinct: int
    common: float
    looks: Looks = ""
    # Equal columns in another order of the rows are equal.
    slips: str = field(default="", compare=False)
    spelt: tuple[Spelt, ...] = ()


def as_written(
    values: pd.Series[Any], missing: np.ndarray[Any, np.dtype[np.bool_]], name: str, *, categories: bool = False
) -> Written:
    """Look at a column of text.

    Args:
        values: ``(N,)`` texts, N at least 1.
        missing: ``(N,)`` where there is no value.
        name: the column's name, which decides where the values leave it open: numbers that count, seconds since 1970.
        categories: whether its values are categories, whose spellings are compared unless there are thousands.
    """
    import pandas as pd

    known = values.to_numpy(dtype=object)
    codes, found = pd.factorize(known[~missing] if missing.any() else known)
    counts = np.bincount(codes, minlength=1)
    most = max(int(counts.max()), int(missing.sum()))
    texts: list[str] = found.tolist()
    compared = texts if categories and len(texts) <= _MOST_CATEGORIES else []
    spelt = alike(dict(zip(compared, counts.tolist(), strict=False)))
    return Written(len(texts), most / len(values), _looks(texts, int((~missing).sum()), name), spelt=spelt)


def _looks(texts: list[str], rows: int, name: str) -> Looks:
    words = {word.lower() for word in _WORDS.findall(name)}
    sample = texts[:_SAMPLE]
    numeric = bool(sample) and all(_number(text) is not None for text in sample)
    # Of the dates those alone are numbers that have no separators.
    if _mostly(_DIGITS if numeric else _DATE, sample) or (words & _TIME_WORDS and _mostly(_SECONDS, sample)):
        return "date"
    if not numeric:
        commas = [text for text in sample if "," in text]
        if len(commas) > 1 and _mostly(_COMMAS, sample):
            # A single one is a slip. And 1,200 may be twelve hundred.
            return "numbers as text" if all(map(_THOUSANDS.fullmatch, commas)) else "decimal commas"
        if len(texts) > _FEW and _mostly(_DECORATED, sample):
            return "numbers as text"
    return "identifier" if _is_identifier(texts, rows, words, numeric=numeric) else ""


def _mostly(pattern: re.Pattern[str], texts: list[str]) -> bool:
    # A single value says nothing of a format: a version may look like a date.
    missed = 0
    for text in texts:
        missed += not pattern.fullmatch(text)
        if len(texts) - missed < MOSTLY * len(texts):
            return False
    return len(texts) > 1


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_identifier(texts: list[str], rows: int, words: set[str], *, numeric: bool) -> bool:
    if rows < LEAST_ROWS:
        return False
    # A name of nothing but whose it is: customer_no, and not customer_age.
    whose = bool(words & _WHO_WORDS) and words <= _WHO_WORDS | _ID_WORDS | _COUNT_WORDS | {"name", "nummer"}
    if (whose or words & _ID_WORDS) and len(texts) > max(_FEW, _REPEATED * rows) and not has_fractions(texts):
        return True
    if len(texts) < MOSTLY * rows:
        return False
    if not numeric:
        return True
    if has_fractions(texts) or len(texts) < rows:
        return False
    # Whole numbers that all differ may be amounts. Those that count rows, or have a name or a fixed length as
    # identifiers do, are none.
    numbers = [float(text) for text in texts]
    counts = max(numbers) - min(numbers) < 2 * rows
    lengths = {len(text.removesuffix(".0")) for text in texts}
    return counts or bool(words & _COUNT_WORDS) or (len(lengths) == 1 and min(lengths) >= 8)


def has_fractions(texts: list[str]) -> bool:
    """Return whether a number with decimals is among the first 200 texts."""
    return any((number := _number(text)) is not None and not number.is_integer() for text in texts[:_SAMPLE])
