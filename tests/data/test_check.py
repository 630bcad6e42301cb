"""``data check``: what it counts, the columns it warns of, and that it changes nothing."""

import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given, settings

from tests.conftest import Run
from tune_vfl.data import load
from tune_vfl.data.base import Columns, Source
from tune_vfl.data.check import Facts, examine
from tune_vfl.data.predictive_columns import THRESHOLD, scores_alone
from tune_vfl.metrics.utility import auc
from tune_vfl.spec import Named

quick = settings(max_examples=30, deadline=None)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(n: int = 200) -> pd.DataFrame:
    """A label that neither age nor job tells, and two columns made from it."""
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 4 == 0).astype(int)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": rng.choice(["cook", "smith", "clerk"], n),
            "income": np.where(np.arange(n) % 10 == 0, np.nan, rng.normal(3e4, 1e4, n)),
            "late_days": np.where(y == 1, 30 + rng.integers(0, 5, n), rng.integers(0, 30, n)),
            "status": np.where(y == 1, "written off", rng.choice(["fine", "paid"], n)),
            "y": y,
        }
    )


PARTIES = {"shop": ["age", "job", "income"], "bureau": ["late_days"], "active": ["status"]}


def facts(frame: pd.DataFrame, **options: object) -> Facts:
    frame.to_csv("a.csv", index=False)
    return examine(load(Named.model_validate({"name": "csv", "path": "a.csv", "label": "y", **options})))


def test_what_is_counted() -> None:
    told = facts(table(), parties=PARTIES)
    assert (told.rows, told.train, told.test, told.metric, told.official_test) == (200, 140, 60, "auc", False)
    assert [(c.name, c.rows, c.share, c.train, c.test) for c in told.classes] == [
        ("0", 150, 0.75, 105, 45), ("1", 50, 0.25, 35, 15),
    ]  # fmt: skip
    assert [(p.name, p.role, p.shape) for p in told.parties] == [
        ("shop", "passive", (6,)), ("bureau", "passive", (1,)), ("active", "active", (3,)),
    ]  # fmt: skip
    assert [(c.name, c.kind, c.width, c.missing) for c in told.parties[0].columns] == [
        ("age", "number", 1, 0), ("job", "category", 3, 0), ("income", "number", 2, 0.1),
    ]  # fmt: skip


def test_columns_that_tell_the_label_are_warned_of_and_no_others() -> None:
    told = facts(table(), parties=PARTIES)
    scores = {c.name: c.alone for p in told.parties for c in p.columns}
    assert scores["late_days"] == scores["status"] == 1
    assert all(0.3 < (scores[name] or 0) < 0.75 for name in ("age", "job", "income"))
    assert len(told.warnings) == 2
    assert "party 'bureau': column 'late_days' (AUC 1.000) predicts the label alone" in told.warnings[0]
    assert "party 'active': column 'status'" in told.warnings[1]


def test_missing_values_that_tell_the_label_and_an_empty_column() -> None:
    frame = table()
    frame["paid_on"] = np.where(frame["y"] == 1, np.nan, frame["age"] * 1.0)
    frame["nothing"] = np.nan
    told = facts(frame, parties={"shop": ["paid_on", "nothing", "age"]})
    assert [c.missing for c in told.parties[0].columns] == [0.25, 1, 0]
    assert [w.split(": ", 2)[2].split(" on rows")[0] for w in told.warnings] == [
        "column 'paid_on' (AUC 1.000) predicts the label alone",
        "no value in any row of 'nothing'",
    ]


@pytest.mark.parametrize("codes", ["one_hot", "ordinal"])
def test_missing_categories_and_codes(codes: str) -> None:
    frame = table()
    frame.loc[::5, "job"] = None
    (job,) = facts(frame, parties={"shop": ["job"]}, codes=codes).parties[0].columns
    assert (job.kind, job.missing) == ("category" if codes == "one_hot" else "code", 0.2)


def test_more_than_two_classes() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 30, 3000)
    frame = pd.DataFrame({"same": y * 7.5, "noisy": y + rng.normal(0, 3, 3000), "noise": rng.random(3000), "y": y})
    told = facts(frame, split=1.0)
    same, noisy, noise = (c.alone or 0.0 for c in told.parties[0].columns)
    assert same == 1
    assert 0.05 < noisy < 0.5
    assert noise < 0.1
    assert [w for w in told.warnings if "'same' (balanced accuracy 1.000) predicts the label alone" in w] == list(
        told.warnings
    )


def columns(*values: np.ndarray, kind: str = "number") -> Columns:
    x = torch.tensor(np.stack(values, axis=1), dtype=torch.float32)
    names = tuple(f"c{k}" for k in range(len(values)))
    return Columns("p", x, names, None, tuple(Source(n, kind, 1) for n in names))  # type: ignore[arg-type]


