"""Numbers in 32 bits: a column tells the same whatever its offset and its unit, in every kind of file."""

from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.check import examine
from tune_vfl.data.column_notes import grouped
from tune_vfl.data.encode import Encoding, encode_column
from tune_vfl.data.precision import fitted
from tune_vfl.data.split import split
from tune_vfl.errors import DataError
from tune_vfl.spec import Named


@pytest.fixture(name="table")
def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    return pd.DataFrame({"a": rng.normal(size=400), "t": rng.integers(0, 300, 400) + 150 * y, "y": y})


def write(folder: Path, table: pd.DataFrame, kind: str) -> dict[str, object]:
    """Write a table as a csv, Parquet, or a file a party; return the options that read it."""
    ids = table.assign(i=np.arange(len(table)))
    if kind == "joined":
        ids[["i", "t"]].iloc[::-1].to_csv(folder / "p.csv", index=False)
        ids.drop(columns="t").to_parquet(folder / "q.parquet", index=False)
        parties = {"p": {"path": str(folder / "p.csv")}, "q": {"path": str(folder / "q.parquet")}}
        return {"id": "i", "label": "y", "parties": parties}
    path = folder / f"t.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    return {"path": str(path), "label": "y", "parties": {"p": ["t"], "q": ["a"]}}


def read(options: dict[str, object]) -> Dataset:
    return load(Named.model_validate({"name": "csv", **options}))


# Seconds, milliseconds, coordinates in millimeters, a tenth of a microdegree, huge and tiny units.
CHANGED = {
    "seconds since 1970": lambda t: t + 1_600_000_000,
    "milliseconds since 1970": lambda t: t + 1_600_000_000_000,
    "fifteen digits": lambda t: t + 900_000_000_000_000,
    "before 1970": lambda t: t - 2_000_000_000,
    "a coordinate": lambda t: 52.5 + t * 1e-9,
    "tiny": lambda t: t * 1e-44,
    "tinier": lambda t: t * 1e-300,
    "huge": lambda t: (t + 1) * 1e36,
    "beyond 32 bits": lambda t: (t + 1) * 1e200,
}


@pytest.mark.parametrize("kind", ["csv", "parquet", "joined"])
@pytest.mark.parametrize("change", CHANGED)
def test_offset_and_unit_make_no_difference(tmp_path: Path, table: pd.DataFrame, kind: str, change: str) -> None:
    first, second = [], []
    for k, t in enumerate((table["t"], CHANGED[change](table["t"]))):
        (tmp_path / str(k)).mkdir()
        data = read(write(tmp_path / str(k), table.assign(t=t), kind))
        column = next(p for p in examine(data).parties if p.name == "p").columns[0]
        first.append((column.kind, column.distinct, column.alone))
        second.append(split(data, 3).passive_train[0].numpy())
    assert first[0] == first[1]
    np.testing.assert_allclose(second[0], second[1], atol=2e-4 if change == "a coordinate" else 2e-5)


def test_a_column_that_32_bits_can_hold_stays_as_it_is(table: pd.DataFrame) -> None:
    for column in (table["a"], table["t"], table["t"] / 7, table["t"] + 2000, pd.Series([0.1] * 9)):
        numbers = column.to_numpy(dtype=np.float64)
        assert fitted(numbers)[0].tolist() == numbers.astype(np.float32).tolist()


def test_a_sentinel_far_away_does_not_merge_the_others(table: pd.DataFrame) -> None:
    numbers = np.concatenate([table["t"].to_numpy(dtype=np.float64) + 1.6e9, [0.0, -1.0]])
    assert len(np.unique(fitted(numbers)[0])) == len(np.unique(numbers)) - 1  # 0 and -1 are one from so far


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=12))
def test_order_is_kept_and_results_are_finite(values: list[float]) -> None:
    numbers = np.array(values, dtype=np.float64)
    x, _ = fitted(numbers)
    assert np.isfinite(x).all()
    assert (np.diff(x[np.argsort(numbers, kind="stable")]) >= 0).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=3, max_size=30), st.integers(10**9, 10**14))
def test_whole_numbers_keep_their_distances(values: list[int], offset: int) -> None:
    """Against exact fractions: after any offset that needs no 16 digits, distances keep their proportions."""
    x = [Fraction(float(v)) for v in fitted(np.array(values, dtype=np.float64) + offset)[0]]
    span = max(x) - min(x)
    for value, seen in zip(values, x, strict=True):
        asked = Fraction(value - min(values), max(max(values) - min(values), 1))
        assert abs((seen - min(x)) / (span or 1) - asked) < Fraction(1, 10**5)


def test_numbers_that_stay_equal_are_named() -> None:
    # The median of values on both sides of a gap lies at one of them; what is left on the other side merges.
    values = [str(k) for k in range(100)] + [str(10**12 + k) for k in range(100)]
    (said,) = grouped(encode_column(pd.Series(values), "c", "f.csv", Encoding()).notes)
    assert said == (
        "different numbers that are equal in 32 bits, also after the column was centered: column 'c' (101 of 200 "
        "values are left)"
    )


def test_spellings_of_one_number_are_a_constant_column(tmp_path: Path) -> None:
    cells = ["1", "1.0", "1.00000000000000000001"]
    (tmp_path / "a.csv").write_text("a,b,y\n" + "".join(f"{cells[k % 3]},{k},{k % 2}\n" for k in range(30)))
    facts = examine(read({"path": str(tmp_path / "a.csv"), "label": "y"}))
    assert [(f.column, f.oddity) for f in facts.findings if f.oddity == "constant"] == [("a", "constant")]


def test_a_slip_beyond_32_bits_is_refused() -> None:
    with pytest.raises(DataError, match=r"column 'c' holds 1e\+40 in row 3"):
        encode_column(pd.Series(["1", "", "1e40", "2"]), "c", "f.csv", Encoding())
