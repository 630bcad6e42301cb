"""``data check`` of wide, dirty tables: each oddity is found, the worst first, on one screen, with a list to paste."""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.conftest import Run
from tune_vfl.data import load
from tune_vfl.data.check import examine
from tune_vfl.spec import Named


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_spec(tmp_path: Path, dataset: dict[str, Any]) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump({"study": "s", "dataset": dataset, "defense": "none"}, sort_keys=False))
    return path


ODD = {
    "tells the label": "status", "known before?": "calls", "identifier": "LoanID", "date": "opened",
    "numbers as text": "salary", "constant": "currency", "near-constant": "country", "many values": "city",
}  # fmt: skip


def odd_table(n: int = 1500, columns: int = 150, share: float = 0.1) -> pd.DataFrame:
    """A column of each oddity, and noise."""
    rng = np.random.default_rng(5)
    y = (rng.permutation(n) < share * n).astype(int)
    days = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    columns_of = {
        "LoanID": rng.permutation(n) + 5_000_000,
        "opened": [d.strftime(("%Y-%m-%d", "%d.%m.%Y")[k % 2]) for k, d in enumerate(days)],
        "salary": [f"{v:,.2f} EUR" for v in rng.lognormal(9, 1, n)],
        "city": rng.choice([f"city {k}" for k in range(60)], n),
        "currency": "EUR",
        "country": np.where(np.arange(n) < 3, "US", "DE"),
        "status": np.where(y == 1, "lost", rng.choice(["paid", "open"], n)),
        "calls": (y * 1.5 + rng.normal(size=n)).round(3),
        "age": rng.integers(18, 80, n),
    }
    for k in range(columns - len(columns_of) - 1):
        values = rng.normal(size=n).round(4)
        columns_of[f"attribute_of_the_bureau_number_{k}"] = np.where(rng.random(n) < 0.1 * (k % 3), np.nan, values)
    return pd.DataFrame({**columns_of, "y": y})


def test_each_oddity_is_found_in_the_order_of_its_risk_and_noise_has_none() -> None:
    odd_table().to_csv("a.csv", index=False)
    told = examine(load(Named.model_validate({"name": "csv", "path": "a.csv", "label": "y"})), excluded=())
    assert [(f.oddity, f.column) for f in told.findings] == list(ODD.items())
    assert told.exclude == ("status", "LoanID", "opened", "currency", "country")
    assert {f.column for f in told.findings if not f.exclude} == {"calls", "salary", "city"}
    assert "(1.000)" in told.findings[0].why
    assert 0.75 < (told.findings[1].score or 0) < 0.98


def test_what_a_spec_excludes_stays_on_the_list_to_paste() -> None:
    odd_table(columns=12).to_csv("a.csv", index=False)
    listed = {"name": "csv", "path": "a.csv", "label": "y", "exclude": ["status", "age"]}
    assert examine(load(Named.model_validate(listed)), excluded=("status", "age")).exclude == (
        "status", "age", "LoanID", "opened", "currency", "country",
    )  # fmt: skip
    assert examine(load(Named.model_validate(listed)), excluded=None).exclude == ()


def test_150_columns_fit_a_screen_and_the_list_can_be_pasted(run: Run, tmp_path: Path) -> None:
    """The worst columns come first; what is pasted is a spec of which nothing is left to exclude."""
    spec = write_spec(tmp_path, {"name": "csv", "path": "a.csv", "label": "y"})
    odd_table().to_csv(tmp_path / "a.csv", index=False)
    code, out, err = run("data", "check", spec)
    assert code == 0
    lines = [*out.splitlines(), *err.splitlines()]
    assert sum(-(-len(line) // 100) for line in lines) <= 40
    assert max(len(line) for line in out.splitlines()) <= 100
    places = [out.index(f"│ {name} ") for name in ("status", "calls", "LoanID", "opened")]
    assert places == sorted(places)
    assert "more columns (" in out
    pasted = yaml.safe_load(out[out.index("  exclude: ") : out.index("known before the label?")])
    code, out, err = run("data", "check", spec, "--set", f"dataset.exclude={json.dumps(pasted['exclude'])}")
    assert (code, err) == (0, "")
    assert "exclude:" not in out
    assert "excluded: status, " in out
    code, out, _ = run("data", "check", spec, "--all")
    assert (code, out.count("│ attrib")) == (0, 140)
    (one,) = json.loads(run("data", "check", spec, "--json")[1])["datasets"]
    assert [f["oddity"] for f in one["findings"]] == list(ODD)
    assert len([c for p in one["parties"] for c in p["columns"]]) == 149


def test_many_parties_and_classes_fit_a_screen_too(run: Run, tmp_path: Path) -> None:
    frame = odd_table(3000)
    frame["y"] = [f"a class with a rather long name {k % 30}" for k in range(3000)]
    frame.to_csv(tmp_path / "a.csv", index=False)
    dataset = {"name": "csv", "path": "a.csv", "label": "y", "passive_parties": 7, "split": 0.9}
    code, out, err = run("data", "check", write_spec(tmp_path, dataset))
    assert code == 0
    assert sum(-(-len(line) // 100) for line in [*out.splitlines(), *err.splitlines()]) <= 40
    assert "classes, the rarest and the most frequent" in out


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather", "a.txt", "a.bz2", "its, table #1.csv", "no.csv"])
def test_a_table_in_place_of_a_spec_is_answered_with_its_columns(run: Run, tmp_path: Path, name: str) -> None:
    frame = odd_table(50, 12)
    writers = {".parquet": frame.to_parquet, ".feather": frame.to_feather}
    writers.get(Path(name).suffix, partial(frame.to_csv, index=False))(tmp_path / name)
    code, out, err = run("data", "check", tmp_path / name)
    assert (code, out) == (2, "")
    assert "is a table and no spec" in err
    assert "its columns: LoanID, opened, salary" in err
    spec, _, asked = err.partition("whose dataset is ")[2].partition("; its")[0].partition(", or ")
    (tmp_path / "spec.yaml").write_text(f"dataset: {spec.replace('COLUMN', 'y')}")
    for advised in (["spec.yaml"], shlex.split(asked.replace("COLUMN", "y"))):
        assert run("data", "check", *advised)[0] == 0
    assert run("data", "check", "nowhere.csv")[0] == 2


@pytest.mark.parametrize("name", ["customer_no", "PatientNumber", "user", "# customer: no"])
def test_a_number_of_customers_with_several_rows_is_no_feature_and_a_split_by_it_is_named(run: Run, name: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: np.repeat(rng.permutation(150), 4), "customer_age": np.tile(np.arange(18, 93), 8)})
    frame.assign(a=rng.normal(size=600), y=np.repeat(rng.integers(0, 2, 150), 4)).to_csv("a.csv", index=False)
    source = ("--dataset", "csv", "--set", "dataset.path=a.csv", "--set", "dataset.label=y")
    code, out, _ = run("data", "check", *source)
    assert code == 0
    told = " ".join(out.split())
    assert yaml.safe_load(told[told.index("exclude:") :].partition("]")[0] + "]") == {"exclude": [name]}
    split = told.partition("off the lists of parties: split: ")[2].partition("}")[0] + "}"
    assert yaml.safe_load(split) == {"group": name}
    code, out, _ = run("data", "check", *source, "--set", f"dataset.split={split}")
    assert code == 0
    assert "exclude:" not in out
