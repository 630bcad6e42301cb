"""Rows of one customer, by a column whose name does not say so: most other columns follow its value."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.test_precision import read
from tune_vfl.data.base import Dataset

PEOPLE, EACH = 150, 4


def visits(name: str = "kd", form: str = "{}", seed: int = 0) -> pd.DataFrame:
    """Visits of people: who they are is the same in all of theirs, what happened differs."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(PEOPLE), EACH)
    frame = pd.DataFrame({
        name: [form.format(4000 + 7 * k) for k in who],
        "age": rng.integers(18, 90, PEOPLE)[who],
        "city": rng.choice(["Rome", "Bonn", "Oslo"], PEOPLE)[who],
        "income": rng.normal(size=PEOPLE).round(3)[who],
        "sex": rng.choice(["f", "m"], PEOPLE)[who],
        "amount": rng.normal(size=PEOPLE * EACH).round(3),
        "items": rng.integers(1, 9, PEOPLE * EACH),
        "y": rng.integers(0, 2, PEOPLE * EACH),
    })  # fmt: skip
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def data_of(folder: Path, frame: pd.DataFrame, kind: str = "csv", **options: object) -> Dataset:
    path = folder / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    return read({"path": str(path), "label": "y", "split": 0.5, **options})


def said(data: Dataset) -> list[str]:
    return [note for note in data.notes if "several rows have one value" in note]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("form", ["{}", "K-{}", "{}.0"])
def test_a_column_that_most_others_follow_is_named_with_the_split_that_keeps_its_rows_together(
    tmp_path: Path, form: str, kind: str
) -> None:
    frame = visits(form=form)
    (note,) = said(data_of(tmp_path, frame, kind))
    first = [str(k + 1) for k in np.flatnonzero(frame["kd"] == frame["kd"][frame["kd"].duplicated()].iloc[0])[:2]]
    assert note.startswith(
        f"several rows have one value of 'kd' (rows {first[0]} and {first[1]}), and with it the same in 4 of 6 other "
        "columns ('age', 'city', 'income', ...)"
    )
    assert note.endswith('name it: split: {group: "kd"}')
    grouped = data_of(tmp_path, frame, kind, split={"group": "kd"})
    assert said(grouped) == []
    assert "kd" not in {source.name for columns in grouped.parties for source in columns.sources}


def test_a_customer_in_the_passive_partys_file(tmp_path: Path) -> None:
    frame = visits().assign(i=range(PEOPLE * EACH))
    frame[["i", "kd", "age", "city", "amount"]].sample(frac=1, random_state=1).to_csv(tmp_path / "p.csv", index=False)
    frame[["i", "income", "sex", "items", "y"]].to_csv(tmp_path / "q.csv", index=False)
    parties = {"p": {"path": str(tmp_path / "p.csv")}, "q": {"path": str(tmp_path / "q.csv")}}
    (note,) = said(read({"id": "i", "label": "y", "parties": parties}))
    assert "'kd'" in note
    assert "4 of 6 other columns" in note


def test_post_codes_prices_and_copies_are_no_customers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 600
    zips = rng.integers(10_000, 10_150, n)
    plain = pd.DataFrame({
        "zip": zips,
        "state": np.array(["NY", "CA", "TX"])[zips % 3],
        "price": rng.integers(1, 200, n) * 10,
        **{f"n{k}": rng.normal(size=n).round(3) for k in range(4)},
        "y": rng.integers(0, 2, n),
    })  # fmt: skip
    assert said(data_of(tmp_path, plain)) == []
    copies = pd.concat([plain[:200]] * 3, ignore_index=True)
    assert said(data_of(tmp_path, copies)) == []
