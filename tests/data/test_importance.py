"""Splits by importance: shares that are reached, nothing lost, one draw for all seeds, and no look at the reserve."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings

from tests.conftest import Run
from tune_vfl.data import load, written_out
from tune_vfl.data.base import Columns, Dataset
from tune_vfl.data.importance import by_importance, importances, shared_out
from tune_vfl.data.partition import matrix_parties
from tune_vfl.data.reserve import reserve_rows
from tune_vfl.data.split import split
from tune_vfl.errors import DataError, SpecError
from tune_vfl.metrics.utility import auc
from tune_vfl.spec import Named


def named(name: str = "breast_cancer", **options: Any) -> Dataset:
    return load(Named.model_validate({"name": name, **options}))


def shares(weights: np.ndarray[Any, Any], owners: np.ndarray[Any, Any], parties: int) -> list[float]:
    return [float(weights[owners == k].sum() / weights.sum()) for k in range(parties)]


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 60),
    asked=st.floats(0.02, 0.98),
    passive=st.integers(1, 4),
    zeros=st.floats(0, 0.9),
    seed=st.integers(0, 999),
)
def test_every_party_has_a_column_and_a_share_no_single_move_improves(
    n: int, asked: float, passive: int, zeros: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n = max(n, passive + 1)
    weights = rng.gamma(0.5, size=n) * (rng.random(n) >= zeros)
    weights[0] += 0.1
    targets = [asked / passive] * passive + [1 - asked]
    owners = shared_out(weights, targets, np.random.default_rng(seed))
    assert sorted(set(owners.tolist())) == list(range(passive + 1))
    assert owners.tolist() == shared_out(weights, targets, np.random.default_rng(seed)).tolist()
    w = weights / weights.sum()

    def distance(of: np.ndarray[Any, Any]) -> float:
        return sum((a - b) ** 2 for a, b in zip(shares(weights, of, passive + 1), targets, strict=True))

    reached = shares(weights, owners, passive + 1)
    if max(abs(a - b) for a, b in zip(reached, targets, strict=True)) <= 0.001:
        return
    for column in range(n):
        for taker in range(passive + 1):
            moved = owners.copy()
            moved[column] = taker
            if len(set(moved.tolist())) == passive + 1:
                assert distance(moved) >= distance(owners) - 2e-6
    assert w.min() >= 0


def test_many_columns_reach_the_share_and_draws_differ() -> None:
    weights = np.random.default_rng(0).gamma(1, size=60)
    drawn = [shared_out(weights, [0.3, 0.7], np.random.default_rng(seed)) for seed in range(200)]
    assert all(shares(weights, owners, 2)[0] == pytest.approx(0.3, abs=0.001) for owners in drawn)
    # Each column goes to the passive side about as often as the share says, the weighty ones among them.
    often = np.mean([owners == 0 for owners in drawn], axis=0)
    assert often.mean() == pytest.approx(0.3, abs=0.05)
    assert 0.1 < often[weights.argmax()] < 0.5


@pytest.mark.parametrize("asked", [0.1, 0.3, 0.8])
@pytest.mark.parametrize("parties", [1, 3])
def test_a_data_set_keeps_its_columns_and_tells_the_shares(asked: float, parties: int) -> None:
    whole = named(split=1.0)
    data = named(split={"importance": asked}, passive_parties=parties)
    assert data.active is not None
    assert [c.party for c in data.passive] == (["passive"] if parties == 1 else ["passive_0", "passive_1", "passive_2"])
    order = {name: k for k, name in enumerate(whole.passive[0].names)}
    seen: list[str] = []
    for held in data.parties:
        at = [order[name] for name in held.names]
        assert at == sorted(at), "file order within a party"
        assert torch.equal(held.x, whole.passive[0].x[:, at])
        seen += held.names
    assert sorted(seen) == sorted(order)
    weights = importances(whole, whole.passive[0])
    passive = sum(weights[order[name]] for held in data.passive for name in held.names) / weights.sum()
    assert passive == pytest.approx(asked, abs=0.01)
    (note,) = (n for n in data.notes if "shares of importance" in n)
    assert f"active holds {1 - passive:.3f} (asked {1 - asked:.3g}) with {len(data.active.names)} of 30 columns" in note
    assert data.fingerprint not in {whole.fingerprint, named(split=0.5).fingerprint}


def table(n: int = 2000, seed: int = 0) -> pd.DataFrame:
    """A column that tells much, one that tells little, a band, a category with missing values, and noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    kind = np.where(rng.random(n) < 0.3, "", np.where(rng.random(n) < 0.5 + 0.2 * y, "a", "b"))
    return pd.DataFrame(
        {
            "much": y + rng.normal(0, 0.7, n),
            "little": y + rng.normal(0, 4, n),
            "band": np.where(y == 1, rng.uniform(-2, 2, n), rng.normal(0, 3, n)),
            "kind": kind,
            **{f"noise{k}": rng.normal(size=n) for k in range(4)},
            "y": y,
        }
    )


def own(path: Path, frame: pd.DataFrame, **options: Any) -> Dataset:
    frame.to_csv(path, index=False)
    return named("csv", path=str(path), label="y", **options)


