"""Columns of a table as numbers: encodings against a naive twin, codes, slips, and the notes on them."""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
from hypothesis import given, settings

from tune_vfl.data.column_notes import Note, grouped
from tune_vfl.data.encode import Encoding, encode_column
from tune_vfl.data.reading.marks import MISSING, is_mark
from tune_vfl.data.reading.numbers import as_numbers

quick = settings(max_examples=60, deadline=None)


def naive_encoding(values, most):
    """Column names and a list of rows, one value at a time, numbers as they are and anything else one-hot."""
    known = [v for v in values if v not in MISSING]
    try:
        numbers = {v: float(v) for v in known}
    except ValueError:
        numbers = None
    if numbers is not None:
        if len(known) == len(values):
            return ["c"], [[numbers[v]] for v in values]
        return ["c", "c=missing"], [[numbers[v], 0.0] if v in numbers else [np.nan, 1.0] for v in values]
    by_count = sorted(set(known), key=lambda v: (-known.count(v), v))
    kept = by_count if len(by_count) <= most else by_count[: most - 1]
    labels = ["missing" if v in MISSING else v if v in kept else "other" for v in values]
    names = sorted(set(labels))
    return [f"c={n}" for n in names], [[float(label == n) for n in names] for label in labels]


@quick
@given(
    values=st.lists(st.sampled_from(["1", "2.5", "-3e2", "", "NA", "a", "b", "bb", "ccc", "other", "?"]), min_size=1),
    most=st.integers(2, 5),
)
def test_encoding_equals_its_naive_twin(values, most):
    block = encode_column(pd.Series(values), "c", "f.csv", Encoding(max_categories=most))
    names, rows = naive_encoding(values, most)
    assert list(block.names) == names
    np.testing.assert_array_equal(block.x, np.array(rows, dtype=np.float32))
    assert list(block.scaled) == [n == "c" for n in names]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(st.text(max_size=8), st.sampled_from(["1", "-2.5", "007", "1E5", "-", ".", "\\N"])),
        min_size=1,
        max_size=12,
    )
)
def test_no_value_of_any_column_is_lost_or_changed(cells):
    """Whatever stands in a column: it is a number of that value, a category of that name, or missing and marked."""
    column = pd.Series([cell.strip() for cell in cells], dtype=str)
    if np.isinf(as_numbers(column)).any():
        return
    block = encode_column(column, "c", "f.csv", Encoding(max_categories=64))
    for row, cell in enumerate(column):
        seen = dict(zip(block.names, block.x[row].tolist(), strict=True))
        if block.kind == "number":
            missing = cell in MISSING or bool(is_mark(pd.Series([cell], dtype=str))[0])
            assert seen.get("c=missing", 0.0) == float(missing)
            assert np.isnan(seen["c"]) == missing
        else:
            named = "missing" if cell in MISSING else cell
            assert [name for name, value in seen.items() if value] == [f"c={named}"]


@quick
@given(values=st.lists(st.sampled_from(["x", "y", "zz", "q"]), min_size=1))
def test_ordinal_codes_are_alphabetic(values):
    block = encode_column(pd.Series(values), "c", "f.csv", Encoding(codes="ordinal"))
    assert block.x[:, 0].tolist() == [sorted(set(values)).index(v) for v in values]
    assert block.scaled == (True,)


def test_ordinal_missing_is_marked():
    block = encode_column(pd.Series(["b", "", "a"]), "c", "f.csv", Encoding(codes="ordinal"))
    assert block.names == ("c", "c=missing")
    np.testing.assert_array_equal(block.x, [[1, 0], [np.nan, 1], [0, 0]])


def test_a_slip_in_a_numeric_column_is_told():
    block = encode_column(pd.Series(["1", "2", "3", "4,5"]), "age", "f.csv", Encoding())
    assert grouped(block.notes) == [
        "no numbers among numbers, so that all values are categories: column 'age' (1 of 4, such as '4,5')"
    ]


def test_notes_of_many_columns_are_grouped():
    notes = [Note("missing", f"c{k}", f"{k} of 9 rows") for k in range(8)]
    (many, missing) = reversed(grouped([*notes, Note("many", "city", "467 values")]))
    assert many == "many categories, of which the rarer ones share 'other': column 'city' (467 values)"
    assert missing.startswith("missing numbers, set to the training mean and marked: 8 columns: 'c0' (0 of 9 rows), ")
    assert missing.endswith("'c2' (2 of 9 rows), and 5 more")
    assert grouped([]) == []
