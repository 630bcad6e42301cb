"""Test rows by a column: the latest, or whole groups; the reserve is a part of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.data.test_precision import read, write
from tune_vfl.data.base import Dataset
from tune_vfl.data.reserve import reserve_rows
from tune_vfl.data.split import split
from tune_vfl.errors import DataError

DAYS = pd.date_range("2015-01-01", periods=2000)
FORMS = {
    "numbers": [str(k) for k in range(2000)],
    "seconds": [str(1_500_000_000 + 60 * k) for k in range(2000)],
    "nanoseconds": [str(1_500_000_000_000_000_000 + k) for k in range(2000)],
    "dates": [d.strftime("%Y-%m-%d") for d in DAYS],
    "times": [d.strftime("%Y-%m-%dT%H:%M:%SZ") for d in DAYS],
    "German": [d.strftime("%d.%m.%Y") for d in DAYS],
    "American": [d.strftime("%m/%d/%Y") for d in DAYS],
    "with names": [d.strftime("%d-%b-%Y") for d in DAYS],
    "two-digit years": [f"Jan-{(1980 + k // 50) % 100:02d}" for k in range(2000)],
    "days of two-digit years": [d.strftime("%d-%b-%y") for d in DAYS - pd.DateOffset(years=16)],
    "numbered days": [d.strftime("%Y%m%d") for d in DAYS],
    "numbered days of short years": [d.strftime("%y%m%d") for d in DAYS],
    "months": [d.strftime("%b-%Y") for d in DAYS],
}


def data_of(folder: Path, column: list[str], kind: str, by: dict[str, Any], seed: int = 0) -> tuple[Dataset, list[str]]:
    """Read a table in a drawn order, split by column ``w``; also return that column in the data set's order."""
    rng = np.random.default_rng(seed)
    n = len(column)
    table = pd.DataFrame({"a": rng.normal(size=n), "t": np.arange(n), "w": column, "y": rng.integers(0, 2, n)})
    table = table.iloc[rng.permutation(n)]
    options = write(folder, table, kind) | {"split": by}
    if kind != "joined":
        options["parties"] = {"p": ["t"], "active": ["a"]}
    data = read(options)
    return data, [column[k] for k in data.passive[0].x[:, 0].long().tolist()]


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
@pytest.mark.parametrize("form", FORMS)
def test_the_latest_rows_are_for_test_and_reserve(tmp_path: Path, form: str, kind: str) -> None:
    data, _ = data_of(tmp_path, FORMS[form], kind, {"time": "w"})
    when = data.passive[0].x[:, 0]  # as the rows were numbered in time
    cut, again, reserve = split(data, 0, "selection"), split(data, 1, "selection"), reserve_rows(data)
    assert cut.test_rows.equal(again.test_rows)
    assert when[cut.train_rows].max() < when[cut.test_rows].min()
    assert when[cut.test_rows].max() < when[reserve].min()
    assert len(cut.train_rows) / 2000 == pytest.approx(0.7, abs=0.02)
    assert len(reserve) / 2000 == pytest.approx(0.15, abs=0.02)
    assert any("of the rows by 'w' are the test rows" in note for note in data.notes)
    assert not any("w" in p.names for p in data.parties)


def test_the_reading_of_two_digit_years_is_said(tmp_path: Path) -> None:
    data, _ = data_of(tmp_path, FORMS["two-digit years"], "csv", {"time": "w"})
    assert any("two-digit years are read as 1980 to 2019" in note for note in data.notes)