def test_importance_is_twice_the_auc_above_one_half_and_noise_has_none(tmp_path: Path) -> None:
    data = own(tmp_path / "a.csv", table(8000), split=1.0)
    weights = dict(zip(["much", "little", "band", "kind"], importances(data, data.passive[0]), strict=False))
    frame = table(8000)
    expected = 2 * auc(frame["much"].to_numpy(), frame["y"].to_numpy()) - 1
    assert weights["much"] == pytest.approx(expected, abs=0.05)  # half of 4,480 rows: a standard error of .017
    assert weights["much"] > weights["band"] > weights["little"] > 0, "a band is seen though its order tells nothing"
    assert weights["kind"] > 0
    assert (importances(data, data.passive[0])[4:] == 0).sum() >= 3


def test_categories_and_marks_of_missing_values_stay_together(tmp_path: Path) -> None:
    frame = table()
    frame.loc[::7, "little"] = np.nan
    data = own(tmp_path / "a.csv", frame, split={"importance": 0.5})
    for held in data.parties:
        assert sum(s.width for s in held.sources) == held.x.shape[1] == len(held.names)
        assert [n.split("=")[0] for n in held.names] == [s.name for s in held.sources for _ in range(s.width)]
        assert held.scaled is not None
        assert held.scaled.tolist() == ["=" not in n for n in held.names]


def test_neither_the_reserve_nor_the_test_rows_of_seed_0_count(tmp_path: Path) -> None:
    data = own(tmp_path / "a.csv", table(), split=1.0)
    training = split(data, 0, "selection").train_rows
    assert len(reserve_rows(data))
    others = torch.ones(len(data.y), dtype=torch.bool)
    others[training] = False
    assert others[reserve_rows(data)].all()
    x = data.passive[0].x.clone()
    x[others] = torch.randn(int(others.sum()), x.shape[1], generator=torch.Generator().manual_seed(0)) * 100
    changed = replace(data.passive[0], x=x)
    assert importances(data, changed).tolist() == importances(data, data.passive[0]).tolist()
    x[training[:200]] = 0
    assert importances(data, changed).tolist() != importances(data, data.passive[0]).tolist()


def test_a_share_that_no_columns_reach_is_told_with_the_reason(tmp_path: Path) -> None:
    frame = table().filter(["much", "noise0", "y"])
    (note,) = (n for n in own(tmp_path / "a.csv", frame, split={"importance": 0.3}).notes if "importance" in n)
    assert "(asked 0.3)" in note
    assert "no column that is moved or exchanged brings them nearer; 'much' alone has 1.000" in note


def test_a_split_survives_being_written_out(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    asked = Named.model_validate(
        {"name": "csv", "path": str(tmp_path / "a.csv"), "label": "y", "split": {"importance": 0.4}}
    )
    assert written_out(asked).options["split"] == {"importance": 0.4}
    assert load(written_out(asked)).fingerprint == load(asked).fingerprint


def test_what_importance_cannot_share_out(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is for tables, and this one holds images"):
        named("digits", split={"importance": 0.3})
    with pytest.raises(DataError, match="30 columns cannot be shared out over 30 passive parties"):
        named(split={"importance": 0.3}, passive_parties=30)
    frame = table(200).filter(["noise1", "noise2", "y"])
    frame["y"] = np.arange(200) % 2
    with pytest.raises(DataError, match="no column alone tells more of the label than chance"):
        own(tmp_path / "a.csv", frame.assign(noise1=1, noise2=2), split={"importance": 0.3})
    with pytest.raises(DataError, match="too few rows to split by importance"):
        own(tmp_path / "b.csv", frame.iloc[:16], split={"importance": 0.3})
    with pytest.raises(SpecError, match="set hashing: field"):
        named("criteo", split={"importance": 0.3})


@pytest.mark.parametrize("asked", [0, 1.5, "half", True, {"importance": 0}, {"importance": 1}, {"importence": 0.3}, {}])
def test_a_bad_split_is_one_problem_in_words(asked: object) -> None:
    with pytest.raises(SpecError) as caught:
        named(split=asked)
    (problem,) = caught.value.problems
    assert "split: expected a share of the columns, greater than 0 and less than or equal to 1" in problem
    assert "or {importance: SHARE}" in problem


def test_a_matrix_without_names_of_sources_is_shared_out_too() -> None:
    rng = np.random.default_rng(0)
    y = torch.tensor(rng.integers(0, 2, 400))
    x = torch.tensor(rng.normal(size=(400, 5)), dtype=torch.float32) + y[:, None] * torch.arange(5.0)
    held, active = matrix_parties(x, list("abcde"), 1.0, 1, "made")
    data = by_importance(replace(named(split=1.0), passive=held, active=active, y=y, test_rows=None), 0.5, 1)
    assert sorted(name for c in data.parties for name in c.names) == list("abcde")
    assert all(isinstance(c, Columns) and not c.sources for c in data.parties)


def test_validate_and_check_say_the_shares(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "study: s\ndataset: {name: breast_cancer, split: {importance: 0.3}}\ndefense: {name: laplace, space: default}\n"
        "attacks: [norm]\n"
    )
    for verb in (["validate"], ["data", "check"]):
        code, out, err = run(*verb, spec)
        assert (code, err) == (0, "")
        assert "shares of importance: passive holds 0.30" in out
    code, out, _ = run("validate", spec, "--set", "dataset.split={importance: 0.6}")
    assert code == 0
    assert "passive holds 0.6" in out or "passive holds 0.59" in out
