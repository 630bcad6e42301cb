"""Separators and encodings of text files, said by the options or asked for by the refusal; and long fields."""

import csv
import gzip
import re
from pathlib import Path

import pandas as pd
import pytest

from tests.data.test_precision import read
from tests.data.test_precision import write as write_table
from tune_vfl.data.base import Dataset
from tune_vfl.data.check import examine
from tune_vfl.errors import DataError

ROWS = [("größe", "ort", "y"), *[(str(k), ("Łódź", "Köln")[k % 2], str(k // 6)) for k in range(12)]]
WEST = [tuple(cell.replace("Ł", "L").replace("ź", "z") for cell in row) for row in ROWS]


def write(path: Path, separator: str, encoding: str, rows: list[tuple[str, ...]]) -> dict[str, object]:
    content = "".join(separator.join(row) + "\n" for row in rows).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return {"path": str(path), "label": "y", "parties": {"p": ["größe"], "active": ["ort"]}}


def names(data: Dataset) -> tuple[str, ...]:
    assert data.active is not None
    assert data.passive[0].x.flatten().tolist() == list(range(12))
    return data.active.names


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "^", ":", "\x01", "~"])
def test_separators(tmp_path: Path, separator: str) -> None:
    options = write(tmp_path / "a.csv", separator, "utf-8", ROWS)
    assert names(read(options | {"separator": separator})) == ("ort=Köln", "ort=Łódź")
    if separator not in ",;\t":
        with pytest.raises(DataError, match="set `separator`"):
            read({"path": str(tmp_path / "a.csv"), "label": "y"})
        if separator != " ":
            (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text().replace("Köln", "a,b"))
            with pytest.raises(DataError, match=re.escape(f"set `separator` to {separator!r}")):
                read({"path": str(tmp_path / "b.csv"), "label": "y"})
        with (tmp_path / "a.csv").open("a") as file:
            file.write("a decimal 4,5\n")
        with pytest.raises(DataError, match=r"line 14 has 2 fields where 1 columns .* set `separator`"):
            read({"path": str(tmp_path / "a.csv"), "label": "y"})


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "cp1250", "iso8859-2", "gb18030"])
def test_encodings(tmp_path: Path, encoding: str, name: str) -> None:
    options = write(tmp_path / name, ",", encoding, ROWS)
    assert names(read(options | {"encoding": encoding})) == ("ort=Köln", "ort=Łódź")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_western_text_is_refused_as_utf_8_with_the_option_that_helps(tmp_path: Path, encoding: str) -> None:
    options = write(tmp_path / "a.csv", ";", encoding, WEST)
    with pytest.raises(DataError, match=r"is not UTF-8 text .*`encoding`, such as cp1252"):
        read(options)
    assert names(read(options | {"encoding": encoding})) == ("ort=Köln", "ort=Lódz")


def test_utf_16_is_refused_with_the_option_that_helps(tmp_path: Path) -> None:
    options = write(tmp_path / "a.csv", ",", "utf-16", ROWS)
    with pytest.raises(DataError, match="`encoding`, such as cp1252 or utf-16"):
        read(options)


def test_an_encoding_that_the_file_has_not_is_refused_by_its_name(tmp_path: Path) -> None:
    options = write(tmp_path / "a.csv", ",", "utf-8", ROWS)
    with pytest.raises(DataError, match=r"a\.csv: is (not ascii text|no text of)"):
        read(options | {"encoding": "ascii"})
    with pytest.raises(DataError, match=r"a\.csv: is (not utf-16|no text of)"):
        read(options | {"encoding": "utf-16"})


def test_each_party_s_file_has_its_own_form(tmp_path: Path) -> None:
    with_ids = [(("i", str(k - 1))[k > 0], *row) for k, row in enumerate(ROWS)]
    write(tmp_path / "p.csv", "|", "cp1250", [row[:2] for row in with_ids])
    write(tmp_path / "q.csv", ";", "utf-16", [(row[0], *row[2:]) for row in with_ids])
    parties = {
        "p": {"path": str(tmp_path / "p.csv"), "separator": "|"},
        "q": {"path": str(tmp_path / "q.csv"), "encoding": "utf-16"},
    }
    data = read({"id": "i", "label": "y", "parties": parties, "encoding": "cp1250"})
    assert names(data) == ("ort=Köln", "ort=Łódź")


def commas(values: list[str], kind: str, folder: Path) -> dict[str, object]:
    n = 5 * len(values)
    table = pd.DataFrame({"a": range(n), "t": values * 5, "y": [k // len(values) % 2 for k in range(n)]})
    return write_table(folder, table, kind)


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
@pytest.mark.parametrize("values", [["0,5", "1,25", "2", "-3,0", ",5", "7,"], [f"{k},{k}" for k in range(50)]])
def test_decimal_commas_are_said_and_read_by_the_option(tmp_path: Path, values: list[str], kind: str) -> None:
    options = commas(values, kind, tmp_path)
    data = read(options)
    facts = examine(data)
    assert [f.oddity for f in facts.findings if f.column == "t"] == ["decimal commas"]
    (note,) = [said for said in data.notes if said.startswith("numbers with decimal commas")]
    assert 'decimal: ","' in note
    assert f"of {5 * len(values)}, such as {values[0]!r}" in note
    assert not any("no numbers among numbers" in said for said in data.notes)
    read_right = read({**options, "decimal": ","})
    assert read_right.passive[0].x.flatten().tolist() == pytest.approx([float(v.replace(",", ".")) for v in values * 5])
    assert not any("comma" in said for said in read_right.notes)


@pytest.mark.parametrize(
    ("values", "oddity"),
    [
        (["1,200", "3,400", "12,000"], "numbers as text"),
        (["1,2", "1,2,3", "2"], ""),
        (["a,b", "1,5"], ""),
        (["1,5"], ""),
        (["0,5", "0.5"], ""),
    ],
)
def test_what_else_has_commas_is_not_said_to_have_decimal_ones(tmp_path: Path, values: list[str], oddity: str) -> None:
    facts = examine(read(commas([*values, *values], "csv", tmp_path)))
    found = {f.oddity for f in facts.findings if f.column == "t"} & {"decimal commas", "numbers as text"}
    assert found == ({oddity} if oddity else set())


def test_the_decimal_sign_counts_for_labels_and_times_and_spares_texts(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"a": [f"{k},5" for k in range(40)], "b": ["x,1", "a"] * 20, "y": [f"{k},25" for k in range(40)]}
    )
    table.to_csv(tmp_path / "t.csv", index=False, sep=";")
    data = read({
        "path": str(tmp_path / "t.csv"), "label": {"column": "y", "above": 9.5}, "decimal": ",",
        "parties": {"p": ["a"], "active": ["b"]},
    })  # fmt: skip
    assert data.y.sum() == 30
    assert data.passive[0].x.flatten().tolist() == [k + 0.5 for k in range(40)]
    assert data.active is not None
    assert data.active.names == ("b=a", "b=x,1")


def test_a_long_text_is_a_field(tmp_path: Path) -> None:
    limit = csv.field_size_limit(100)
    try:
        rows = [("größe", "ort", "y"), *[(str(k), "x" * 200_000 if k == 3 else "s", str(k // 6)) for k in range(12)]]
        assert len(names(read(write(tmp_path / "a.csv", ",", "utf-8", rows)))) == 2
    finally:
        csv.field_size_limit(limit)
