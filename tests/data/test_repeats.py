"""Lines that are no rows: a header once more, and totals; in each kind of file they are left out, or refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.test_precision import read
from tune_vfl.errors import DataError


def table(n: int = 60) -> pd.DataFrame:
    """Rows of text as a file has them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["Rome", "Bonn"], n), "n": rng.integers(1, 99, n), "y": np.arange(n) % 2})
    return frame.assign(m=rng.normal(size=n).round(3))[["city", "n", "m", "y"]].astype(str)


def write(folder: Path, frame: pd.DataFrame, kind: str) -> dict[str, object]:
    path = folder / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    return {"path": str(path), "label": "y", "split": 0.5}


def with_line(frame: pd.DataFrame, line: list[str], place: int = 30) -> pd.DataFrame:
    one = pd.DataFrame([line], columns=frame.columns)
    return pd.concat([frame[:place], one, frame[place:]], ignore_index=True)


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
@pytest.mark.parametrize("spelt", [str, str.upper, str.title])
def test_a_header_inside_of_a_file_is_no_row(tmp_path: Path, kind: str, spelt: type[str]) -> None:
    frame = table()
    repeated = with_line(frame, [spelt(name) for name in frame.columns])
    if kind == "joined":
        frame.to_csv(tmp_path / "q.csv")
        repeated.insert(0, "i", [*map(str, range(30)), spelt("i"), *map(str, range(30, 60))])
        repeated.drop(columns="y").to_csv(tmp_path / "p.csv", index=False)
        frame.assign(i=range(60))[["i", "y"]].to_csv(tmp_path / "q.csv", index=False)
        parties = {"p": {"path": str(tmp_path / "p.csv")}, "q": {"path": str(tmp_path / "q.csv")}}
        data = read({"id": "i", "label": "y", "parties": parties})
    else:
        data = read(write(tmp_path, repeated, kind))
    assert data.class_names == ("0", "1")
    assert {s.name: s.kind for p in data.parties for s in p.sources} == {
        "city": "category",
        "n": "number",
        "m": "number",
    }
    assert [note for note in data.notes if "repeat the header (first in row 31) and are left out" in note]


def test_files_put_together_with_their_byte_order_marks_and_their_counts(tmp_path: Path) -> None:
    frame = table()
    text = "\ufeff" + frame[:30].to_csv(index=False) + "\ufeff" + frame[30:].to_csv(index=False)
    (tmp_path / "t.csv").write_text(text)
    where = {"path": str(tmp_path / "t.csv"), "label": "y", "split": 1.0}
    assert len(read(where).y) == 60
    (tmp_path / "t.csv").write_text(frame[:30].to_csv() + frame[30:].to_csv())
    assert [source.name for source in read(where).passive[0].sources] == ["city", "n", "m"]


@pytest.mark.parametrize(
    ("line", "words"),
    [(["city", "m", "n", "y"], "row 31 repeats the header in another order"), (["city", "n", "z", "y"], "other names")],
)
def test_a_header_of_another_table_is_refused(tmp_path: Path, line: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(write(tmp_path, with_line(table(), line), "csv"))


def test_a_row_that_shares_a_word_with_the_header_is_a_row(tmp_path: Path) -> None:
    frame = table()
    frame.loc[3, "city"] = "n"
    frame.loc[4, "city"] = "city"
    assert len(read(write(tmp_path, frame, "csv")).y) == 60


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("word", ["Total", "SUMME", "average"])
def test_totals_are_no_rows(tmp_path: Path, kind: str, word: str) -> None:
    frame = table()
    numbers = frame["n"].astype(int)
    middle, last = (numbers[:30].mean(), numbers.mean()) if word == "average" else (numbers[:30].sum(), numbers.sum())
    lines = with_line(with_line(frame, [word, str(middle), "", ""]), [word, str(last), "", "30"], 61)
    data = read(write(tmp_path, lines, kind))
    assert (len(data.y), data.class_names) == (60, ("0", "1"))
    assert [
        note for note in data.notes if "2 of 62 rows are totals of others (first in row 31) and are left out" in note
    ]


def test_a_word_without_a_sum_is_said_and_a_frequent_one_is_a_category(tmp_path: Path) -> None:
    data = read(write(tmp_path, with_line(table(), ["Total", "7", "0", "1"]), "csv"))
    assert len(data.y) == 61
    assert [note for note in data.notes if "row 31 has the word for a total in it, but no sum" in note]
    frame = table()
    frame.loc[::3, "city"] = "total"
    data = read(write(tmp_path, frame, "csv"))
    assert not [note for note in data.notes if "total" in note]
