"""``exclude``: columns of no party, in one table and in a file a party, and the words for lists that cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tune_vfl.data import load, written_out
from tune_vfl.data.base import Dataset
from tune_vfl.errors import DataError
from tune_vfl.spec import Named


@pytest.fixture(autouse=True)
def _tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=40).round(3) for name in "abcdef"})
    frame = frame.assign(user=[f"u{k}" for k in range(40)], note=[f"n{k}" for k in range(40)], y=np.arange(40) % 2)
    frame.to_csv("a.csv", index=False)
    frame[["user", "a", "b", "note"]].to_csv("shop.csv", index=False)
    frame[["user", "c", "d", "y"]].to_csv("bank.csv", index=False)


def own(**options: Any) -> Dataset:
    return load(Named.model_validate({"name": "csv", "label": "y", **options}))


def names(data: Dataset) -> dict[str, tuple[str, ...]]:
    return {held.party: held.names for held in data.parties}


def test_a_split_is_of_the_columns_that_stay() -> None:
    data = own(path="a.csv", id="user", exclude=["a", "note", "d"])
    assert names(data) == {"passive": ("b", "c"), "active": ("e", "f")}
    assert "excluded: a, note, d" in data.notes
    assert not any("of no party" in note for note in data.notes)


def test_listed_columns_may_be_pasted_into_exclude() -> None:
    data = own(path="a.csv", parties={"p": ["a", "b"], "active": ["c"]}, exclude=["a", "c", "note"], numeric=["a", "b"])
    assert names(data) == {"p": ("b",)}
    assert data.active is None
    assert "columns of no party, left out: d, e, f, user" in data.notes


def test_a_file_a_party() -> None:
    parties = {"shop": {"path": "shop.csv"}, "bank": {"path": "bank.csv", "columns": ["c", "d"]}}
    assert names(own(id="user", parties=parties, exclude=["note", "d"])) == {"shop": ("a", "b"), "bank": ("c",)}
    assert own(id="user", parties=parties, exclude=["c", "d"]).active is None
    with pytest.raises(DataError, match="exclude leaves party 'shop' without columns"):
        own(id="user", parties=parties, exclude=["a", "b", "note"])


def test_it_is_part_of_what_is_written_out() -> None:
    asked = Named.model_validate({"name": "csv", "label": "y", "path": "a.csv", "exclude": "note"})
    assert written_out(asked).options["exclude"] == ["note"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exclude": ["notes"]}, "exclude lists 'notes', which is not in the header. Did you mean 'note'?"),
        ({"exclude": ["zzz"]}, "exclude lists 'zzz', which is not in the header. It has: a, b, c"),
        ({"exclude": ["y"]}, "exclude lists 'y', which is the label and no feature"),
        ({"id": "user", "exclude": ["user"]}, "exclude lists 'user', which is the id and no feature"),
        ({"exclude": [*"abcdef", "note", "user"]}, "has no column beside 'y', 'a', 'b'"),
        ({"exclude": ["a"], "parties": {"p": ["a"], "active": ["b"]}}, "exclude leaves party 'p' without columns"),
    ],
)
def test_lists_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as caught:
        own(path="a.csv", **options)
    assert words in str(caught.value)
