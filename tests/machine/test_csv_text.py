"""A CSV of tune-vfl's has no cell that a spreadsheet takes for a formula, and its numbers stay numbers."""

import io
from pathlib import Path

import pandas as pd
import pytest

from tune_vfl.machine.csv_text import FORMULA, to_csv


def test_texts_that_begin_a_formula_are_texts() -> None:
    texts = ["=cmd|' /C calc'!A0", "+SUM(A1)", "-2+3", "@x", "\tx", "\rx", "x\r=1", "", None, "-1.5", "-inf", "é"]
    table = pd.DataFrame(
        {"=name": texts, "n": range(-1, len(texts) - 1), "x": [-0.5] * len(texts), "mixed": [-1] + ["-a"] * 11}
    )
    back = pd.read_csv(io.StringIO(to_csv(table)), keep_default_na=False, dtype=str)
    assert list(back.columns) == ["'=name", "n", "x", "mixed"]
    assert [value[0] for value in back["'=name"][:6]] == ["'"] * 6
    assert list(back["'=name"][6:]) == ["x\n=1", "", "", "-1.5", "-inf", "é"]
    assert list(back["n"])[:2] == ["-1", "0"]
    assert (set(back["x"]), set(back["mixed"])) == ({"-0.5"}, {"-1", "'-a"})
    assert table["=name"][0] == texts[0], "the frame itself is as it was"


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_whatever_the_kind_of_column(kind: str) -> None:
    table = pd.DataFrame({"a": pd.Series(["=1+1", "b"], dtype=kind)})
    assert to_csv(table) == "a\n'=1+1\nb\n"


def test_what_a_terminal_obeys_is_written_as_it_is_shown() -> None:
    table = pd.DataFrame({"\x1b[2J": ["a\x1b]52;c;x\x07b", "c\u202ed", "\x00=1", "e\tf\ng"]})
    assert to_csv(table) == '\\x1b[2J\na\\x1b]52;c;x\\x07b\nc\\u202ed\n\\x00=1\n"e\tf\ng"\n'


def test_a_plain_table_is_as_pandas_writes_it() -> None:
    table = pd.DataFrame({"a": [1.5, None], "b": ["x,y", 'q"'], "c": [True, False], "d": [[1], [2]]})
    assert to_csv(table) == table.to_csv(index=False)


def test_no_other_csv_is_written(pytestconfig: pytest.Config) -> None:
    root: Path = pytestconfig.rootpath
    shipped = [path for room in ("tune_vfl", "reports", "trainables") for path in (root / room).rglob("*.py")]
    writers = {path.name for path in shipped if ".to_csv(" in path.read_text() or "csv.writer" in path.read_text()}
    assert writers == {"csv_text.py"}
    assert len(FORMULA) == 6
