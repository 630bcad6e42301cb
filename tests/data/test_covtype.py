"""Covertype, and the reader of plain numbers that it is read with."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.reading.numbers import read_numbers
from tune_vfl.data.sets.covtype import CLASSES, FEATURES
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

FILE = "covtype/covtype.data.gz"


def lines(rows: int = 70) -> list[str]:
    rng = np.random.default_rng(0)
    return [",".join(map(str, [*rng.integers(-5, 4000, 54), k % 7 + 1])) for k in range(rows)]


def put(root: Path, text: str) -> Path:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def covtype(root: Path, **options: object) -> Dataset:
    return load(Named.model_validate({"name": "covtype", **options}), root=root)


def test_columns_classes_and_shares(tmp_path: Path) -> None:
    table = lines()
    put(tmp_path, "\n".join(table) + "\n")
    data = covtype(tmp_path)
    assert data.active is not None
    assert (len(FEATURES), len(CLASSES)) == (54, 7)
    assert (data.passive[0].names, data.active.names) == (FEATURES[:27], FEATURES[27:])
    assert [float(v) for v in table[3].split(",")] == [*data.passive[0].x[3].tolist(), *data.active.x[3].tolist(), 4.0]
    assert data.y.tolist() == [k % 7 for k in range(70)]
    assert data.class_names == CLASSES
    assert "70 of the official 581,012" in data.notes[0]
    cut = split(data, 0)
    # 10 rows a class x 18/58 = 3.1 of each.
    assert len(cut.y_test) == round(70 * 18 / 58)
    assert cut.passive_train[0].mean(0).abs().max() < 1e-5


def test_a_sample_is_stratified(tmp_path: Path) -> None:
    put(tmp_path, "\n".join(lines()))
    data = covtype(tmp_path, rows=35)
    assert torch.bincount(data.y).tolist() == [5] * 7
    assert "a stratified sample of 35 of 70 rows" in data.notes[1]
    with pytest.raises(DataError, match="covtype: rows asks for 71 of 70 rows; give 7"):
        covtype(tmp_path, rows=71)


def changed(line: int, column: int, text: str) -> str:
    table = [row.split(",") for row in lines()]
    table[line - 1][column - 1] = text
    return "\n".join(",".join(row) for row in table)


FAULTS = {
    "empty": ("", ["is empty", "55 numbers"]),
    "another file": ("hello\nworld\n", ["column 1 of 55 in line 1 holds 'hello'", "no finite number"]),
    "cut off in a line": ("\n".join(lines())[:-20], ["in line 70 is missing", "cut off"]),
    "a field too few": ("\n".join([*lines(), "1,2,3"]), ["column 4 of 55 in line 71 is missing"]),
    "a field too many": ("\n".join([*lines(), lines()[0] + ",1"]), ["line 71 has more than the 55"]),
    "two fields too many": ("\n".join([*lines(), lines()[0] + ",1,1"]), ["55", "fields in line 71"]),
    "text": (changed(5, 3, "steep"), ["column 3 of 55 in line 5 holds 'steep'"]),
    "infinite": (changed(6, 54, "inf"), ["column 54 of 55 in line 6 holds 'inf'"]),
    "missing": (changed(7, 2, ""), ["column 2 of 55 in line 7 is missing"]),
    "label 0": (changed(8, 55, "0"), ["the label in line 8 is 0, expected 1 to 7"]),
    "label 2.5": (changed(9, 55, "2.5"), ["the label in line 9 is 2.5"]),
    "a class missing": ("\n".join(r for r in lines() if not r.endswith(",7")), ["class 'Krummholz' has 0 rows"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_named(tmp_path: Path, fault: str) -> None:
    text, words = FAULTS[fault]
    path = put(tmp_path, text)
    with refusal(path, *words):
        covtype(tmp_path)


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "\n".join(lines()))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"covtype\.data\.gz: is corrupt or cut off"):
        covtype(tmp_path)


def test_numbers_are_read_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,-2.5\n3e4,0\n")
    assert read_numbers(path, 2).tolist() == [[1, -2.5], [30000, 0]]


@pytest.mark.public_data(FILE)
def test_the_real_file_has_the_official_proportions() -> None:
    data = load(Named(name="covtype"))
    official = torch.tensor([211840, 283301, 35754, 2747, 9493, 17367, 20510]) / 581012
    share = torch.bincount(data.y) / len(data.y)
    assert data.recipe.auxiliary_per_class == 20
    assert (share - official).abs().max() < 1e-3
    assert len(data.y) == 581_012 or "of the official 581,012" in data.notes[0]
    assert data.active is not None
    # One wilderness area and one soil type each.
    whole = torch.cat([data.passive[0].x, data.active.x], 1)
    assert (whole[:, 10:14].sum(1) == 1).all()
    assert (whole[:, 14:].sum(1) == 1).all()
