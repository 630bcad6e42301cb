"""Parquet where a csv may stand: the same data set, and faults that name the file."""

import io
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from tests.helpers.refusals import refusal
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.reading.parquet import read_columnar
from tune_vfl.errors import DataError, SpecError
from tune_vfl.spec import Named


def own(**options: object) -> Dataset:
    return load(Named.model_validate({"name": "csv", **options}))


def frame(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "user": np.arange(n),
            "age": rng.integers(18, 80, n),
            "income": rng.normal(3e4, 1e4, n),
            "thin": rng.random(n).astype(np.float32),
            "job": pd.Categorical.from_codes(np.arange(n) % 3, ["cook", "smith", "clerk"]),
            "member": rng.random(n) < 0.5,
            "city": [None if k % 7 == 0 else f" town {k % 4}" for k in range(n)],
            "score": [np.nan if k % 5 == 0 else k / 3 for k in range(n)],
            "y": np.arange(n) % 2,
        }
    )
    made["visits"] = pd.array([None if k % 6 == 0 else k for k in range(n)], dtype="Int64")
    return made


def assert_equal(a: Dataset, b: Dataset) -> None:
    assert a.fingerprint == b.fingerprint
    assert a.notes == b.notes
    assert [p.names for p in a.passive] == [p.names for p in b.passive]


def test_parquet_is_the_data_set_of_the_same_csv(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "a.csv", index=False)
    frame().to_parquet(tmp_path / "a.parquet", index=False)
    frame().to_parquet(tmp_path / "no_ending", index=False)
    text, binary, unnamed = (
        own(path=str(tmp_path / name), label="y", id="user", split=1.0) for name in ("a.csv", "a.parquet", "no_ending")
    )
    assert_equal(text, binary)
    assert_equal(text, unnamed)
    kinds = {s.name: (s.kind, s.width) for s in text.passive[0].sources}
    assert kinds == {
        "age": ("number", 1),
        "income": ("number", 1),
        "thin": ("number", 1),
        "job": ("category", 3),
        "member": ("category", 2),
        "city": ("category", 5),
        "score": ("number", 2),
        "visits": ("number", 2),
    }


def test_a_party_with_parquet_and_a_party_with_csv(tmp_path: Path) -> None:
    """Also where the ids of one are floats, because pandas had some missing."""
    whole = frame()
    shop = whole[["user", "age", "job"]].sample(frac=1, random_state=1).iloc[:35]
    bank = whole[["user", "income", "y"]]
    shop.astype({"user": float}).to_csv(tmp_path / "shop.csv", index=False)
    bank.to_parquet(tmp_path / "bank.parquet")
    bank.to_csv(tmp_path / "bank.csv", index=False)

    def joined(name: str) -> Dataset:
        parties = {"shop": {"path": str(tmp_path / "shop.csv")}, "bank": {"path": str(tmp_path / name)}}
        return own(id="user", label="y", parties=parties)

    both = joined("bank.parquet")
    assert both.fingerprint == joined("bank.csv").fingerprint
    assert both.passive[0].x[:, 0].tolist() == bank.merge(shop, on="user")["age"].tolist()
    assert "bank.parquet: 5 of 40 rows have no partner in every file and are left out" in both.notes


def test_rows_without_an_id_are_counted(tmp_path: Path) -> None:
    shop = frame()[["user", "age"]].astype({"user": "Int64"})
    shop.loc[[3, 9], "user"] = pd.NA
    shop.to_parquet(tmp_path / "shop.parquet")
    frame()[["user", "income", "y"]].to_parquet(tmp_path / "bank.parquet")
    parties = {p: {"path": str(tmp_path / f"{p}.parquet")} for p in ("shop", "bank")}
    data = own(id="user", label="y", parties=parties)
    assert len(data.y) == 38
    assert (
        "shop.parquet: 2 of 40 rows have no partner in every file (2 of them without an id) and are left out"
        in data.notes
    )


def test_the_index_that_pandas_writes_is_no_feature(tmp_path: Path) -> None:
    frame().sample(frac=1, random_state=0).to_parquet(
        tmp_path / "a.parquet"
    )  # not a range, so pandas stores it as a column
    data = own(path=str(tmp_path / "a.parquet"), label="y", split=1.0)
    assert not any("index" in s.name for s in data.passive[0].sources)
    assert "a.parquet: the nameless index that pandas writes is left out" in data.notes


def test_all_levels_of_an_index_without_names_are_left_out(tmp_path: Path) -> None:
    table = frame()
    table.index = pd.MultiIndex.from_arrays([table.index % 7, table.index[::-1]])
    table.to_parquet(tmp_path / "a.parquet")
    data = own(path=str(tmp_path / "a.parquet"), label="y", split=1.0)
    assert not any("index" in s.name for s in data.passive[0].sources)
    assert "a.parquet: the nameless index that pandas writes is left out (2 levels)" in data.notes


@pytest.mark.parametrize("scale", [0, 9])
def test_decimals_are_written_plainly(tmp_path: Path, scale: int) -> None:
    values = [Decimal(k % 2 * 10) for k in range(40)]
    values[0] = Decimal(f"10.{'5' * scale}") if scale else Decimal(10)
    table = pa.table({"x": pa.array(values, pa.decimal128(20, scale)), "y": pa.array([*values[1:], Decimal(0)])})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    read = read_columnar(tmp_path / "a.parquet")
    assert set(read["x"]) == {"0", "10", f"10.{'5' * scale}" if scale else "10"}
    assert own(path=str(tmp_path / "a.parquet"), label="y", split=1.0).class_names == ("0", "10")


