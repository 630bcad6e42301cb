"""Odd inputs: each is read right, or refused or told of by name; nothing is read wrong silently."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from tests.helpers.odd_inputs import Odd, odd_inputs
from tune_vfl.data.encode import Encoding, encode_column
from tune_vfl.data.reading.marks import MISSING, is_mark
from tune_vfl.data.reading.numbers import as_numbers

ODD = list(odd_inputs())


def test_there_are_more_than_a_hundred() -> None:
    assert len(ODD) > 100
    assert len({(odd.kind, odd.name) for odd in ODD}) == len(ODD)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd.kind}: {odd.name}")
def test_an_odd_input_is_read_right_or_named(odd: Odd) -> None:
    assert odd.outcome() in {"right", "told", "refused"}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(st.text(max_size=8), st.sampled_from(["1", "-2.5", "007", "1E5", "-", ".", "\\N"])),
        min_size=1,
        max_size=12,
    )
)
def test_no_value_of_any_column_is_lost_or_changed(cells: list[str]) -> None:
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
