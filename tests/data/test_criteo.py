"""Criteo: hashed by party, missing values kept, and the faults of its file."""

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.sets.criteo import FEATURES
from tune_vfl.data.split import split
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named

FILE = "criteo/train.txt.gz"


def table(rows: int = 30) -> list[list[str]]:
    rng = np.random.default_rng(0)
    body = []
    for k in range(rows):
        counts = [str(v) if v < 400 else "" for v in rng.integers(-2, 500, 13)]
        body.append([str(int(k % 3 == 0)), *counts, *(f"{v:08x}" if v else "" for v in rng.integers(0, 9, 26))])
    return body


def text_of(rows: list[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def put(root: Path, text: str) -> Path:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def criteo(root: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "criteo", "buckets": 16, **options}), root=root)


def level(text: str) -> str:
    """The rule for counts once more: ``floor(log(v)^2)`` above 2."""
    return text if not text or int(text) <= 2 else f"log{int(np.floor(np.log(int(text)) ** 2))}"


def test_each_party_hashes_its_own_columns_and_nothing_else(tmp_path: Path) -> None:
    rows = table()
    put(tmp_path, text_of(rows))
    data = criteo(tmp_path)
    assert data.active is not None
    halves = ((data.passive[0], range(20)), (data.active, range(20, 39)))
    for party, columns in halves:
        expected = np.zeros((30, 16))
        for r, row in enumerate(rows):
            for k in columns:
                value = level(row[k + 1]) if k < 13 else row[k + 1]
                expected[r, zlib.crc32(f"{FEATURES[k]}={value}".encode()) % 16] = 1
        np.testing.assert_array_equal(party.x.numpy(), expected)
    assert data.y.tolist() == [int(k % 3 == 0) for k in range(30)]
    assert len(split(data, 0).y_test) == 6


def test_a_change_of_one_partys_column_moves_nothing_of_the_others(tmp_path: Path) -> None:
    rows = table()
    put(tmp_path, text_of(rows))
    before = criteo(tmp_path)
    for row in rows:
        row[39] = "ffff"
    put(tmp_path, text_of(rows))
    after = criteo(tmp_path)
    assert torch.equal(before.passive[0].x, after.passive[0].x)
    assert before.active is not None
    assert after.active is not None
    assert not torch.equal(before.active.x, after.active.x)


def test_only_the_first_rows_are_read_and_it_is_said(tmp_path: Path) -> None:
    put(tmp_path, text_of(table()) + "not a row\n")
    data = criteo(tmp_path, rows=30)
    assert len(data.y) == 30
    assert "the first 30 rows" in data.notes[0]


def test_alternating_labels_keep_the_first_row_of_each_run(tmp_path: Path) -> None:
    labels = "1100010111000"
    rows = table(len(labels))
    for row, label in zip(rows, labels, strict=True):
        row[0] = label
    put(tmp_path, text_of(rows))
    before, data = criteo(tmp_path), criteo(tmp_path, balance="alternate")
    kept: list[int] = []
    for k, label in enumerate(labels):
        if not kept or label != labels[kept[-1]]:
            kept.append(k)
    assert kept == [0, 2, 5, 6, 7, 10]
    assert data.y.tolist() == [1, 0, 1, 0, 1, 0]
    assert torch.equal(data.passive[0].x, before.passive[0].x[kept])
    assert "6 of the first 13 rows of train.txt.gz: the labels alternate" in data.notes


def changed(row: int, column: int, value: str) -> str:
    rows = table()
    rows[row - 1][column] = value
    return text_of(rows)


FAULTS = {
    "empty": ("", ["is empty"]),
    "cut off": (text_of(table())[:-60], ["line 30 has", "expected a label and 39", "cut off"]),
    "a field too many": (text_of([*table(), [*table()[0], "x"]]), ["line 31 has 41"]),
    "commas": (text_of(table()).replace("\t", ","), ["line 1 has 1 tab-separated"]),
    "bad label": (changed(4, 0, "2"), ["label in line 4 is '2'"]),
    "missing label": (changed(5, 0, ""), ["label in line 5 is ''"]),
    "text for a count": (changed(6, 3, "many"), ["column I3 in line 6 holds 'many'", "whole number"]),
    "one class": (text_of([r for r in table() if r[0] == "0"]), ["class 'clicked' has 0 rows"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_named(tmp_path: Path, fault: str) -> None:
    text, words = FAULTS[fault]
    path = put(tmp_path, text)
    with refusal(path, *words):
        criteo(tmp_path)


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, text_of(table()))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"train\.txt\.gz: is corrupt or cut off"):
        criteo(tmp_path)


@pytest.mark.public_data(FILE)
def test_the_real_file_has_its_rows() -> None:
    data = load(Named.model_validate({"name": "criteo", "rows": 8000}))
    assert data.recipe.auxiliary_per_class == 50
    assert torch.bincount(data.y).tolist() == [6272, 1728]
    alternating = load(Named.model_validate({"name": "criteo", "rows": 8000, "balance": "alternate"}))
    assert torch.bincount(alternating.y).tolist() == [1347, 1346]
    assert [p.x.shape for p in data.passive] == [(8000, 1024)]
    assert int(data.passive[0].x.sum(1).max()) <= 20


def test_hashing_by_field_gives_each_column_buckets_of_its_own(tmp_path: Path) -> None:
    rows = table()
    put(tmp_path, text_of(rows))
    data = criteo(tmp_path, buckets=50, hashing="field")
    assert data.active is not None
    halves = ((data.passive[0], range(20)), (data.active, range(20, 39)))
    for party, columns in halves:
        widths = [3] * 10 + [2] * 10 if len(columns) == 20 else [3] * 12 + [2] * 7
        assert party.fields == tuple(widths)
        assert [s.name for s in party.sources] == [FEATURES[c] for c in columns]
        assert party.names[:4] == tuple(
            f"{FEATURES[c]} hash {k}" for c, k in zip([columns[0]] * 3 + [columns[1]], [0, 1, 2, 0], strict=True)
        )
        for r, row in enumerate(rows):
            start = 0
            for column, width in zip(columns, widths, strict=True):
                value = level(row[column + 1]) if column < 13 else row[column + 1]
                bucket = zlib.crc32(f"{FEATURES[column]}={value}".encode()) % width
                assert party.x[r, start : start + width].nonzero().flatten().tolist() == [bucket]
                start += width
    with pytest.raises(SpecError, match="fewer than two to each of the 20 columns"):
        criteo(tmp_path, buckets=39, hashing="field")