@quick
@given(seed=st.integers(0, 999), share=st.sampled_from([0.02, 0.1, 0.5]), scale=st.sampled_from([1e-30, 1.0, 1e30]))
def test_a_threshold_is_found_whatever_the_scale_the_side_and_the_share(seed: int, share: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    values = np.sort(rng.random(1000))
    y = torch.tensor((np.arange(1000) >= 1000 * (1 - share)).astype(np.int64))
    between = (values > 0.3) & (values < 0.6)
    rising, falling = scores_alone(columns(values * scale, -values * scale), y, 2)
    assert rising == falling == 1
    (band,) = scores_alone(columns(values * scale), torch.tensor(between.astype(np.int64)), 2)
    assert (band or 0) > THRESHOLD  # not monotone: ranges of values find it where the order does not


@quick
@given(seed=st.integers(0, 999), n=st.integers(200, 400), kind=st.sampled_from(["number", "code"]))
def test_noise_is_not_warned_of(seed: int, n: int, kind: str) -> None:
    """Also codes of which every row has one of its own: what was fitted is not what is scored."""
    rng = np.random.default_rng(seed)
    y = torch.tensor(np.arange(n) % 2)
    values = rng.permutation(n) if kind == "code" else rng.standard_cauchy(n)
    (score,) = scores_alone(columns(values, kind=kind), y, 2)
    # AUC of two halves of 50 to 100 rows: a standard deviation of at most 0.058 around 1/2, and six of them.
    assert abs((score or 0) - 0.5) < 0.35


def test_a_monotone_column_scores_its_plain_auc() -> None:
    rng = np.random.default_rng(3)
    y = np.arange(20_000) % 2
    values = rng.normal(y * 1.0, 1)
    (score,) = scores_alone(columns(values), torch.tensor(y), 2)
    assert score == pytest.approx(auc(values, y), abs=0.02)  # 10,000 rows held out: a standard error of 0.004


def test_few_rows_say_nothing() -> None:
    assert scores_alone(columns(np.arange(16.0)), torch.tensor(np.arange(16) // 8), 2) == [None]
    assert scores_alone(columns(np.arange(20.0)), torch.tensor(np.arange(20) // 10), 2) == [1.0]


def test_large_tables_are_scored_on_a_part() -> None:
    y = torch.tensor(np.arange(100_000) % 100 == 0).long()
    (score,) = scores_alone(columns(np.arange(100_000.0)), y, 2)
    assert abs((score or 0) - 0.5) < 0.2  # 100 positives held out: a standard deviation of 0.03


def write_spec(tmp_path: Path, **changes: object) -> Path:
    table().to_csv(tmp_path / "a.csv", index=False)
    path = tmp_path / "spec.yaml"
    dataset = {"name": "csv", "path": "a.csv", "label": "y", "parties": PARTIES}
    path.write_text(
        yaml.safe_dump(
            {"study": "s", "dataset": dataset, "defense": "none", "attacks": ["norm"], **changes}, sort_keys=False
        )
    )
    return path


def test_check_of_a_spec(run: Run, tmp_path: Path, home: Path) -> None:
    spec = write_spec(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("data", "check", spec)
    assert code == 0
    for words in (
        "200 rows, 2 classes, metric auc; 140 training and 60 test rows",
        "shop",
        "25.0%",
        "AUC alone",
        "note: ",
    ):
        assert words in out
    assert err.count("warning: ") == 2
    assert sorted(tmp_path.rglob("*")) == before
    assert not home.exists()


def test_check_as_json_follows_settings_and_a_matrix(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("data", "check", write_spec(tmp_path), "--set", "dataset.parties.shop=[age]", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["schema"] == "tune-vfl/data/1"
    (one,) = answer["datasets"]
    assert [c["name"] for c in one["parties"][0]["columns"]] == ["age"]
    assert len(one["warnings"]) == 2
    spec = write_spec(tmp_path, dataset=None, matrix={"dataset": ["wine", "digits"]})
    code, out, _ = run("data", "check", spec, "--json")
    assert code == 0
    wine, digits = json.loads(out)["datasets"]
    assert (wine["name"], wine["rows"], len(wine["classes"])) == ("wine", 178, 3)
    assert (digits["modality"], digits["parties"][0]["shape"], digits["parties"][0]["columns"]) == (
        "image",
        [1, 8, 4],
        [],
    )


def test_check_of_a_data_set_by_name(run: Run, tmp_path: Path) -> None:
    write_spec(tmp_path)
    settings = ["--set", "dataset.path=a.csv", "--set", "dataset.label=y", "--set", "dataset.split=0.4"]
    code, out, _ = run("data", "check", "--dataset", "csv", *settings)
    assert code == 0
    assert "passive" in out
    assert run("data", "check", "-d", "digits")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected a SPEC"),
        (["spec.yaml", "--dataset", "wine"], "one of them"),
        (["nothing.yaml"], "nothing.yaml: cannot be read"),
        (["spec.yaml", "--set", "dataset.label=yy"], "did you mean 'y'"),
        (["spec.yaml", "--set", "dataset.path=b.csv"], "b.csv: no such file"),
        (["spec.yaml", "--set", "dataset=3"], "dataset: expected a name"),
        (["spec.yaml", "--set", "dataset={path: a.csv}"], "name: is required and missing"),
        (["--dataset", "wein"], "Did you mean 'wine'"),
        (["--dataset", "csv"], "label: is required"),
    ],
)
def test_bad_data_exit_2(run: Run, tmp_path: Path, home: Path, arguments: list[str], words: str) -> None:
    write_spec(tmp_path)
    code, out, err = run("data", "check", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert not home.exists()
