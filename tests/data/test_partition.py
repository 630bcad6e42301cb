"""What must hold of any table and partition: nothing lost, nothing twice, nothing of another party, in any order."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
from hypothesis import HealthCheck, assume, given, settings

from tune_vfl import evaluate
from tune_vfl.data import load
from tune_vfl.data.base import Columns, Dataset
from tune_vfl.data.check import examine
from tune_vfl.data.split import split
from tune_vfl.spec import Named

some = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ROWS = 24


@contextmanager
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as made:
        yield Path(made)


def own(**options: object) -> Dataset:
    return load(Named.model_validate({"name": "csv", **options}))


def parties_of(data: Dataset) -> dict[str, Columns]:
    return {c.party: c for c in [*data.passive, *([data.active] if data.active else [])]}


def numbered(columns: int, rows: int = ROWS) -> pd.DataFrame:
    """Column ``c{k}`` holds 1000 k + row: each value says which column and which row it is of."""
    frame = pd.DataFrame({f"c{k}": 1000 * k + np.arange(rows) for k in range(columns)})
    return frame.assign(y=np.arange(rows) % 3)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[int, dict[str, list[str]]]:
    """A number of columns, and who holds which: 1 to 7 passive parties, in any order of columns."""
    columns = draw(st.integers(1, 14))
    order = draw(st.permutations(range(columns)))
    passive = draw(st.integers(1, min(7, columns)))
    cuts = sorted(draw(st.sets(st.integers(1, columns), min_size=passive, max_size=passive)))
    held = {f"p{k}": [f"c{c}" for c in order[a:b]] for k, (a, b) in enumerate(zip([0, *cuts], cuts, strict=False))}
    return columns, {**held, "active": [f"c{c}" for c in order[cuts[-1] :]]}


@some
@given(partition=partitions(), seed=st.integers(0, 99))
def test_no_row_and_no_column_is_lost_or_strays_to_another_party(
    partition: tuple[int, dict[str, list[str]]], seed: int
) -> None:
    columns, held = partition
    with folder() as at:
        numbered(columns).to_csv(at / "a.csv", index=False)
        data = own(path=str(at / "a.csv"), label="y", parties=held)
        cut = split(data, seed)
    found = parties_of(data)
    assert list(found) == [name for name, names in held.items() if names]
    assert sorted(n for c in found.values() for n in c.names) == sorted(f"c{k}" for k in range(columns))
    for name, c in found.items():
        expected = [[1000 * int(n[1:]) + row for n in held[name]] for row in range(ROWS)]
        assert c.x.tolist() == expected
    assert sorted([*cut.train_rows.tolist(), *cut.test_rows.tolist()]) == list(range(ROWS))
    widths = [x.shape[1] for x in cut.features("train")]
    assert widths == [len(held[name]) for name in found]


@some
@given(partition=partitions(), seed=st.integers(0, 99), dropped=st.integers(0, 6))
def test_a_file_a_party_is_the_table_and_the_order_of_its_rows_does_not_matter(
    partition: tuple[int, dict[str, list[str]]], seed: int, dropped: int
) -> None:
    """Rows stand in the order of the label party's file, so that passive parties may send theirs in any order."""
    columns, held = partition
    whole = numbered(columns).assign(user=[f"u{k}" for k in range(ROWS)])
    rng = np.random.default_rng(seed)
    left = set(range(ROWS))
    with folder() as at:
        for name, names in held.items():
            part = whole[["user", *names, *(["y"] if name == "active" else [])]]
            part.to_csv(at / f"{name}.csv", index=False)
            kept = np.arange(ROWS) if name == "active" else rng.permutation(ROWS)[dropped:]
            left &= set(kept.tolist())
            shuffled = part.iloc[kept]
            shuffled.to_csv(at / f"{name}_shuffled.csv", index=False)
        whole.to_csv(at / "whole.csv", index=False)

        def joined(ending: str) -> Dataset:
            return own(id="user", label="y", parties={n: {"path": str(at / f"{n}{ending}.csv")} for n in held})

        straight = joined("")
        assert straight.fingerprint == own(path=str(at / "whole.csv"), label="y", id="user", parties=held).fingerprint
        assume(min(np.bincount([row % 3 for row in left], minlength=3)) >= 2)
        mixed = joined("_shuffled")
    if not dropped:
        assert mixed.fingerprint == straight.fingerprint
        assert split(mixed, seed).passive_train[0].equal(split(straight, seed).passive_train[0])
    rows = [int(v) % 1000 for v in mixed.passive[0].x[:, 0].tolist()]
    assert rows == sorted(left)
    assert mixed.y.tolist() == [row % 3 for row in rows]
    for name, c in parties_of(mixed).items():
        assert c.x.tolist() == [[1000 * int(n[1:]) + row for n in held[name]] for row in rows]


