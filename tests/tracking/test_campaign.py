"""A campaign is one experiment: its studies told apart, their joint front tagged, one summary of all of them."""

import json
import shutil
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from tests.helpers.confirmations import made_up_confirmation
from tests.helpers.fronts import front_of
from tests.helpers.studies import made_up_outcome, made_up_study, made_up_trial
from tune_vfl.analysis.exporting import exported
from tune_vfl.config import load_config
from tune_vfl.machine import places
from tune_vfl.metrics import pareto
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord, Skipped
from tune_vfl.records.studies import in_order
from tune_vfl.spec import Named
from tune_vfl.tracking import attached, payload, store, summary
from tune_vfl.tracking.mlflow import Recorder
from tune_vfl.tracking.runs import Runs


def on(dataset, record):
    return replace(record, cell=record.cell.model_copy(update={"dataset": Named(name=dataset)}))


A, B = (made_up_study(12, name=f"c-{k}", failures=("diverged",), shift=k) for k in (0, 1))
C = on("wine", made_up_study(8, name="c-2", failures=("preempted",), shift=2))
ALL = (A, B, C)


def campaign(*studies, **known):
    return CampaignRecord("c", studies, sum(s.spec.budget.trials for s in studies), **known)


@pytest.fixture
def home(home, empty_database):
    home.mkdir()
    shutil.copy(empty_database, home / "mlflow.db")
    return home


@pytest.fixture
def no_files(monkeypatch):
    """What is attached has tests of its own; drawing it for every test here would take most of the time."""
    for name in ("attach_settings", "attach_summary"):
        monkeypatch.setattr(attached, name, lambda *_: None)


def experiment():
    return store.client(places.embedded_uri()).get_experiment_by_name("c")


def runs_of(query="", **how):
    return store.client(places.embedded_uri()).search_runs([experiment().experiment_id], query, 1, 1000, **how)


def found(query):
    """The trials that a filter finds, as (study, number)."""
    return {(r.data.tags[payload.STUDY], int(r.data.tags[payload.TRIAL])) for r in runs_of(query)}


def frozen():
    """Everything that a reader of the experiment can see of its runs."""
    return {
        r.info.run_id: (r.info.run_name, r.info.status, r.info.end_time, r.data.params, r.data.metrics, r.data.tags)
        for r in runs_of()
    }


def naive_joint(*records):
    """The trials that no trial of any of the studies dominates, pair by pair."""
    points = {(r.name, t.number): t.outcome.objectives for r in records for t in r.ok}

    def beats(one, other):
        return one != other and one[0] >= other[0] and one[1] <= other[1]

    return {k for k, p in points.items() if not any(beats(q, p) for q in points.values())}


def lived_through(records):
    """Let a recorder live through a run of these studies, trial by trial, of one and then of the other."""
    recorder = Recorder("c")
    for record in records:
        recorder.on_study(replace(record, trials=(), running=0, waiting=len(record.counted)))
    for step in range(max(len(r.trials) for r in records)):
        for record in records:
            recorder.on_trials(record.name, record.trials[step : step + 1])
    for record in records:
        recorder.on_study(record)
    recorder.on_end()
    return recorder


@pytest.mark.usefixtures("no_files")
def test_each_study_has_its_runs_and_its_front_and_all_have_a_joint_one(home):
    Recorder("c").sync(campaign(*ALL))
    assert found(f"tags.`{payload.TRIAL}` != ''") == {(r.name, t.number) for r in ALL for t in r.counted}
    assert found(f"tags.`{payload.PARETO}` = 'true'") == {(r.name, n) for r in ALL for n in front_of(r)}
    joint = found(f"tags.`{payload.CAMPAIGN_PARETO}` = 'true'")
    assert joint == naive_joint(A, B) | naive_joint(C), "a data set has a joint front of its own"
    assert 0 < len(joint & {("c-0", n) for n in front_of(A)}) < len(front_of(A))
    assert len(runs_of()) == sum(len(r.trials) for r in ALL) + 1


