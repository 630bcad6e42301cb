"""Give Me Some Credit and the steel plates: what is read, what is refused, and the real files where they are."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.sets.give_me_some_credit import GiveMeSomeCredit
from tune_vfl.data.sets.steel_plates import CLASSES, FAULTS
from tune_vfl.data.split import split
from tune_vfl.spec import Named

FEATURES, LABEL = GiveMeSomeCredit.features, GiveMeSomeCredit.label
CREDIT = "give_me_some_credit/cs-training.csv"
STEEL = "steel_plates_faults/steel_plates_faults.csv"


def put(root: Path, relative: str, text: str) -> Path:
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if relative.endswith(".gz") else text.encode())
    return path


def read(root: Path, name: str, **options: object) -> Dataset:
    return load(Named.model_validate({"name": name, **options}), root=root)


def real(name: str, **options: object) -> Dataset:
    return load(Named.model_validate({"name": name, **options}))


def credit(rows: int = 40) -> list[list[str]]:
    header = ["", LABEL, *FEATURES]
    rng = np.random.default_rng(0)
    body = [[str(k + 1), str(int(k % 4 == 0)), *map(str, rng.integers(0, 90, 10))] for k in range(rows)]
    body[2][6], body[5][6], body[7][11] = "NA", "NA", "NA"
    return [header, *body]


def text_of(table: list[list[str]]) -> str:
    return "\n".join(",".join(row) for row in table) + "\n"


@pytest.mark.parametrize("name", ["give_me_some_credit", "loan"])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_credit_marks_what_is_missing_and_shortens_long_tails(tmp_path: Path, name: str, end: str) -> None:
    table = credit()
    put(tmp_path, CREDIT + end, text_of(table))
    data = read(tmp_path, name)
    assert data.active is not None
    assert data.name == name
    assert data.passive[0].names == (*FEATURES[:5], "MonthlyIncome=missing")
    assert data.active.names == (*FEATURES[5:], "NumberOfDependents=missing")
    x, row = data.passive[0].x, table[1]
    assert x[0].tolist() == pytest.approx(
        [
            math.log1p(float(row[2])),
            float(row[3]),
            float(row[4]),
            math.log1p(float(row[5])),
            math.log1p(float(row[6])),
            0,
        ]
    )
    assert x[:, 4].isnan().nonzero().flatten().tolist() == x[:, 5].nonzero().flatten().tolist() == [2, 5]
    assert data.y[:5].tolist() == [1, 0, 0, 0, 1]
    assert any("MonthlyIncome" in note and "2 of 40" in note for note in data.notes)
    cut = split(data, 0)
    assert len(cut.y_test) == 8
    assert torch.isfinite(cut.passive_train[0]).all()


def test_credit_keeps_a_stratified_sample(tmp_path: Path) -> None:
    put(tmp_path, CREDIT, text_of(credit()))
    data = read(tmp_path, "give_me_some_credit", rows=20)
    assert torch.bincount(data.y).tolist() == [15, 5]
    assert "20 of 40 rows" in data.notes[0]


def changed(table: list[list[str]], row: int, column: int, value: str) -> str:
    table[row][column] = value
    return text_of(table)


CREDIT_FAULTS = {
    "another header": (changed(credit(), 0, 3, "years"), ["not so: age, years"]),
    "a column too few": (text_of([row[:-1] for row in credit()]), ["not so: NumberOfDependents"]),
    "a line cut off": (text_of(credit())[:-12], ["line 41 has", "fields where 12"]),
    "missing label": (changed(credit(), 3, 1, ""), [LABEL, "missing in 1 of 40 rows"]),
    "bad label": (changed(credit(), 3, 1, "2"), [LABEL, "holds 0, 1, 2, expected 0 and 1"]),
    "text": (changed(credit(), 3, 3, "old"), ["expected numbers", "'age=", "fetch it again"]),
    "negative income": (changed(credit(), 4, 6, "-5"), ["'MonthlyIncome' holds negative numbers"]),
}


@pytest.mark.parametrize("fault", CREDIT_FAULTS)
def test_broken_credit_is_named(tmp_path: Path, fault: str) -> None:
    text, words = CREDIT_FAULTS[fault]
    path = put(tmp_path, CREDIT, text)
    with refusal(path, *words):
        read(tmp_path, "give_me_some_credit")


def steel(rows: int = 70) -> list[list[str]]:
    rng = np.random.default_rng(0)
    header = [*(f"m{k}" for k in range(27)), *FAULTS]
    return [header] + [
        [*map(str, rng.normal(5, 3, 27).round(3)), *(str(int(k % 7 == c)) for c in range(7))] for k in range(rows)
    ]


def test_steel_plates_name_their_fault(tmp_path: Path) -> None:
    put(tmp_path, STEEL, text_of(steel()))
    data = read(tmp_path, "steel_plates")
    assert (data.passive[0].shape, data.class_names, data.metric) == ((14,), CLASSES, "accuracy")
    assert data.y.tolist() == [k % 7 for k in range(70)]
    assert len(split(data, 0).y_test) == 14
    stand_in = read(tmp_path, "fault")
    same = read(tmp_path, "steel_plates", split=0.49)
    assert (stand_in.name, stand_in.fingerprint) == ("fault", same.fingerprint)
    assert "stand in" in stand_in.notes[0]
    assert not data.notes


STEEL_FAULTS = {
    "two faults": (changed(steel(), 3, 27, "1"), ["row 3 has the fault columns 1, 0, 1, 0"]),
    "no fault": (changed(steel(), 1, 27, "0"), ["row 1 has the fault columns 0, 0, 0", "exactly one"]),
    "half a fault": (changed(steel(), 1, 27, "0.5"), ["row 1 has the fault columns 0.5"]),
    "a missing value": (changed(steel(), 6, 4, ""), ["complete numeric columns"]),
    "text": (changed(steel(), 6, 4, "wide"), ["complete numeric columns"]),
    "a feature too few": (text_of([row[1:] for row in steel()]), ["got 26 features and 7"]),
    "a fault column too few": (text_of([row[:-1] for row in steel()]), ["got 27 features and 6"]),
    "cut off": (text_of(steel())[:-20], ["line 71 has", "cut off"]),
    "one class missing": (text_of([r for r in steel() if r[-1] != "1"]), ["class 'other' has 0 rows"]),
}


@pytest.mark.parametrize("fault", STEEL_FAULTS)
def test_broken_steel_plates_are_named(tmp_path: Path, fault: str) -> None:
    text, words = STEEL_FAULTS[fault]
    path = put(tmp_path, STEEL, text)
    with refusal(path, *words):
        read(tmp_path, "steel_plates")


@pytest.mark.public_data(CREDIT)
def test_the_real_credit_has_its_rows() -> None:
    data = real("give_me_some_credit")
    assert data.recipe.auxiliary_per_class == 50
    assert torch.bincount(data.y).tolist() == [139_974, 10_026]
    assert sum(int(p.x.isnan().sum()) for p in [*data.passive, data.active] if p is not None) == 29_731 + 3_924
    assert len(split(data, 0).y_test) == 30_000


@pytest.mark.public_data(STEEL)
def test_the_real_steel_plates_have_their_rows() -> None:
    data = real("steel_plates")
    assert torch.bincount(data.y).tolist() == [158, 190, 391, 72, 55, 402, 673]
    assert data.passive[0].names[0] == "X_Minimum"