def test_rows_of_one_time_are_never_parted(tmp_path: Path) -> None:
    data, when = data_of(tmp_path, [str(2010 + k // 300) for k in range(2000)], "csv", {"time": "w"})
    parts = [split(data, 0, "selection").train_rows, split(data, 0, "selection").test_rows, reserve_rows(data)]
    years = [{when[k] for k in rows.tolist()} for rows in parts]
    assert years[0] & years[1] == years[0] & years[2] == years[1] & years[2] == set()


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
def test_groups_are_never_parted(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(3)
    data, group = data_of(tmp_path, [f"c{int(k)}" for k in rng.integers(0, 150, 2000)], kind, {"group": "w"})
    cut, reserve = split(data, 0, "selection"), reserve_rows(data)
    assert split(data, 5, "selection").test_rows.equal(cut.test_rows)
    groups = [{group[k] for k in rows.tolist()} for rows in (cut.train_rows, cut.test_rows, reserve)]
    assert sum(map(len, groups)) == len(set(group))
    assert len(cut.train_rows) / 2000 == pytest.approx(0.7, abs=0.05)
    assert len(reserve) / 2000 == pytest.approx(0.15, abs=0.05)
    assert float(data.y[cut.test_rows].double().mean()) == pytest.approx(float(data.y.double().mean()), abs=0.05)
    assert split(data, 0, "report").test_rows.equal(reserve)


def test_small_data_have_no_reserve_and_all_late_rows_are_test_rows(tmp_path: Path) -> None:
    data, _ = data_of(tmp_path, [str(k) for k in range(100)], "csv", {"time": "w"})
    assert len(reserve_rows(data)) == 0
    assert not any("reserve" in note for note in data.notes)
    assert sorted(data.passive[0].x[split(data, 0, "selection").test_rows, 0].tolist()) == list(range(70, 100))


def test_another_reserve_is_another_fingerprint(tmp_path: Path) -> None:
    column = [str(k) for k in range(1200)]
    first, _ = data_of(tmp_path, column, "csv", {"time": "w"})
    second, _ = data_of(tmp_path, column, "csv", {"group": "w"})
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("column", "by", "words"),
    [
        (["2020-01-01", ""] * 20, {"time": "w"}, "is missing in 20 of 40 rows"),
        (
            ["01/02/2020", "03/04/2021", "05/06/2022", "07/08/2023"] * 10,
            {"time": "w"},
            "day and month may be exchanged",
        ),
        ([*FORMS["dates"][:39], "soon"], {"time": "w"}, "holds 'soon' in row .*, which is no time"),
        (["2020-01-01"] * 40, {"time": "w"}, "has 1 different times"),
        (
            [f"{k % 28 + 1:02d}-Jan-{k:02d}" for k in range(100)] * 2,
            {"time": "w"},
            "two-digit years run from 00 to 99 .* write years with four digits",
        ),
        ([f"Jan-{k:02d}" for k in (60, 75, 90, 5, 20)] * 8, {"time": "w"}, "two-digit years run from 05 to 90"),
        (
            [d.strftime("%d%m%Y") for d in DAYS[:40]],
            {"time": "w"},
            "in row 1, a date that does not begin",
        ),
        ([str(int(d.strftime("%d%m%Y"))) for d in DAYS[:400]], {"time": "w"}, "does not begin with its year"),
        ([d.strftime("%m%Y") for d in DAYS[::40]], {"time": "w"}, "does not begin with its year"),
        (["981231", "991231", "000102", "010331"] * 10, {"time": "w"}, "years of two digits, 1998 to 2001"),
        (["u", "v"] * 20, {"group": "w"}, "has 2 groups"),
        (["1"] * 40, {"time": "when"}, "no column 'when', the column of split"),
    ],
)
def test_columns_that_cannot_split_are_refused(
    tmp_path: Path, column: list[str], by: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        data_of(tmp_path, column, "csv", by)


def test_a_part_that_lacks_a_class_is_refused_before_any_training(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": range(100), "w": range(100), "y": ["old"] * 50 + ["mid"] * 30 + ["new"] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=r"training rows would have no row of class 'new' \(20 of 'mid', 50 of 'old'\)"):
        read({"path": str(tmp_path / "t.csv"), "label": "y", "split": {"time": "w"}, "parties": {"p": ["a"]}})
    table.iloc[:70].assign(y=["old", "mid"] * 22 + ["old"] * 26).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=r"test rows would have no row of class 'mid' \(2\d of 'old'\)"):
        read({"path": str(tmp_path / "t.csv"), "label": "y", "split": {"time": "w"}, "parties": {"p": ["a"]}})


@pytest.mark.parametrize("kind", ["time", "group"])
def test_a_reserve_that_lacks_a_class_is_said_and_none_is_set_aside(tmp_path: Path, kind: str) -> None:
    when = np.arange(2000) // 100
    y = np.where((np.arange(2000) % 2 == 0) & (when < 17), "yes", "no")
    pd.DataFrame({"a": range(2000), "w": when, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    data = read({"path": str(tmp_path / "t.csv"), "label": "y", "split": {kind: "w"}, "parties": {"p": ["a"]}})
    (note,) = [said for said in data.notes if "test rows" in said]
    if kind == "time":
        assert note.endswith("; no reserve: it would have 0 of its 300 rows of class 'yes', and 50 are needed")
        assert len(reserve_rows(data)) == 0
        assert len(split(data, 0, "selection").test_rows) == 600
    else:
        assert note.endswith(", about half of them the reserve")
        assert len(reserve_rows(data)) > 0


def test_the_column_may_not_be_a_feature(tmp_path: Path) -> None:
    pd.DataFrame({"a": range(40), "w": range(40), "y": [0, 1] * 20}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="column 'w' is the column of split and no feature of party 'p'"):
        read({"path": str(tmp_path / "t.csv"), "label": "y", "split": {"time": "w"}, "parties": {"p": ["a", "w"]}})


@pytest.mark.parametrize("typed", ["datetime64[ns]", "datetime64[s]", "date32", "Int64", "float64"])
def test_typed_times_of_parquet(tmp_path: Path, typed: str) -> None:
    table = pd.DataFrame({"a": range(100), "b": range(100), "y": [0, 1] * 50})
    days = pd.Series(DAYS[:100])
    whole = pd.Series(range(100))
    table["w"] = days.dt.date if typed == "date32" else (days if "time" in typed else whole).astype(typed)
    table.iloc[::-1].to_parquet(tmp_path / "t.parquet", index=False)
    where = {"path": str(tmp_path / "t.parquet"), "label": "y", "parties": {"p": ["a"], "active": ["b"]}}
    data = read(where | {"split": {"time": "w"}})
    assert sorted(data.passive[0].x[split(data, 0).test_rows, 0].tolist()) == list(range(70, 100))
