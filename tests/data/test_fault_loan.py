"""The fault and the loan data of the papers: the wide tables where they are, what stands in for them where not."""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.data.test_tables import CREDIT, credit, put, text_of
from tune_vfl.data import load, loading, written_out
from tune_vfl.data.base import Dataset
from tune_vfl.data.cached import keep, stamp, take
from tune_vfl.data.reading.files import holds, recorded
from tune_vfl.data.sets.steel_plates import FAULTS
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named

STEEL = "steel_plates_faults/steel_plates_faults.csv"


def read(root: Path, name: str, **options: object) -> Dataset:
    return load(Named.model_validate({"name": name, **options}), root=root)


def wide(columns: int, classes: int, rows: int = 60) -> pd.DataFrame:
    values = np.random.default_rng(columns).normal(size=(rows, columns)).round(3)
    frame = pd.DataFrame(values, columns=[f"c{k}" for k in range(columns)])
    return frame.assign(kind=np.arange(rows) % classes)


def steel(rows: int = 70) -> pd.DataFrame:
    frame = wide(27, 7, rows)
    flags = pd.DataFrame(np.eye(7, dtype=int)[frame.pop("kind")], columns=list(FAULTS))
    return pd.concat([frame, flags], axis=1)


def test_the_kaggle_faults_are_cut_as_published(tmp_path: Path) -> None:
    frame = wide(47, 3)
    put(tmp_path, "fault/fault.csv", frame.to_csv(index=False))
    data = read(tmp_path, "fault")
    assert data.active is not None
    assert (data.passive[0].shape, data.active.shape) == ((23,), (24,))
    whole = np.concatenate([data.passive[0].x.numpy(), data.active.x.numpy()], 1)
    np.testing.assert_allclose(whole, frame.drop(columns="kind").to_numpy(), rtol=1e-5)
    assert (data.y.tolist(), data.class_names) == (frame["kind"].tolist(), ("0", "1", "2"))
    assert (len(split(data, 0).y_test), data.recipe.auxiliary_per_class, data.notes) == (12, 30, ())


def test_another_label_column_and_counts_are_told(tmp_path: Path) -> None:
    frame = wide(46, 4)
    put(tmp_path, "fault/fault.csv.gz", frame[["kind", *frame.columns[:-1]]].to_csv(index=False))
    data = read(tmp_path, "fault", label="kind")
    assert "46 columns and 4 classes by 'kind', LabObf counts 47 and 3" in data.notes[0]
    with pytest.raises(DataError, match=r"fault\.csv\.gz: the header has no column 'sort', the label; it has: kind"):
        read(tmp_path, "fault", label="sort")
    with pytest.raises(DataError, match=r"fault\.csv\.gz: label column 'c45': "):
        read(tmp_path, "fault")


def test_text_among_the_faults_is_refused_by_row(tmp_path: Path) -> None:
    frame = wide(47, 3).astype(object)
    frame.loc[4, "c7"] = "high"
    put(tmp_path, "fault/fault.csv", frame.to_csv(index=False))
    with pytest.raises(DataError, match=r"fault\.csv: .*'c7'.*'high'"):
        read(tmp_path, "fault")


def test_steel_plates_stand_in_until_the_faults_are_there(tmp_path: Path) -> None:
    put(tmp_path, STEEL, steel().to_csv(index=False))
    before = read(tmp_path, "fault")
    assert (before.name, before.num_classes, before.passive[0].shape) == ("fault", 7, (13,))
    assert "stand in for the Kaggle fault data" in before.notes[0]
    assert "guanlintao" in before.notes[0]
    put(tmp_path, "fault/fault.csv", wide(47, 3).to_csv(index=False))
    assert read(tmp_path, "fault").num_classes == 3
    with pytest.raises(DataError, match=r"fault\.csv: no such file; put .*guanlintao"):
        read(tmp_path / "elsewhere", "fault", label="kind")


def loans(rows: int = 60) -> pd.DataFrame:
    frame = wide(155, 2, rows)
    frame.insert(3, "purpose", [("car", "home", "")[k % 3] for k in range(rows)])
    return frame.assign(kind=[("paid", "late")[k % 4 == 0] for k in range(rows)])