@pytest.mark.usefixtures("no_files")
def test_trial_by_trial_ends_as_a_sync_does_and_a_sync_changes_nothing(home):
    lived_through(ALL)
    live = frozen()
    assert found(f"tags.`{payload.CAMPAIGN_PARETO}` = 'true'") == naive_joint(A, B) | naive_joint(C)
    Recorder("c").sync(campaign(*ALL))
    assert frozen() == live


@pytest.mark.usefixtures("no_files")
def test_the_summary_has_a_hypervolume_by_trial_a_data_set(home):
    Recorder("c").sync(campaign(*ALL))
    [run] = runs_of(f"tags.`{payload.SUMMARY}` = 'true'")
    client = store.client(places.embedded_uri())
    for dataset, records in (("breast_cancer", (A, B)), ("wine", (C,))):
        history = client.get_metric_history(run.info.run_id, f"hypervolume/{dataset}")
        trials = in_order(t for r in records for t in r.trials)
        assert [m.step for m in history] == list(range(1, len(trials) + 1))
        for step, held in enumerate(history, start=1):
            points = [t.outcome.objectives for t in trials[:step] if t.outcome.outcome == "ok"]
            assert held.value == pytest.approx(pareto.hypervolume(points, A.reference_point))
    assert run.data.metrics["front_size/breast_cancer"] == len(naive_joint(A, B))
    assert run.data.metrics["baseline.utility/wine"] == C.baseline.utility.mean
    assert run.data.metrics["trial_count"] == sum(len(r.counted) for r in ALL)
    assert "| c-1 | breast_cancer | laplace | 1 diverged, 12 ok |" in run.data.tags[payload.NOTE]


@pytest.mark.usefixtures("no_files")
def test_one_data_set_keeps_the_plain_names(home):
    Recorder("c").sync(campaign(A, B))
    [run] = runs_of(f"tags.`{payload.SUMMARY}` = 'true'")
    assert {"hypervolume", "front_size", "baseline.utility"} <= set(run.data.metrics)


@pytest.mark.usefixtures("no_files")
def test_the_joint_front_of_a_single_study_is_its_own(home):
    record = made_up_study(5, name="c")
    Recorder("c").sync(CampaignRecord.of(record))
    assert found(f"tags.`{payload.CAMPAIGN_PARETO}` = 'true'") == naive_joint(record)


@pytest.mark.usefixtures("no_files")
def test_every_filter_of_a_campaign_is_understood(home):
    confirmed = replace(A, confirmation=made_up_confirmation())
    recorder = Recorder("c")
    recorder.sync(campaign(confirmed, B, C))
    ready = summary.filters(recorder._whole())
    counts = {what: len(runs_of(query)) for what, query in ready.items()}
    assert counts["the joint front"] == len(naive_joint(A, B)) + len(naive_joint(C))
    assert counts["the joint front on wine"] == len(naive_joint(C))
    assert counts["the points that a confirmation kept"] == counts["this summary"] == 1
    assert counts["the knee"] == 2, "one a data set"
    assert counts["all runs of this study"] == len(runs_of())
    assert counts["all trials"] == sum(len(s.counted) for s in (A, B, C))
    assert counts["trials that failed"] == 2
    assert counts["leakage at most 0.2"] == sum(t.outcome.leakage <= 0.2 for s in (A, B, C) for t in s.ok)


