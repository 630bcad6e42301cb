"""Missing values as programs and people write them: counted among numbers, and slips named first."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import Run
from tests.data.test_codes import labeled
from tests.data.test_precision import read, write
from tune_vfl.data import load
from tune_vfl.data.check import examine
from tune_vfl.data.column_notes import grouped
from tune_vfl.data.encode import Encoding, encode_column
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

MARKS = ["\\N", ".", "-", "?", "#NULL!", "#DIV/0!", "NaT", "-1.#IND", "None", "n/a", "N.A.", "--", "\u2014", "Unknown"]
MARKS += [
    "N/A",
    "none",
    "n.a.",
    "[NULL]",
    "#VALUE!",
    ".A",
    "(null)",
    "NULL",
    "<NA>",
    "1.#QNAN",
    "missing",
    "*",
    "..",
    "-nan",
    "nan",
]
FILES = ["csv", "parquet", "joined"]


def table(mark: str, *, share: int = 20) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=200).round(3)
    cells = [mark if k % share == 3 else str(v) for k, v in enumerate(numbers)]
    return pd.DataFrame({"a": rng.normal(size=200), "t": cells, "y": (numbers > 0).astype(int)})


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_among_numbers_is_missing_and_counted(tmp_path: Path, mark: str, kind: str) -> None:
    data = read(write(tmp_path, table(mark), kind))
    (source,) = data.passive[0].sources
    assert (source.kind, source.width) == ("number", 2)
    assert np.isnan(data.passive[0].x[:, 0].numpy()).nonzero()[0].tolist() == list(range(3, 200, 20))
    notes = " ".join(data.notes)
    assert "missing numbers, set to the training mean and marked: column 't' (10 of 200 rows)" in notes
    if mark not in (
        "?",
        "None",
        "n/a",
        "N/A",
        "NULL",
        "<NA>",
        "nan",
        "\\N",
        "#NULL!",
        "#DIV/0!",
        "NaT",
        "-1.#IND",
        "#VALUE!",
    ):
        known = mark in ("(null)", "[NULL]", "1.#QNAN", "-nan")
        assert known or f"marks of a missing value among numbers: column 't' (10 of 200 rows: {mark!r})" in notes


def test_several_marks_are_counted_together() -> None:
    block = encode_column(pd.Series(["1", ".", "2", "-", "", "3", "."]), "c", "f.csv", Encoding())
    assert grouped(block.notes) == [
        "marks of a missing value among numbers: column 'c' (3 of 7 rows: '.', '-')",
        "missing numbers, set to the training mean and marked: column 'c' (4 of 7 rows)",
    ]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["A", "-", "B"], ("c=-", "c=A", "c=B")),
        (["+", "-", "."], ("c=+", "c=-", "c=.")),
        (["-", "-", "."], ("c=-", "c=.")),
        (["1", "x", "-"], ("c=-", "c=1", "c=x")),
        (["A", "\\N", "B"], ("c=A", "c=B", "c=missing")),
    ],
)
def test_elsewhere_a_sign_is_a_category(cells: list[str], names: tuple[str, ...]) -> None:
    assert encode_column(pd.Series(cells), "c", "f.csv", Encoding()).names == names


def test_a_column_listed_as_categorical_keeps_its_signs() -> None:
    block = encode_column(pd.Series(["1", "-", "2"]), "c", "f.csv", Encoding(categorical=("c",)))
    assert block.names == ("c=-", "c=1", "c=2")


@pytest.mark.parametrize("kind", FILES)
def test_marks_of_the_user(tmp_path: Path, kind: str) -> None:
    options = write(tmp_path, table("-999.0"), kind)
    assert np.isnan(read(options).passive[0].x.numpy()).sum() == 0
    data = read(options | {"missing": ["-999", "gone"]})
    assert data.passive[0].names == ("t", "t=missing")
    assert np.isnan(data.passive[0].x[:, 0].numpy()).sum() == 10
    data = read(write(tmp_path, table("weg"), kind) | {"missing": "weg"})
    assert data.passive[0].names == ("t", "t=missing")


@pytest.mark.parametrize("kind", [*FILES, "npz", "npz of bytes"])
@pytest.mark.parametrize("mark", ["\\N", ".", "-", "#NULL!", "None", "NaT", "?"])
def test_a_mark_among_labels_that_are_numbers_is_no_class(tmp_path: Path, mark: str, kind: str) -> None:
    with pytest.raises(DataError, match=r"is missing in 12 of 36 rows \(first in row 3: "):
        labeled(tmp_path, ["0", "1", mark] * 12, kind)


def test_a_mark_of_the_user_is_no_class(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((36, 4, 4)), y=np.array(["a", "b", "gone"] * 12))
    with pytest.raises(DataError, match="is missing in 12 of 36 rows"):
        load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz"), "missing": ["gone"]}))


@pytest.mark.parametrize(
    "slips", [("4,5", "12abc"), ("$7", "1_000"), ("O.5", "\u22125"), ("1 234", "1.2.3"), ("~3", "7%")]
)
@pytest.mark.parametrize("kind", FILES)
def test_a_column_that_a_slip_made_categories_is_named_first_with_its_rows(
    tmp_path: Path, kind: str, slips: tuple[str, str]
) -> None:
    frame = table("")
    frame.loc[[16, 50], "t"] = slips
    frame["a"] = frame["y"]  # tells the label, which would stand first otherwise
    facts = examine(read(write(tmp_path, frame, kind)))
    assert [(f.oddity, f.column) for f in facts.findings][:2] == [("slips", "t"), ("tells the label", "a")]
    # The file of party p of joined ones is upside down.
    rows = (200 - 50, 200 - 16) if kind == "joined" else (17, 51)
    first, second = slips[::-1] if kind == "joined" else slips
    assert f" for {first!r} in row {rows[0]}, {second!r} in row {rows[1]}: correct them" in facts.findings[0].why


def test_slips_stand_above_the_columns_on_the_screen(tmp_path: Path, run: Run) -> None:
    frame = table("x1", share=100)
    frame.to_csv(tmp_path / "a.csv", index=False)
    where = [f"dataset.path={tmp_path / 'a.csv'}", "dataset.label=y"]
    code, out, _ = run("data", "check", "-d", "csv", "--set", where[0], "--set", where[1])
    assert code == 0
    said = "column 't': numbers that are read as categories for 'x1' in row 4, 'x1' in row 104: correct them"
    assert said in " ".join(out.split())
    assert out.index("column 't': numbers") < out.index("what stands out")


def test_a_declared_number_may_have_marks() -> None:
    block = encode_column(pd.Series(["1", "-", "2"]), "c", "f.csv", Encoding(numeric=("c",)))
    assert block.names == ("c", "c=missing")
    with pytest.raises(DataError, match="declared numeric, but holds 'x' in row 2"):
        encode_column(pd.Series(["1", "x", "2"]), "c", "f.csv", Encoding(numeric=("c",)))


def test_marks_among_ids_and_clients(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("i,a\n" + "".join(f"{k},{k}\n" for k in range(10)) + "\\N,99\ngone,98\n")
    (tmp_path / "q.csv").write_text("i,y\n" + "".join(f"{k},{k % 2}\n" for k in range(10)) + "\\N,1\ngone,1\n")
    parties = {name: {"path": str(tmp_path / f"{name}.csv")} for name in "pq"}
    data = read({"id": "i", "label": "y", "parties": parties, "missing": ["gone"]})
    assert data.passive[0].x.flatten().tolist() == list(range(10))
    (tmp_path / "c.csv").write_text(
        "a,w,y\n" + "".join(f"{k},{'uv'[k % 2]},{k // 5}\n" for k in range(10)) + "1,gone,1\n"
    )
    with pytest.raises(DataError, match=r"client column 'w': is missing in 1 of 11 rows"):
        read({"path": str(tmp_path / "c.csv"), "label": "y", "client": "w", "missing": ["gone"], "split": 1})


def column(cells: list[str], **options: object) -> list[str]:
    return grouped(encode_column(pd.Series(cells), "c", "f.csv", Encoding.model_validate(options)).notes)


CITY = ["Rome", "Bonn", "Oslo"] * 5
WORDS = ["unknown", "none", "n.a.", "-", "Not available", "k.A."]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_for_nothing_beside_empty_fields_is_said_with_its_rows(word: str) -> None:
    cells = [*CITY, "", word, "", word, ""]
    assert column(cells) == [
        (
            "words that are categories beside fields without a value; where they mean none, list them in `missing`: "
            f"column 'c' ({word!r} in 2 rows, first in row 17; 3 of 20 rows have no value)"
        )
    ]
    assert column(cells, missing=[word]) == []
    assert column([cell or word for cell in cells]) == []


@pytest.mark.parametrize("mark", ["missing", "NA", "N/A", "None", "?"])
def test_a_word_that_is_one_category_with_empty_fields_is_said_and_can_be_kept_apart(tmp_path: Path, mark: str) -> None:
    cells = [*CITY, "", mark, mark, "NULL", ""]
    assert column(cells) == [
        (
            "words read as no value, as are empty fields; where one is a value, give it another name by `categories`: "
            f"column 'c' ({mark!r} in 2 rows, first in row 17; 3 other rows)"
        )
    ]
    assert column(cells, missing=[mark]) == []
    assert column([*CITY, mark, mark]) == []
    frame = pd.DataFrame({"t": cells, "a": range(len(cells)), "y": [0, 1] * 10})
    options = write(tmp_path, frame, "csv")
    assert "t=apart" in read({**options, "categories": {"t": {mark: "apart"}}}).passive[0].names


def test_the_word_missing_is_a_code_of_its_own_where_categories_are_codes() -> None:
    notes = column([*CITY, "", "missing"], codes="ordinal")
    assert any("are categories beside fields without a value" in note for note in notes)


def test_a_class_called_unknown_beside_rows_without_a_label(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": range(60), "a": range(60), "y": ["yes", "no", "unknown", ""] * 15})
    options = {**write(tmp_path, frame, "csv"), "drop_unlabeled": True}
    said = "'unknown' (15 rows) is a class beside rows without a label; where it means none, list it in `missing`"
    assert said in read(options).notes
    assert read({**options, "missing": ["unknown"]}).class_names == ("no", "yes")
