"""Labels as people have them: two classes of many or of a number, rows without a label, a sample of the rows."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image

from tests.data.test_precision import read, write
from tune_vfl.data import load, written_out
from tune_vfl.data.base import Dataset
from tune_vfl.data.loading import LARGE, large
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named

LOANS = ["Charged Off"] * 12 + ["Default"] * 6 + ["Fully Paid"] * 30 + ["Current"] * 20 + ["In Grace"] * 4
TABLES = ["csv", "parquet", "joined"]
KINDS = [*TABLES, "npz", "npz of bytes", "images"]


def labeled(folder: Path, labels: list[Any], kind: str, **options: Any) -> Dataset:
    """Read rows with these labels and options; the first pixel, or column t, is the number of the row."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (len(labels), 4, 4), dtype=np.uint8)
    images[:, 0, 0] = np.arange(len(labels))
    if kind.startswith("npz"):
        y = np.array(labels) if kind == "npz" else np.char.encode(np.array([str(label) for label in labels]))
        np.savez(folder / "a.npz", x=images, y=y)
        return load(Named.model_validate({"name": "npz", "path": str(folder / "a.npz"), **options}))
    if kind == "images":
        for k, label in enumerate(labels):
            (folder / "im" / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[k]).save(folder / "im" / str(label) / f"{k}.png")
        return load(Named.model_validate({"name": "images", "path": str(folder / "im"), **options}))
    table = pd.DataFrame({"a": rng.normal(size=len(labels)), "t": np.arange(len(labels)), "y": labels})
    return read(write(folder, table, kind) | options)


