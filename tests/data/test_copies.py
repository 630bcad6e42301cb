"""Rows that are equal: copies of one another, and rows that only the label tells apart, in each kind of file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.test_precision import read
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.spec import Named


def table(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    names = [f"name {k}" for k in range(n)]
    return pd.DataFrame(
        {"a": rng.normal(size=n).round(3), "b": rng.integers(0, 99, n), "c": names, "y": np.arange(n) % 2}
    )


def data_of(folder: Path, frame: pd.DataFrame, kind: str) -> Dataset:
    if kind == "joined":
        numbered = frame.assign(i=range(len(frame)))
        numbered[["i", "a"]].to_csv(folder / "p.csv", index=False)
        numbered[["i", "b", "c", "y"]].to_csv(folder / "q.csv", index=False)
        parties = {"p": {"path": str(folder / "p.csv")}, "q": {"path": str(folder / "q.csv")}}
        return read({"id": "i", "label": "y", "parties": parties})
    path = folder / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    return read({"path": str(path), "label": "y", "split": 0.5})


def said(data: Dataset) -> list[str]:
    return [note for note in data.notes if "copies of one another" in note or "of another class in all" in note]


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
def test_copies_are_said_also_where_they_were_numbered_afterwards(tmp_path: Path, kind: str) -> None:
    frame = table()
    copied = pd.concat([frame, frame[frame["y"] == 1], frame[frame["y"] == 1]], ignore_index=True)
    (note,) = said(data_of(tmp_path, copied.assign(number=range(len(copied))), kind))
    assert "180 of 240 rows are copies of one another" in note
    assert "(rows 2, 121 and 181)" in note


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
def test_rows_that_only_the_label_tells_apart_are_said(tmp_path: Path, kind: str) -> None:
    frame = pd.concat([table(), table()[:10].assign(y=lambda t: 1 - t["y"])], ignore_index=True)
    (note,) = said(data_of(tmp_path, frame, kind))
    assert "20 of 130 rows are equal to one of another class in all values (rows 1 and 121)" in note


def test_rows_that_are_encoded_alike_are_no_copies(tmp_path: Path) -> None:
    """Of many categories the rarer ones share a column."""
    frame = table().assign(a=1, b=2, c=[f"word {k % 60}" for k in range(120)])
    frame["y"] = np.arange(120) // 60
    assert said(data_of(tmp_path, frame.assign(c=frame["c"] + frame["y"].astype(str)), "csv")) == []


def test_few_values_are_equal_by_chance_and_nothing_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({k: rng.integers(0, 3, 300) for k in ("a", "b", "c", "y")})
    assert said(data_of(tmp_path, frame, "csv")) == []


def test_pictures_that_are_there_twice(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 255, (40, 6, 6), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=np.concatenate([x, x[:5]]), y=[*range(2), *range(2)] * 10 + [0, 1, 0, 1, 1])
    data = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz")}))
    copies, other = said(data)
    assert "8 of 45 rows are copies of one another, equal in all values and the label (rows 1 and 41)" in copies
    assert "2 of 45 rows are equal to one of another class in all values (rows 5 and 45)" in other