@pytest.mark.usefixtures("no_files")
def test_a_run_of_some_studies_harms_no_others_and_a_sync_deletes_what_is_gone(home):
    Recorder("c").sync(campaign(*ALL))
    whole = frozen()
    recorder = Recorder("c")
    recorder.on_study(B)
    recorder.on_trials("c-1", [made_up_trial(99, scale=0.5, outcome=made_up_outcome(0.999, 0.5))])
    recorder.on_end()
    others = {run: seen for run, seen in whole.items() if seen[5][payload.STUDY] in ("c-0", "c-2")}
    assert {run: seen for run, seen in frozen().items() if seen[5][payload.STUDY] in ("c-0", "c-2")} == others
    assert found(f"tags.`{payload.STUDY}` = 'c-1' AND tags.`{payload.PARETO}` = 'true'") == {("c-1", 99)}
    Recorder("c").sync(campaign(A, B))
    assert {study for study, _ in found(f"tags.`{payload.TRIAL}` != ''")} == {"c-0", "c-1"}
    assert len(runs_of()) == len(A.trials) + len(B.trials) + 1, "trial 99, which B does not have, is gone too"
    assert found(f"tags.`{payload.CAMPAIGN_PARETO}` = 'true'") == naive_joint(A, B)


@pytest.mark.usefixtures("no_files")
def test_a_study_that_joins_later_takes_the_joint_front_with_it(home):
    Recorder("c").sync(campaign(A))
    assert found(f"tags.`{payload.CAMPAIGN_PARETO}` = 'true'") == naive_joint(A)
    lived_through([A, B])
    assert found(f"tags.`{payload.CAMPAIGN_PARETO}` = 'true'") == naive_joint(A, B)
    assert len(runs_of(f"tags.`{payload.SUMMARY}` = 'true'")) == 1


# Names


def test_runs_are_named_for_what_they_are():
    cell = A.cell
    fine = made_up_trial(3, scale=0.01, outcome=made_up_outcome(0.7264, 0.515))
    assert payload.run_name(cell, fine) == "laplace scale=0.01 · AUC .726 · leak .03"
    failed = made_up_trial(4, scale=1e-05, outcome=Outcome.failed("oom", "full"))
    assert payload.run_name(cell, failed) == "laplace scale=1e-5 · oom"
    assert payload.run_name(cell, replace(failed, params={})) == "laplace · oom"
    perfect = made_up_trial(5, scale=0.01, outcome=made_up_outcome(0.9999, 1.0))
    assert payload.run_name(cell, perfect).endswith("AUC 1.000 · leak .99")
    long = payload.run_name(cell, replace(fine, params={"where": "x" * 400}))
    assert len(long) == 250
    assert long.endswith("x… · AUC .726 · leak .03")


# The experiment


@pytest.mark.usefixtures("no_files")
def test_the_experiment_opens_on_its_runs_and_leads_to_the_summary_and_the_fronts(home):
    Recorder("c").sync(campaign(*ALL))
    tags = experiment().tags
    assert tags[summary.KIND] == "custom_model_development"
    [run] = runs_of(f"tags.`{payload.SUMMARY}` = 'true'")
    place = f"#/experiments/{experiment().experiment_id}/runs"
    first, *_ = tags[payload.NOTE].splitlines()
    assert f"({place}/{run.info.run_id}?workflowType=machine_learning)" in first
    assert f"({place}/{run.info.run_id}/artifacts/report/index.html?workflowType=machine_learning)" in first
    [joint] = [line for line in tags[payload.NOTE].splitlines() if line.startswith("- [the joint front]")]
    address = joint.partition("](")[2].removesuffix(")")
    [view] = parse_qs(address.removeprefix(f"{place}?"))["viewStateShareKey"]
    state = json.loads(tags[f"mlflow.sharedViewState.{view}"])
    assert found(state["searchFilter"]) == naive_joint(A, B) | naive_joint(C)
    ordered = runs_of(state["searchFilter"], order_by=[f"{state['orderByKey']} ASC"])
    assert [r.data.metrics["leakage"] for r in ordered] == sorted(r.data.metrics["leakage"] for r in ordered)


