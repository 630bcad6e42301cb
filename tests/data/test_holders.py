"""Rows by a client column: whose each row is, and what of a column cannot say it."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.reading.holders import read_holders
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named

TABLE = """hospital,age,sex,sick
north,50,m,1
south ,61,f,0
north,44,f,0
east,70,m,1
south,58,m,1
east,49,f,0
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "patients.csv"
    file.write_text(TABLE)
    return file


def own(path: Path, **options: Any) -> Dataset:
    return load(Named(name="csv", path=str(path), label="sick", split=1.0, **options))


def test_the_client_column_says_whose_each_row_is_and_is_no_feature(path: Path) -> None:
    data = own(path, client="hospital")
    assert data.holders is not None
    assert data.holders.names == ("east", "north", "south")
    assert data.holders.of.tolist() == [1, 2, 1, 0, 2, 0]
    assert data.passive[0].names == ("age", "sex=f", "sex=m")
    some = data.holders.at(torch.tensor([3, 0]))
    assert (some.names, some.of.tolist()) == (data.holders.names, [0, 1])
    without = own(path)
    assert without.holders is None
    assert [s.name for s in without.passive[0].sources] == ["hospital", "age", "sex"]


def test_other_clients_are_other_data_and_no_clients_the_same_as_ever(path: Path) -> None:
    before = own(path, client="hospital").fingerprint
    assert before != own(path, exclude=["hospital"]).fingerprint
    path.write_text(TABLE.replace("east,49", "north,49"))
    assert own(path, client="hospital").fingerprint != before


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"client": "clinic"}, DataError, "the header has no column 'clinic', the client"),
        ({"client": "sick"}, SpecError, "which is the label or the id"),
        ({"client": "hospital", "exclude": ["hospital"]}, DataError, "exclude lists 'hospital', which is the client"),
    ],
)
def test_columns_that_cannot_be_the_clients(path: Path, options: dict[str, Any], error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        own(path, **options)


def test_a_listed_feature_is_not_the_client(path: Path) -> None:
    listed = {"path": str(path), "label": "sick", "client": "hospital", "parties": {"all": ["age", "hospital"]}}
    with pytest.raises(DataError, match="'hospital' is the client and no feature of party 'all'"):
        load(Named(name="csv", **listed))


def test_files_by_party_have_no_clients(path: Path) -> None:
    files = {"label": "sick", "id": "age", "client": "hospital", "parties": {"one": {"path": str(path)}}}
    with pytest.raises(SpecError, match="client is for one file of all rows"):
        load(Named(name="csv", **files))


def test_a_row_of_nobody_and_too_many_clients_are_refused() -> None:
    with pytest.raises(DataError, match=r"f: is missing in 2 of 3 rows \(first in row 2\)"):
        read_holders(pd.Series(["a", "", "NA"]), "f")
    with pytest.raises(DataError, match="has 1001 different values, and each is a client"):
        read_holders(pd.Series([str(k) for k in range(1001)]), "f")
    assert len(read_holders(pd.Series([str(k) for k in range(1000)]), "f").names) == 1000