def test_a_column_whose_type_is_a_number_is_one_however_many_digits_it_has(tmp_path: Path) -> None:
    numbers = np.arange(40) * 3 + 10**17
    pa.parquet.write_table(pa.table({"x": numbers, "y": numbers % 2}), tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    (source,) = own(path=path, label="y", split=1.0).passive[0].sources
    assert source.kind == "number"
    x = own(path=path, label="y", split=1.0).passive[0].x[:, 0]
    assert len(x.unique()) == 40
    (source,) = own(path=path, label="y", split=1.0, categorical=["x"]).passive[0].sources
    assert source.kind == "category"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64"])
def test_numbers_come_back_as_they_were(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(1).random(50) * 100
    numbers = values.astype(dtype)
    pa.parquet.write_table(pa.table({"x": numbers}), tmp_path / "a.parquet")
    assert read_columnar(tmp_path / "a.parquet")["x"].astype("float64").astype(dtype).tolist() == numbers.tolist()


def whole_file(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


GOOD = whole_file(pa.table({"a": range(30), "y": [k % 2 for k in range(30)]}))
CASES = {
    "a csv": (b"a,y\n1,0\n", ["not a Parquet file", "b'a,y\\n'"]),
    "empty": (b"", ["not a Parquet file", "it is empty"]),
    "cut off": (GOOD[:-30], ["corrupt or cut off"]),
    "magic alone": (b"PAR1", ["corrupt or cut off"]),
    "no rows": (whole_file(pa.table({"a": pa.array([], pa.int64())})), ["no rows"]),
    "lists": (whole_file(pa.table({"a": [[1], [2]], "y": [0, 1]})), ["column 'a' holds list", "one number or text"]),
    "bytes": (whole_file(pa.table({"a": [b"\x00", b"\xff"], "y": [0, 1]})), ["column 'a' holds binary"]),
    "identifiers as bytes": (
        whole_file(pa.table({"a": pa.array([b"\xff\xfe"] * 2, pa.binary(2)), "y": [0, 1]})),
        ["column 'a' holds fixed_size_binary"],
    ),
    "a column twice": (
        whole_file(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])),
        ["column 'a' is there 2 times"],
    ),
    "infinite": (
        whole_file(pa.table({"a": [*range(29), float("inf")], "y": [k % 2 for k in range(30)]})),
        ["column 'a' holds inf in row 30"],
    ),
    "no label": (whole_file(pa.table({"a": [1], "z": [2]})), ["no column 'y'", "it has: a, z"]),
}


@pytest.mark.parametrize("case", CASES)
def test_faults(tmp_path: Path, case: str) -> None:
    content, words = CASES[case]
    file = tmp_path / "a.parquet"
    file.write_bytes(content)
    with refusal(file, *words):
        own(path=str(file), label="y", split=1.0)


def csv(tmp_path: Path, cells: list[str]) -> str:
    path = tmp_path / "a.csv"
    path.write_text("c,d,y\n" + "".join(f"{c},{k},{k % 2}\n" for k, c in enumerate(cells)))
    return str(path)


def test_declared_kinds(tmp_path: Path) -> None:
    path = csv(tmp_path, ["1", "2", "3", "2"] * 3)
    assert own(path=path, label="y").passive[0].names == ("c",)
    coded = own(path=path, label="y", categorical="c", split=0.5)
    assert coded.passive[0].names == ("c=1", "c=2", "c=3")
    assert coded.notes == ()
    assert own(path=path, label="y", categorical="c", codes="ordinal").passive[0].sources[0].kind == "code"


def test_text_in_a_column_declared_numeric_is_refused(tmp_path: Path) -> None:
    path = csv(tmp_path, ["1", "", "3", "4,5".replace(",", "."), "x9", "2"] * 2)
    assert own(path=path, label="y").passive[0].sources[0].kind == "category"
    with pytest.raises(DataError, match=r"a\.csv: column 'c' is declared numeric, but holds 'x9' in row 5; correct it"):
        own(path=path, label="y", numeric=["c"])
    with pytest.raises(DataError, match=r"column 'dd', listed as numeric, is no party's feature.*mean 'd'"):
        own(path=path, label="y", numeric=["dd"])
    with pytest.raises(SpecError, match="'c' is listed as numeric and as categorical"):
        own(path=path, label="y", numeric=["c"], categorical=["c"])


@pytest.mark.parametrize(("ones", "told"), [(3, "class '1' is 15.0% of 20 rows"), (17, "class '0' is 15.0%"), (4, "")])
def test_a_rare_class_is_told_and_the_metric_stays_auc(tmp_path: Path, ones: int, told: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("c,d,y\n" + "".join(f"{k},{k},{int(k < ones)}\n" for k in range(20)))
    data = own(path=str(path), label="y", split=0.5)
    assert data.metric == "auc"
    assert [told in note for note in data.notes] == ([True] if told else [])
    assert torch.bincount(data.y).tolist() == [20 - ones, ones]