def rows_of(data: Dataset, kind: str) -> list[int]:
    x = data.passive[0].x
    return [round(v) for v in (x[:, 0] if kind in TABLES else x[:, 0, 0, 0] * 255).tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_several_labels_are_the_positive_class_and_all_others_the_negative_one(tmp_path: Path, kind: str) -> None:
    data = labeled(tmp_path, LOANS, kind, positive=["Charged Off", "Default"])
    assert data.class_names == ("Current or Fully Paid or In Grace", "Charged Off or Default")
    assert {LOANS[k] for k, y in zip(rows_of(data, kind), data.y.tolist(), strict=True) if y} == {
        "Charged Off",
        "Default",
    }
    assert (len(data.y), int(data.y.sum()), data.metric) == (72, 18, "auc")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positive", ["Default", ["Default", "Charged Off"]])
def test_rows_of_neither_class_are_left_out_and_counted(tmp_path: Path, kind: str, positive: Any) -> None:
    data = labeled(tmp_path, LOANS, kind, positive=positive, negative=["Fully Paid"])
    yes = {positive} if isinstance(positive, str) else set(positive)
    assert data.class_names == ("Fully Paid", " or ".join([positive] if isinstance(positive, str) else positive))
    asked = [(k, int(label in yes)) for k, label in enumerate(LOANS) if label in yes | {"Fully Paid"}]
    assert sorted(zip(rows_of(data, kind), data.y.tolist(), strict=True)) == asked
    left = "'Charged Off' (12), " if isinstance(positive, str) else ""
    total = 36 if isinstance(positive, str) else 24
    said = f"{total} of 72 rows are left out, whose label is neither positive nor negative"
    assert f"{said}: {left}'Current' (20), 'In Grace' (4)" in data.notes


@pytest.mark.parametrize("kind", [*TABLES, "npz"])
def test_a_number_above_a_bound_is_positive(tmp_path: Path, kind: str) -> None:
    amounts = [k * 100.5 for k in range(40)]
    rule: dict[str, Any] = {"label": {"column": "y", "above": 2000}} if kind in TABLES else {"above": 2000}
    data = labeled(tmp_path, amounts, kind, **rule)
    assert data.class_names == ("at most 2000", "above 2000")
    assert data.y.tolist() == [int(v > 2000) for v in amounts]


@pytest.mark.parametrize(
    ("cell", "words"), [("x", "holds 'x' in row 3"), ("", "holds '' in row 3"), ("-", "'-' in row 3")]
)
def test_a_bound_needs_numbers(tmp_path: Path, cell: str, words: str) -> None:
    cells: list[Any] = [str(k) for k in range(40)]
    cells[2] = cell
    with pytest.raises(DataError, match=words):
        labeled(tmp_path, cells, "csv", label={"column": "y", "above": 20})
    if cell != "x":
        data = labeled(tmp_path, cells, "csv", label={"column": "y", "above": 20}, drop_unlabeled=True)
        assert data.y.tolist() == [int(k > 20) for k in range(40) if k != 2]


@pytest.mark.parametrize("kind", [*TABLES, "npz", "npz of bytes"])
@pytest.mark.parametrize("mark", ["", "NA", "\\N", "gone"])
def test_rows_without_a_label_are_left_out_where_that_is_asked(tmp_path: Path, kind: str, mark: str) -> None:
    labels = ["a", "b", mark] * 12
    with pytest.raises(DataError, match=r"is missing in 12 of 36 rows .* drop_unlabeled"):
        labeled(tmp_path, labels, kind, missing=["gone"])
    data = labeled(tmp_path, labels, kind, missing=["gone"], drop_unlabeled=True)
    assert data.class_names == ("a", "b")
    assert rows_of(data, kind) == [k for k in range(36) if k % 3 < 2]
    assert "12 of 36 rows have no label and are left out" in data.notes


def test_missing_labels_are_refused_whichever_rule_is_asked_for(tmp_path: Path) -> None:
    for options in ({"positive": ["a"]}, {"positive": ["a"], "negative": ["b"]}):
        with pytest.raises(DataError, match="is missing in 12 of 36 rows"):
            labeled(tmp_path, ["a", "b", ""] * 12, "csv", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positive": ["Charged off"]}, "no label 'Charged off'.*Did you mean 'Charged Off'"),
        ({"positive": ["Default"], "negative": ["Fully paid"]}, "no label 'Fully paid'"),
        ({"positive": sorted(set(LOANS))}, "no row is 'negative'"),
        ({"label": {"column": "t", "above": 1e6}}, "no row is 'above 1e"),
        ({"rows": 1000}, "rows asks for 1,000 of 72"),
    ],
)
def test_rules_that_no_row_meets_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        labeled(tmp_path, LOANS, "csv", **({"parties": {"p": ["a"]}} | options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"negative": ["b"]}, "negative goes with positive"),
        ({"positive": [], "negative": []}, "positive is an empty list"),
        ({"positive": ["a"], "negative": ["a"]}, "listed as positive and as negative"),
        ({"positive": {"a": 1}}, "expected a label, or a list of labels"),
        ({"label": {"column": "y"}}, "above: is required"),
        ({"label": {"column": "y", "above": 1}, "positive": "a"}, "leave out positive"),
        ({"split": {"time": "t", "share": 0.2}}, "share: no such field"),
        ({"separator": ";;"}, "expected one character"),
        ({"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
    ],
)
def test_options_that_say_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load(Named.model_validate({"name": "csv", "path": "a.csv", "label": "y", **options}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_stratified_sample_is_the_same_every_time_and_said(tmp_path: Path, kind: str) -> None:
    labels = ["a"] * 150 + ["b"] * 50
    first, second = (labeled(tmp_path, labels, kind, rows=40) for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert [(first.y == k).sum().item() for k in (0, 1)] == [30, 10]
    assert [labels[k] for k in sorted(rows_of(first, kind))] == ["a"] * 30 + ["b"] * 10
    assert "a stratified sample of 40 of 200 rows, the same for every seed" in first.notes


def test_official_test_rows_are_all_used(tmp_path: Path) -> None:
    x = np.arange(120 * 16, dtype=np.uint8).reshape(120, 4, 4)
    x[:, 0, 0] = np.arange(120)
    y = np.arange(120) % 2
    np.savez(tmp_path / "a.npz", x_train=x[:100], y_train=y[:100], x_test=x[100:], y_test=y[100:])
    data = load(Named.model_validate({"name": "npz", "path": str(tmp_path / "a.npz"), "rows": 20}))
    assert data.test_rows is not None
    assert [rows_of(data, "npz")[k] for k in data.test_rows.tolist()] == list(range(100, 120))
    assert len(data.y) == 40


def test_options_are_written_out_as_they_are_read(tmp_path: Path) -> None:
    options = write(tmp_path, pd.DataFrame({"a": range(72), "t": range(72), "y": LOANS}), "csv")
    asked = Named.model_validate(
        {"name": "csv", **options, "positive": ["Default"], "negative": ["Fully Paid"], "rows": 20}
    )
    full = written_out(asked)
    assert load(full).fingerprint == load(asked).fingerprint
    assert written_out(full) == full


def test_a_sample_of_a_large_table_is_proposed(tmp_path: Path) -> None:
    options = write(tmp_path, pd.DataFrame({"a": range(72), "t": range(72), "y": LOANS}), "csv")
    whole, sampled = (Named.model_validate({"name": "csv", **options, "rows": rows}) for rows in (None, 20))
    assert large(whole, LARGE - 1) == large(sampled, LARGE) == large(Named(name="wine"), LARGE) == ""
    assert "every training reads 200,000 rows; dataset.rows: 100000 draws a stratified sample" in large(whole, LARGE)


@pytest.mark.parametrize("values", [
    [f"{k * k - 50}" for k in range(60)],
    [f"{k * k / 4}" for k in range(60)],
    ["0"] * 25 + ["7"] * 20 + ["9"] * 13 + ["1200", "1300"],
    ["5"] * 40 + ["1"] * 19 + ["2"],
    [str(k) for k in range(1100)],
])  # fmt: skip
@pytest.mark.parametrize("column", ["price", "price {in: EUR}, #1"])
def test_a_number_as_the_label_is_made_two_classes_as_the_message_says(
    tmp_path: Path, values: list[str], column: str
) -> None:
    pd.DataFrame({"a": range(len(values)), "b": 1.5, column: values}).to_csv(tmp_path / "t.csv", index=False)
    options = {"name": "csv", "path": str(tmp_path / "t.csv"), "label": column}
    with pytest.raises(DataError, match="label column") as raised:
        load(Named.model_validate(options))
    pasted = re.search(r"set (label: \{.*\}) in `dataset`", str(raised.value))
    assert pasted, raised.value
    found = load(Named.model_validate(options | yaml.safe_load(pasted[1])))
    assert min(torch.bincount(found.y)) >= 2


def test_many_whole_numbers_with_enough_rows_are_classes_with_a_question(tmp_path: Path) -> None:
    pd.DataFrame({"a": range(250), "b": 1.5, "y": [k % 25 for k in range(250)]}).to_csv(tmp_path / "t.csv", index=False)
    found = load(Named(name="csv", path=str(tmp_path / "t.csv"), label="y"))
    assert any("25 different numbers, each a class; is it a number?" in note for note in found.notes)
    digits = load(
        Named(name="csv", path=str(tmp_path / "t.csv"), label="y", classes={str(k): "5" for k in range(6, 25)})
    )
    assert not any("is it a number?" in note for note in digits.notes)


@pytest.mark.parametrize("mark", ["NA", "null", "NaN"])
def test_a_class_called_as_a_missing_label_is_kept_as_the_message_says(tmp_path: Path, mark: str) -> None:
    labels = [(mark, "EU", "AS")[k % 3] for k in range(60)]
    pd.DataFrame({"a": range(60), "b": 1.5, "y": labels}).to_csv(tmp_path / "t.csv", index=False)
    options = {"name": "csv", "path": str(tmp_path / "t.csv"), "label": "y"}
    with pytest.raises(DataError, match="is missing in 20 of 60 rows") as raised:
        load(Named.model_validate(options))
    pasted = str(raised.value).partition("paste this into `dataset`: ")[2]
    found = load(Named.model_validate(options | yaml.safe_load(pasted)))
    assert set(found.class_names) == {"AS", "EU", f"{mark} (a class)"}