CELLS = st.sampled_from(["1", "2.5", "", "a", "bb", "ccc", "NA"])


@some
@given(cells=st.lists(st.tuples(CELLS, CELLS), min_size=12, max_size=30), seed=st.integers(0, 99))
def test_shuffled_rows_are_the_same_rows(cells: list[tuple[str, str]], seed: int) -> None:
    """One file, or the label party's: the same data in the new order, encoded alike; a split draws other rows."""
    frame = pd.DataFrame(cells, columns=["a", "b"]).assign(y=np.arange(len(cells)) % 2)
    order = np.random.default_rng(seed).permutation(len(frame))
    with folder() as at:
        frame.to_csv(at / "a.csv", index=False)
        frame.iloc[order].to_csv(at / "b.csv", index=False)
        first, second = (own(path=str(at / name), label="y", split=1.0) for name in ("a.csv", "b.csv"))
    assert first.passive[0].names == second.passive[0].names
    assert first.passive[0].sources == second.passive[0].sources
    np.testing.assert_array_equal(second.passive[0].x.numpy(), first.passive[0].x.numpy()[order])
    assert second.y.tolist() == first.y[order].tolist()
    assert [len(split(d, seed).y_test) for d in (first, second)] == [len(split(first, 0).y_test)] * 2


def pair(at: Path, rows: int, shared: int) -> dict[str, Any]:
    """Two parties' files of ``rows`` rows, in orders of their own, ``shared`` ids in both, and their join."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(3 * rows)[: 2 * rows - shared]
    signal = dict(zip(ids.tolist(), rng.normal(size=len(ids)), strict=True))
    shop = pd.DataFrame({"user": rng.permutation(ids[:rows])})
    bank = pd.DataFrame({"user": rng.permutation(ids[rows - shared :])})
    shop["spent"] = [signal[u] + e for u, e in zip(shop["user"], rng.normal(size=rows), strict=True)]
    shop["kind"] = rng.choice(["new", "old", ""], rows)
    bank["income"] = [signal[u] + e for u, e in zip(bank["user"], rng.normal(size=rows), strict=True)]
    bank["default"] = [int(signal[u] + e > 0) for u, e in zip(bank["user"], rng.normal(size=rows), strict=True)]
    shop.to_csv(at / "shop.csv", index=False)
    bank.to_csv(at / "bank.csv", index=False, sep=";")
    bank.merge(shop, on="user").to_csv(at / "whole.csv", index=False)
    parties = {"shop": {"path": str(at / "shop.csv")}, "bank": {"path": str(at / "bank.csv")}}
    return {"name": "csv", "id": "user", "label": "default", "parties": parties}


def test_two_files_of_which_nine_rows_in_ten_match_evaluate_as_their_join(tmp_path: Path) -> None:
    rows, epochs = 4_000, 5
    joined = pair(tmp_path, rows, shared=rows * 9 // 10)
    single = {
        "name": "csv",
        "path": str(tmp_path / "whole.csv"),
        "id": "user",
        "label": "default",
        "parties": {"shop": ["spent", "kind"], "active": ["income"]},
    }
    attacks = ["norm", {"name": "pmc", "variants": ["head_only"], "epochs": 2}]
    changes = [f"training.epochs={epochs}", "training.batch_size=256"]
    told: list[dict[str, Any]] = [
        evaluate(dataset, defense="laplace", params={"scale": 0.01}, attacks=attacks, seeds=2, settings=changes)
        for dataset in (joined, single)
    ]
    first, second = told
    dropped = f"{rows // 10} of {rows} rows have no partner in every file and are left out"
    assert first["data"]["rows"] == second["data"]["rows"] == rows * 9 // 10
    assert [note for note in first["data"]["notes"] if dropped in note] == [
        f"shop.csv: {dropped}",
        f"bank.csv: {dropped}",
    ]
    assert set(first["data"]["notes"]) <= set(first["notes"]), "what a report tells of a trial"
    assert first["outcome"] == "ok"
    assert first["utility"]["mean"] > 0.6
    for part in ("utility", "attacks", "leakage"):
        assert first[part] == second[part]
    facts = examine(load(Named.model_validate(joined)))
    assert [(p.name, p.role) for p in facts.parties] == [("shop", "passive"), ("bank", "active")]
