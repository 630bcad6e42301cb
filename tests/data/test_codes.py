"""Codes stay what stands in the file: as classes, categories and ids, in every kind of file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.data.test_precision import read, write
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.check import examine
from tune_vfl.data.encode import Encoding, encode_column
from tune_vfl.data.reading.numbers import as_numbers
from tune_vfl.data.spellings import alike, spelling_note
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

CODES = {
    "17 digits": ["10000000000000000", "10000000000000001", "10000000000000002"],
    "exponents": ["1E50", "1E51", "2E50"],
    "leading zeros": ["00", "01", "1"],
    "underscores": ["10", "1_0", "100"],
    "other numerals": ["0x10", "16", "True"],
    "cases": ["Yes", "no", "yes"],
    "bytes": ["b'x'", "x", "yy"],
    "other digits": ["1", "\u0662", "3"],
    "nan-like": ["None", "?", "b"],
}


def labeled(folder: Path, labels: list[str], kind: str) -> Dataset:
    """Read rows with these labels from a file of a kind."""
    rng = np.random.default_rng(0)
    if kind in ("npz", "npz of bytes"):
        y = np.array(labels) if kind == "npz" else np.char.encode(np.array(labels))
        np.savez(folder / "a.npz", x=rng.random((len(y), 4, 4)), y=y)
        return load(Named.model_validate({"name": "npz", "path": str(folder / "a.npz")}))
    if kind == "images":
        for k, label in enumerate(labels):
            (folder / "im" / label).mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (4, 4), dtype=np.uint8)).save(folder / "im" / label / f"{k}.png")
        return load(Named.model_validate({"name": "images", "path": str(folder / "im")}))
    table = pd.DataFrame({"a": rng.normal(size=len(labels)), "t": np.arange(len(labels)), "y": labels})
    return read(write(folder, table, kind))


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined", "npz", "npz of bytes", "images"])
@pytest.mark.parametrize("codes", CODES)
def test_classes_are_named_as_in_the_file(tmp_path: Path, codes: str, kind: str) -> None:
    if (codes, kind) in {("nan-like", "images"), ("cases", "images")}:
        pytest.skip("a file system may refuse these names, or call two of them one")
    labels = [CODES[codes][k % 3] for k in range(36)]
    data = labeled(tmp_path, labels, kind)
    assert sorted(data.class_names) == sorted(CODES[codes])
    if kind != "images":  # its rows are in the order of the folders
        assert [data.class_names[k] for k in data.y.tolist()] == labels


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
@pytest.mark.parametrize("codes", [c for c in CODES if c not in {"nan-like"}])
def test_categories_are_named_as_in_the_file(tmp_path: Path, codes: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    cells = [CODES[codes][k % 3] for k in range(36)]
    data = read(write(tmp_path, pd.DataFrame({"a": rng.normal(size=36), "t": cells, "y": np.arange(36) // 18}), kind))
    assert data.passive[0].names == tuple(f"t={name}" for name in sorted(CODES[codes]))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.array([0.0, 1.0, 2_000_000.0]), ("0", "1", "2000000")),
        (np.array([10**16, 10**16 + 1, 3]), ("10000000000000000", "10000000000000001", "3")),
        (np.array([1e50, 2e50, 3.0]), ("1e+50", "2e+50", "3")),
        (np.array([True, False, True]), ("False", "True")),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_typed_labels(tmp_path: Path, values: np.ndarray, names: tuple[str, ...], kind: str) -> None:
    y = values[np.arange(36) % 3]
    if kind == "npz":
        np.savez(tmp_path / "a.npz", x=np.zeros((36, 4, 4)), y=y)
        data = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
    else:
        data = read(write(tmp_path, pd.DataFrame({"a": range(36), "t": range(36), "y": y}), kind))
    assert data.class_names == names


@pytest.mark.parametrize("y", [np.array([b"\xff", b"a"] * 8), np.arange(16).astype("M8[D]"), np.arange(16) * 1j])
def test_labels_of_an_npz_that_are_no_classes_are_refused(tmp_path: Path, y: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((16, 4, 4)), y=y)
    with pytest.raises(DataError, match=r"a\.npz: array 'y' (holds bytes|has type)"):
        load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined", "npz", "npz of bytes"])
def test_spellings_of_one_class_are_named_and_can_be_made_one(tmp_path: Path, kind: str) -> None:
    labels = ["Yes"] * 20 + ["yes"] * 5 + ["ye s"] * 4 + ["no"] * 20 + ["True"] * 3 + ["1"] * 4
    (note,) = [n for n in labeled(tmp_path, labels, kind).notes if "spelling" in n]
    assert note == (
        "classes that differ in spelling only: '1' (4 rows), 'True' (3 rows); 'Yes' (20 rows), 'yes' (5 rows), "
        "'ye s' (4 rows); where they are one class, paste this into `dataset`: classes: "
        '{"True": "1", "yes": "Yes", "ye s": "Yes"}'
    )


def test_the_mapping_to_paste_makes_them_one(tmp_path: Path) -> None:
    labels = ["Yes"] * 20 + ["yes"] * 5 + ["no"] * 20
    write(tmp_path, pd.DataFrame({"a": range(45), "t": range(45), "y": labels}), "csv")
    options: dict[str, object] = {"path": str(tmp_path / "t.csv"), "label": "y"}
    data = read(options | {"classes": {"yes": "Yes"}, "positive": "Yes"})
    assert data.class_names == ("no", "Yes")
    assert data.y.tolist() == [1] * 25 + [0] * 20
    assert not [n for n in data.notes if "spelling" in n]
    with pytest.raises(DataError, match="classes names label 'yess', which no row has"):
        read(options | {"classes": {"yess": "Yes"}})


def test_a_class_of_one_row_that_is_a_slip_is_refused_with_the_mapping(tmp_path: Path) -> None:
    labels = ["yes"] * 20 + ["YES"] + ["no"] * 20
    write(tmp_path, pd.DataFrame({"a": range(41), "t": range(41), "y": labels}), "csv")
    with pytest.raises(DataError, match=r'class \'YES\' has 1 row .*classes: \{"YES": "yes"\}'):
        read({"path": str(tmp_path / "t.csv"), "label": "y"})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("00712", "712"),
        ("1e+05", "100000"),
        ("ab ", "AB"),
        ("7.0", "7"),
        ("A\u00a0B", "AB"),
        ("1.50", "1.5"),
        ("+7", "7"),
        ("\uff17", "7"),
    ],
)
def test_ids_that_differ_in_spelling_only_are_named(tmp_path: Path, first: str, second: str) -> None:
    ids = [f"u{k}" for k in range(20)]
    pd.DataFrame({"i": [first, *ids], "t": range(21)}).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"i": [*ids, second], "y": [k % 2 for k in range(21)]}).to_csv(tmp_path / "q.csv", index=False)
    parties = {"p": {"path": str(tmp_path / "p.csv")}, "q": {"path": str(tmp_path / "q.csv"), "columns": []}}
    (note,) = [n for n in read({"id": "i", "label": "y", "parties": parties}).notes if "spelling" in n]
    assert (
        "1 ids differ in spelling only (leading zeros, case, blanks, punctuation, forms of numbers), such as "
        f"{first.strip()!r}" in note
    )
    assert f"for {second!r} in q.csv (q)" in note


@pytest.mark.parametrize("dotted", ["<=50K.", "'<=50K'", "<=50K;", "\u201c<=50K\u201d"])
def test_punctuation_makes_no_class_of_its_own(dotted: str) -> None:
    assert "differ in spelling only: '<=50K' (20 rows)" in spelling_note({"<=50K": 20, dotted: 7, ">50K": 9})
    assert (
        spelling_note({"1.5": 3, "15": 3, ".5": 3, "5": 3, "A": 3, "A+": 3, "A-": 3, ".": 3, "E11.9": 3, "E119": 3})
        == ""
    )


def test_ids_without_any_partner_say_why(tmp_path: Path) -> None:
    pd.DataFrame({"i": [f"{k:05}" for k in range(9)], "t": range(9)}).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"i": range(9), "y": [k % 2 for k in range(9)]}).to_csv(tmp_path / "q.csv", index=False)
    parties = {"p": {"path": str(tmp_path / "p.csv")}, "q": {"path": str(tmp_path / "q.csv")}}
    with pytest.raises(DataError, match="9 ids differ in spelling only"):
        read({"id": "i", "label": "y", "parties": parties})


def test_a_declared_number_may_have_zeros_and_long_ones_keep_their_distances() -> None:
    nanoseconds = [str(1_600_000_000_000_000_000 + k) for k in range(50)]
    plain = encode_column(pd.Series(nanoseconds), "c", "f.csv", Encoding(max_categories=64))
    declared = encode_column(pd.Series(nanoseconds), "c", "f.csv", Encoding(numeric=("c",)))
    assert (plain.kind, declared.kind) == ("category", "number")
    assert np.diff(declared.x[:, 0]).tolist() == [1.0] * 49
    zeros = encode_column(pd.Series(["007", "010"]), "c", "f.csv", Encoding(numeric=("c",)))
    assert zeros.x[:, 0].tolist() == [7.0, 10.0]


@settings(max_examples=200, deadline=None)
@given(
    st.floats(
        allow_nan=False, allow_infinity=False, max_value=1e15, min_value=-1e15, exclude_max=True, exclude_min=True
    )
)
def test_a_number_as_python_writes_it_is_one(value: float) -> None:
    assert as_numbers(pd.Series([repr(value)], dtype=str)).tolist() == [value]


@settings(max_examples=200, deadline=None)
@given(st.text("0123456789_eE+-. ", max_size=20))
def test_a_number_by_the_rule_is_one_for_python_and_no_code(text: str) -> None:
    (number,) = as_numbers(pd.Series([text], dtype=str))
    if np.isnan(number):
        return
    assert float(text) == number
    assert "_" not in text
    digits = text.lstrip("+-").lower().partition("e")[0].partition(".")[0]
    assert len(digits) <= 15
    assert digits in {"", "0"} or not digits.startswith("0")


def test_numbers_in_many_forms_are_numbers() -> None:
    forms = ["1", "-2", "+3", "0.5", ".5", "5.", "1e-05", "2.5E+3", "1.5E3", "-0"]
    assert encode_column(pd.Series(forms), "c", "f.csv", Encoding()).kind == "number"


def test_names_alike() -> None:
    names = ["a", "A ", "b", "1", "01", "1.0", "TRUE", "e\u0301", "\u00e9", "1_0", "10", "x_Y-z", "X y Z"]
    assert alike({name: k for k, name in enumerate(names)}) == (
        (("A ", 1), ("a", 0)),
        (("TRUE", 6), ("1.0", 5), ("01", 4), ("1", 3)),
        (("X y Z", 12), ("x_Y-z", 11)),
        (("\u00e9", 8), ("e\u0301", 7)),
    )


@pytest.mark.parametrize("codes", ["one_hot", "ordinal"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
def test_categories_that_differ_in_spelling_are_said_with_a_mapping_that_merges_them(
    tmp_path: Path, kind: str, codes: str
) -> None:
    cells = ["Rome", "rome", "ROME", "Bonn", "x", "Rome", "Bonn ", "B onn"] * 20
    table = pd.DataFrame({"a": range(160), "t": cells, "y": [k % 3 > 0 for k in range(160)]})
    options = {**write(tmp_path, table, kind), "codes": codes}
    facts = examine(read(options))
    (finding,) = [f for f in facts.findings if f.column == "t"]
    assert (finding.oddity, finding.exclude) == ("spellings", False)
    assert "'Bonn' (40 rows), 'B onn' (20 rows), and 1 more groups" in finding.why
    assert facts.categories == {"t": {"B onn": "Bonn", "ROME": "Rome", "rome": "Rome"}}
    note = "column 't' ('Bonn' (40 rows), 'B onn' (20 rows), and 1 more)"
    assert any("categories that differ in spelling only" in said and note in said for said in facts.notes)
    merged = read({**options, "categories": facts.categories})
    assert not examine(merged).categories
    if codes == "one_hot":
        assert merged.passive[0].names == ("t=Bonn", "t=Rome", "t=x")
        assert merged.passive[0].x.sum(0).tolist() == [60.0, 80.0, 20.0]


def test_one_mapping_merges_the_spellings_of_all_files_that_have_the_column(tmp_path: Path) -> None:
    """The most frequent spelling of one file is a rare one of another: both become the same."""
    cities = {"shop": ["Rome", "Rome", "rome", "Bonn"], "bank": ["ROME", "ROME", "Rome", "Paris"]}
    for party, cells in cities.items():
        own = {"y": [k % 3 > 0 for k in range(80)]} if party == "bank" else {}
        pd.DataFrame({"id": range(80), "city": cells * 20, **own}).to_csv(tmp_path / f"{party}.csv", index=False)
    parties = {party: {"path": str(tmp_path / f"{party}.csv")} for party in cities}
    options = {"id": "id", "label": "y", "parties": parties}
    facts = examine(read(options))
    assert facts.categories == {"city": {"ROME": "Rome", "rome": "Rome"}}
    merged = read({**options, "categories": facts.categories})
    assert [names for columns in merged.parties for names in columns.names] == [
        "city=Bonn", "city=Rome", "city=Paris", "city=Rome",
    ]  # fmt: skip
    with pytest.raises(
        DataError, match=r"shop.csv \(shop\), .*bank.csv \(bank\): categories names 'Roma' .* no row has"
    ):
        read({**options, "categories": {"city": {"Roma": "Rome"}}})


def test_a_proposed_mapping_holds_what_the_spec_merges_already(tmp_path: Path) -> None:
    cells = ["Roma", "Rome", "rome", "rome", "Bonn"] * 20
    table = pd.DataFrame({"a": range(100), "t": cells, "y": [k % 3 > 0 for k in range(100)]})
    options, before = write(tmp_path, table, "csv"), {"t": {"Roma": "Rome"}}
    facts = examine(read({**options, "categories": before}), merged=before)
    assert facts.categories == {"t": {"Roma": "Rome", "rome": "Rome"}}
    merged = read({**options, "categories": facts.categories})
    assert merged.passive[0].names == ("t=Bonn", "t=Rome")
    assert not examine(merged, merged=facts.categories).categories


def test_what_categories_name_must_be_there(tmp_path: Path) -> None:
    options = labeled_table(tmp_path)
    with pytest.raises(DataError, match=r"names 'RRome' of column 't', which no row has.* Did you mean 'Rome'"):
        read({**options, "categories": {"t": {"RRome": "Rome"}}})
    with pytest.raises(DataError, match=r"column 'u', listed as categories, is no party's feature"):
        read({**options, "categories": {"u": {"Rome": "rome"}}})


def labeled_table(folder: Path) -> dict[str, object]:
    cells = ["Rome", "rome"] * 20
    return write(folder, pd.DataFrame({"a": range(40), "t": cells, "y": [k % 3 > 0 for k in range(40)]}), "csv")


@pytest.mark.parametrize("values", [["A1", "A-1", "a2"], ["1_0", "10"], ["1E50", "1E51"], [str(k) for k in range(40)]])
def test_categories_and_numbers_that_differ_are_not_said_to_be_alike(values: list[str]) -> None:
    column = pd.Series([values[k % len(values)] for k in range(80)])
    assert all(note.what != "spelt" for note in encode_column(column, "c", "f.csv", Encoding()).notes)


def test_what_stands_out_of_codes_is_told(tmp_path: Path) -> None:
    codes = [f"{k:05}" for k in range(40)]
    write(tmp_path, pd.DataFrame({"a": range(40), "t": codes, "y": [k % 2 for k in range(40)]}), "csv")
    facts = examine(read({"path": str(tmp_path / "t.csv"), "label": "y"}))
    assert ("t", "identifier") in [(f.column, f.oddity) for f in facts.findings]
