"""What somebody wrote becomes a study that can be run: once, in whatever form, with every problem at once."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.helpers.refusals import refusal
from tune_vfl.cli.main import main
from tune_vfl.driver import api
from tune_vfl.driver.planning import plan, planned_campaign, refuse_mistakes
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate, resolving
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spec import parse

RAW = {
    "study": "s",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm"],
    "budget": {"trials": 4, "seeds": 1},
}


def test_every_form_of_a_spec_becomes_the_same_study(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(RAW), encoding="utf-8")
    study = planned_campaign(RAW).studies[0]
    assert isinstance(study, PlannedStudy)
    assert all(planned_campaign(spec).studies == (study,) for spec in (parse(RAW), path, str(path)))
    assert planned_campaign(study).studies[0] is study
    assert plan(RAW).studies == (study,)
    assert (study.name, study.cell.defense, list(study.space.params)) == ("s", "laplace", ["scale"])


def test_another_name_and_budget_leave_what_was_resolved():
    study = planned_campaign(RAW).studies[0]
    other = study.changed(trials=9, name="t")
    assert (other.name, other.spec.budget.trials, other.spec.budget.seeds) == ("t", 9, 1)
    assert (other.cell, other.space) == (study.cell, study.space)
    assert study.changed() is study
    more = study.changed(trials=9)
    assert study.difference(more) == [], "more trials are the same study"
    assert more.difference(study) == ["budget.trials: 9 -> 4"]
    other_rows = replace(study, data="x")
    assert study.difference(other_rows) == [f"the data's rows, by their fingerprint: {study.data} -> x"]
    assert replace(study, data="").difference(other_rows) == [], "an older study does not say"
    with pytest.raises(SpecError, match=r"budget\.trials"):
        study.changed(trials=0)
    with pytest.raises(SpecError, match="study"):
        study.changed(name="a/b")


def test_what_may_differ_does_not_make_it_another_study():
    study = planned_campaign(RAW).studies[0]
    recipe = study.cell.training.epochs
    said = {
        **RAW,
        "training": {"epochs": recipe},
        "resources": {"pack": 2},
        "tracking": "sqlite:///elsewhere.db",
        "budget": {**RAW["budget"], "minutes": 5},
    }
    assert study.difference(planned_campaign(said).studies[0]) == []
    more = planned_campaign({**said, "training": {"epochs": recipe + 1}}).studies[0]
    assert study.difference(more) == [f"resolved.training.epochs: {recipe} -> {recipe + 1}"]


def test_it_comes_back_from_its_dump():
    study = planned_campaign({**RAW, "training": {"lr": {"float": [1e-4, 1e-2]}}}).studies[0]
    held = PlannedStudy.read(json.loads(json.dumps(study.dumped())))
    assert held == study.as_held()
    assert held.spec.searched == study.spec.searched
    assert held.space.params == study.space.params


@pytest.mark.parametrize("verb", ["search", "python"])
def test_a_spec_is_resolved_once(verb, tmp_path, monkeypatch):
    seen, run = [], []
    real = resolving.open_task
    monkeypatch.setattr(resolving, "open_task", lambda *a, **k: seen.append(a) or real(*a, **k))

    def record(campaign, **_):
        run.extend(campaign.studies)
        Ledger.of_campaign(campaign, storage_at(), None)
        return False

    monkeypatch.setattr(api, "run_campaign", record)
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path))
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(RAW), encoding="utf-8")
    if verb == "python":
        api.search(planned_campaign(RAW).studies[0], sinks=())
        api.search(run[0], sinks=())
    else:
        assert main(["search", str(path), "--trials", "9", "--name", "t"]) == 0
        assert (run[0].name, run[0].spec.budget.trials) == ("t", 9)
    assert len(seen) == 1
    assert all(isinstance(s, PlannedStudy) for s in run)


def test_unknown_names_are_told_together_with_wrong_fields():
    wrong = {**RAW, "budget": {"trials": 0}, "dataset": "breast_cancr", "attacks": ["norm", {"name": "mean_"}]}
    for refuse in (planned_campaign, plan, lambda raw: refuse_mistakes([raw])):
        with pytest.raises(SpecError) as refused:
            refuse({**wrong, "defense": "laplas"})
        said = str(refused.value)
        for words in (
            "budget.trials",
            "Did you mean 'breast_cancer'?",
            "Did you mean 'laplace'?",
            "unknown attack 'mean_'",
        ):
            assert words in said


def test_several_studies_are_planned_under_the_name_of_their_campaign():
    matrix = {**RAW, "defense": ["none", "laplace"], "budget": {"trials": 5}}
    assert [s.name for s in plan(matrix).studies] == ["s-breast_cancer-none", "s-breast_cancer-laplace"]
    nameless = {key: value for key, value in matrix.items() if key != "study"}
    with pytest.raises(SpecError, match="study: is required"):
        plan(nameless)


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame({name: np.arange(200) % 7 for name in "abcd"} | {"y": np.arange(200) % 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    return frame, tmp_path / "t.csv"


@pytest.mark.parametrize(
    "columns",
    [
        lambda frame: frame.columns[:2],
        lambda _: np.array(["a", "b"]),
        lambda _: pd.Series(["a", "b"]),
        lambda _: ("a", "b"),
        lambda _: {"b", "a"},
        lambda _: {"a": 1, "b": 2}.keys(),
        lambda _: (name for name in "ab"),
    ],
)
def test_what_a_program_has_at_hand_stands_for_a_list(columns, table, home):
    frame, path = table
    parties = {"passive": columns(frame), "active": ["c"]}
    raw = {**RAW, "dataset": {"name": "csv", "path": path, "label": np.str_("y"), "parties": parties}}
    raw["defense"] = {"name": "laplace", "space": {"scale": {"choice": np.linspace(0.1, 1, 3)}}}
    raw["budget"] = {"trials": np.int64(3), "seeds": np.int64(1)}
    study = planned_campaign(raw).studies[0]
    assert study.spec.dataset.options["parties"] == {"passive": ["a", "b"], "active": ["c"]}
    assert study.spec.dataset.options["path"] == str(path)
    json.dumps(study.spec.model_dump(mode="json"))
    assert study.space.size == 3


def test_a_campaign_from_an_array_is_that_from_a_list():
    spec = {**RAW, "budget": {"trials": 8, "seeds": 1}}
    listed = plan({**spec, "defense": ["laplace", "kdk"]})
    assert planned_campaign({**spec, "defense": np.array(["laplace", "kdk"])}) == listed
    assert planned_campaign({**spec, "defense": ("laplace", "kdk")}) == listed


def test_a_frame_in_a_spec_is_refused_with_its_place(table):
    with refusal("dataset.path", "got DataFrame", "df.to_parquet", error=SpecError):
        planned_campaign({**RAW, "dataset": {"name": "csv", "path": table[0], "label": "y"}})


@pytest.mark.parametrize("spec", [[RAW], pd.DataFrame(RAW["budget"], index=[0]), None], ids=["list", "frame", "None"])
def test_what_is_no_spec_is_refused(spec):
    with refusal(
        "expected a spec as a mapping, or the path of a YAML file", f"got {type(spec).__name__}", error=SpecError
    ):
        planned_campaign(spec)


def test_an_evaluation_takes_the_same(table):
    frame, path = table
    dataset = {"name": "csv", "path": path, "label": "y", "parties": {"passive": frame.columns[:2], "active": ["c"]}}
    found = evaluate(dataset, attacks="norm", seeds=1, settings=["training.epochs=1"])
    assert (found["outcome"], list(found["attacks"])) == ("ok", ["norm"])