@pytest.mark.parametrize("place", ["loan/loan.csv", "loan/loan.csv.gz", "loan/loan.parquet"])
def test_a_wide_table_of_loans_comes_before_the_cited_one(tmp_path: Path, place: str) -> None:
    put(tmp_path, CREDIT, text_of(credit()))
    if place.endswith("parquet"):
        (tmp_path / place).parent.mkdir()
        loans().to_parquet(tmp_path / place)
    else:
        put(tmp_path, place, loans().to_csv(index=False))
    data = read(tmp_path, "loan", positive="late")
    assert data.active is not None
    sources = [len({s.name for s in p.sources} or p.names) for p in (data.passive[0], data.active)]
    assert sources == [78, 78]
    assert data.class_names == ("paid", "late")
    assert torch.bincount(data.y).tolist() == [45, 15]
    assert not any("LADSG counts 156" in note for note in data.notes)
    assert len(split(data, 0).y_test) == 12


def test_without_one_the_cited_file_is_read_and_said_so(tmp_path: Path) -> None:
    put(tmp_path, CREDIT, text_of(credit()))
    data = read(tmp_path, "loan")
    cited = read(tmp_path, "give_me_some_credit")
    assert torch.allclose(data.passive[0].x, cited.passive[0].x, equal_nan=True)
    assert data.y.equal(cited.y)
    assert data.name == "loan"
    assert "ten columns of the file that LADSG cites, where it counts 156" in data.notes[0]
    with pytest.raises(DataError, match=r"loan/loan\.csv: no such file"):
        read(tmp_path, "loan", label="kind")


def test_balanced_loans_have_as_many_of_each_class(tmp_path: Path) -> None:
    put(tmp_path, "loan/loan.csv", loans().to_csv(index=False))
    whole, data = read(tmp_path, "loan", positive="late"), read(tmp_path, "loan", positive="late", balance=True)
    assert torch.bincount(whole.y).tolist() == [45, 15]
    assert torch.bincount(data.y).tolist() == [15, 15]
    assert any("30 of 60 rows, as many of each class" in note for note in data.notes)
    rows = [next(k for k, other in enumerate(whole.active.x) if torch.equal(x, other)) for x in data.active.x]
    assert data.y.tolist() == whole.y[rows].tolist()
    assert rows == sorted(set(rows))
    assert len(read(tmp_path, "loan", positive="late", balance=True, rows=20).y) == 20


@pytest.mark.parametrize("name", ["loan", "give_me_some_credit", "criteo"])
def test_a_balance_that_nobody_asked_for_is_no_part_of_a_study(name: str) -> None:
    """Studies of before the option lack it, and are resumed as what they are."""
    assert "balance" not in written_out(Named(name=name)).options
    assert written_out(Named.model_validate({"name": "loan", "balance": True})).options["balance"] is True


def test_other_widths_and_labels_of_loans_are_told(tmp_path: Path) -> None:
    put(tmp_path, "loan/loan.csv", wide(12, 2).to_csv(index=False))
    assert "loan.csv has 12 columns, LADSG counts 156" in read(tmp_path, "loan").notes[0]
    assert len(read(tmp_path, "loan", rows=20).y) == 20
    put(tmp_path, "loan/loan.csv", wide(12, 3).to_csv(index=False))
    with pytest.raises(DataError, match=r"loan\.csv: label column 'kind': has 3 classes, expected 2"):
        read(tmp_path, "loan")
    with pytest.raises(DataError, match=r"loan\.csv: the header has no column 'y', the label"):
        read(tmp_path, "loan", label="y")


def test_what_was_not_there_is_noticed_by_the_kept_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(loading, "_cache", OrderedDict())
    with recorded() as opened:
        assert not holds(tmp_path, "absent")
    data = load(Named(name="wine"))
    keep("key", data, {path: stamp(path) for path in opened})
    assert take("key", "wine") is not None
    (tmp_path / "absent").mkdir()
    assert take("key", "wine") is None


@pytest.mark.public_data(STEEL, CREDIT)
def test_the_stand_ins_here() -> None:
    for name in ("fault", "loan"):
        data = load(Named(name=name))
        assert data.name == name
        assert data.notes
    assert torch.bincount(load(Named.model_validate({"name": "loan", "balance": True})).y).tolist() == [10_026, 10_026]