@pytest.mark.usefixtures("no_files")
def test_what_a_person_wrote_of_the_experiment_stays(home):
    Recorder("c").sync(campaign(*ALL))
    client, place = store.client(places.embedded_uri()), experiment().experiment_id
    client.set_experiment_tag(place, payload.NOTE, "for the meeting on Monday")
    client.set_experiment_tag(place, summary.KIND, "genai_development")
    Recorder("c").sync(campaign(*ALL))
    tags = experiment().tags
    assert (tags[payload.NOTE], tags[summary.KIND]) == ("for the meeting on Monday", "genai_development")


# Files


def files_of(home):
    """The attached files, by run and by name."""
    return {
        tuple(str(p.relative_to(home / "artifacts" / "c")).split("/artifacts/")): p for p in home.rglob("c/*/**/*.*")
    }


def test_each_run_of_a_front_carries_its_exported_setting(home, monkeypatch):
    monkeypatch.setattr(attached, "attach_summary", lambda *_: None)
    confirmed = replace(A, confirmation=made_up_confirmation())
    Recorder("c").sync(campaign(A, B))
    made = {name[0]: load_config(path) for name, path in files_of(home).items()}
    runs = {(r.data.tags[payload.STUDY], r.data.tags.get(payload.TRIAL)): r.info.run_id for r in runs_of()}
    for record in (A, B):
        for number in front_of(record):
            trial = next(t for t in record.ok if t.number == number)
            config = made.pop(runs[record.name, str(number)])
            assert config == exported(record, trial, f"{record.name}#{number}")
            assert config.defense.params["scale"] == trial.params["scale"]
    assert made == {}, "no other run has one"
    written = []
    monkeypatch.setattr(Runs, "log_text", lambda _, key, *__: written.append(key))
    Recorder("c").sync(campaign(A, B))
    assert written == []
    Recorder("c").sync(campaign(confirmed, B))
    assert written == [("c-0", "trial", 10)], "only what a confirmation changed is written again"


def test_a_setting_that_cannot_be_exported_stops_nothing(home, monkeypatch, caplog):
    monkeypatch.setattr(attached, "attach_summary", lambda *_: None)
    odd = replace(A.ok[0], params={"scale": -1.0}, outcome=made_up_outcome(0.999, 0.5))
    Recorder("c").sync(campaign(replace(A, trials=(odd, *A.trials[2:])), B))
    assert "1 setting of c-0 cannot be exported" in caplog.text
    assert len(files_of(home)) == len(front_of(B))


def test_the_summary_carries_page_tables_specs_and_filters_of_all_studies(home, monkeypatch):
    monkeypatch.setattr(attached, "attach_settings", lambda *_: None)
    Recorder("c").sync(campaign(A, B))
    files = {name[1]: path for name, path in files_of(home).items()}
    assert {"specs/c-0.yaml", "specs/c-1.yaml", "filters.json", "report/index.html"} <= set(files)
    assert {"report/figures/frontier.png", "report/tables/front.csv"} <= set(files)
    assert "the joint front" in json.loads(files["filters.json"].read_text())
    page = files["report/index.html"].read_text()
    assert "c-0" in page
    assert "c-1" in page
    files["report/index.html"].unlink()
    Recorder("c").sync(campaign(B, A))
    assert not files["report/index.html"].exists(), "what is up to date is not drawn again"


def test_the_attached_page_knows_what_belongs_to_no_study(home, monkeypatch):
    monkeypatch.setattr(attached, "attach_settings", lambda *_: None)
    left = Skipped("c-9", None, ("marvell is for two classes",))
    known = campaign(A, B, skipped=(left,))
    recorder = Recorder("c", look=lambda: known)
    for record in (A, B):
        recorder.on_study(record)
    recorder.on_end()
    page = {name[1]: path for name, path in files_of(home).items()}["report/index.html"]
    assert "marvell is for two classes" in page.read_text()
    Recorder("c").sync(campaign(A, B))
    assert "marvell is for two classes" not in page.read_text(), "it is written anew when that changes"
