"""What a column looks like in its file: dates in many formats, identifiers, numbers as text; and what does not."""

from collections.abc import Iterable

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from tune_vfl.data.looks import LEAST_ROWS, Looks, as_written

ROWS = 400
RNG = np.random.default_rng(0)
DAYS = pd.Timestamp("2012-01-01") + pd.to_timedelta(RNG.integers(0, 4000, ROWS), unit="D")
FORMATS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%y", "%d-%m-%Y", "%Y%m%d", "%b-%Y", "%Y-%m", "%m/%Y", "%d %b %Y",
    "%B %d, %Y", "%d-%b-%y", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00", "%d/%m/%Y %I:%M %p", "%a, %d %b %Y",
)  # fmt: skip


def looks(values: Iterable[object], name: str = "c", missing: int = 0) -> Looks:
    texts = pd.Series([str(v) for v in values])
    gone = np.arange(len(texts)) < missing
    return as_written(texts, gone, name).looks


@pytest.mark.parametrize("form", FORMATS)
def test_dates(form: str) -> None:
    assert looks([day.strftime(form) for day in DAYS]) == "date"


def test_dates_in_several_formats_with_some_slips() -> None:
    mixed = [day.strftime(FORMATS[k % 12]) for k, day in enumerate(DAYS)]
    assert looks([*mixed, "unknown", "?"]) == "date"
    assert looks(mixed, missing=300) == "date"


def test_seconds_are_dates_where_the_name_says_so() -> None:
    seconds = (DAYS - pd.Timestamp("1970-01-01")) // pd.Timedelta(seconds=1)
    assert [looks(seconds * scale, "createdAt") for scale in (1, 1000, 10**6)] == ["date"] * 3
    assert looks(np.repeat(seconds[:200], 2), "balance") == ""


IDENTIFIERS = {
    "rows that are counted": (range(7, 7 + ROWS), "c"),
    "counted in another order": (RNG.permutation(ROWS), "c"),
    "with a name": (RNG.choice(10**6, ROWS, replace=False), "loanId"),
    "account numbers": (RNG.choice(np.arange(10**9, 10**10, 10**6), ROWS, replace=False), "c"),
    "keys": ([f"{v:032x}" for v in RNG.integers(0, 2**60, ROWS)], "c"),
    "addresses": ([f"u{k}@example.org" for k in range(ROWS)], "c"),
    "of customers with several rows": ([f"C{k:05d}" for k in RNG.integers(0, 150, ROWS)], "CUSTOMER_ID"),
    "numbers of customers with several rows": (RNG.integers(10**5, 10**5 + 150, ROWS), "customer id"),
}


@pytest.mark.parametrize(("values", "name"), IDENTIFIERS.values(), ids=IDENTIFIERS)
def test_identifiers(values: Iterable[object], name: str) -> None:
    assert looks(values, name) == "identifier"


PLAIN = {
    "amounts that all differ": (RNG.choice(10**6, ROWS, replace=False), "income"),
    "fractions": (RNG.normal(size=ROWS), "income"),
    "fractions that are called an id": (RNG.normal(size=ROWS), "id"),
    "ages": (RNG.integers(18, 90, ROWS), "age"),
    "years": (RNG.integers(1950, 2020, ROWS), "year"),
    "post codes": (RNG.integers(10000, 99999, ROWS), "zip"),
    "categories": (RNG.choice(["a", "b", "c"], ROWS), "kind"),
    "regions by id": (RNG.integers(0, 20, ROWS), "region_id"),
    "a word with id in it": (RNG.integers(0, 300, ROWS), "paid"),
    "ranges": (RNG.choice(["18-25", "26-40", "41-65"], ROWS), "age"),
    "terms": (RNG.choice(["36 months", "60 months"], ROWS), "term"),
    "one date": (["2020-01-01"] * ROWS, "day"),
    "few rows": (range(LEAST_ROWS - 1), "id"),
}


@pytest.mark.parametrize(("values", "name"), PLAIN.values(), ids=PLAIN)
def test_what_is_none_of_these(values: Iterable[object], name: str) -> None:
    assert looks(values, name) == ""


@pytest.mark.parametrize("form", ["$ {:,.2f}", "{:.2f}%", "{:.1f} kg", "€{:.0f}", "1.{:03.0f},50"])
def test_numbers_as_text(form: str) -> None:
    assert looks([form.format(v % 1000) for v in RNG.lognormal(5, 2, ROWS)]) == "numbers as text"


def test_numbers_with_a_word_among_them() -> None:
    assert looks(["n/k" if k % 30 == 0 else k % 300 for k in range(ROWS)]) == "numbers as text"


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.text(max_size=12), min_size=1, max_size=60), name=st.text(max_size=12), data=st.data())
def test_any_text_is_counted_as_it_stands(values: list[str], name: str, data: st.DataObject) -> None:
    missing = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    written = as_written(pd.Series(values, dtype=object), missing, name)
    known = [v for v, gone in zip(values, missing, strict=True) if not gone]
    assert written.distinct == len(set(known))
    most = max([known.count(v) for v in known] + [int(missing.sum())])
    assert written.common == most / len(values)
