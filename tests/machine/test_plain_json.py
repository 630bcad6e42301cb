"""JSON of strangers: what two readers could take differently, or one never ends with, is refused in words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.machine.plain_json import MOST_DIGITS, load_plain

REFUSED = {
    "brackets": ("[" * 100_000, "recursion limit"),
    "objects": ('{"a":' * 900 + "1" + "}" * 900, "recursion limit"),
    "digits": ("9" * 5000, "out of range"),
    "fewer digits": ("9" * (MOST_DIGITS + 1), "at most 250 digits, got 251"),
    "an exponent": ("-1e999", "below 1.8e308, got -1e999"),
    "NaN": ("NaN", "NaN is no number of JSON"),
    "infinity": ("-Infinity", "-Infinity is no number of JSON"),
    "a key twice": ('[{"a": {"b": 1, "c": 2, "b": 1}}]', "key 'b' is given twice in one object"),
    "half a pair": ('"\\ud800"', "hex escape"),
    "nothing": ("", "EOF"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_writer_of_json_means_is_refused(case: str) -> None:
    text, said = REFUSED[case]
    with pytest.raises(ValueError, match=said) as error:
        load_plain(text)
    assert len(str(error.value)) < 200


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**30), 10**30)
        | st.floats(allow_nan=False, allow_infinity=False)
        # half of a surrogate pair is no text
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    )
)
def test_everything_else_is_what_python_reads(value: Any) -> None:
    assert load_plain(json.dumps(value)) == json.loads(json.dumps(value)) == value
