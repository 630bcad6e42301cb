"""A study as a person holds it: the front, what is selected from it, what progress says."""

import dataclasses
import io
import json
import math
from dataclasses import replace

import pytest

from tests.helpers.campaigns import chosen
from tests.helpers.ledgers import open_ledger
from trainables.simulated import Simulation, closed_form, simulate
from tune_vfl import load_study
from tune_vfl.data import load
from tune_vfl.driver.progress import ProgressReport, RunProgress
from tune_vfl.errors import SelectionError, StudyError, UsageError
from tune_vfl.ledger.reading import study_names
from tune_vfl.outcome import Outcome
from tune_vfl.service.reporting import changed_data
from tune_vfl.spec.cell import References

pytestmark = pytest.mark.usefixtures("home")


def scale_at(t):
    return 10 ** (-5 + 4 * t)


@pytest.fixture
def study():
    """Points of the known curve, a failure, a lost trial, and one point twice."""
    ledger = open_ledger(budget={"trials": 8})
    cell = ledger.cell
    ledger.set_references_and_reference_point(References(), (0.5, 1.0))
    ledger.set_baseline(Outcome.model_validate(simulate(Simulation(), cell, {}).model_dump()))
    for t in (0.0, 0.5, 1.0, 0.5):
        params = {"scale": scale_at(t)}
        ledger.tell(ledger.begin(params), Outcome.model_validate(simulate(Simulation(), cell, params).model_dump()))
    worse = Outcome.model_validate(simulate(Simulation(), cell, {"scale": scale_at(0.5), "other": 1.0}).model_dump())
    ledger.tell(ledger.begin({"scale": 0.002}), worse)
    ledger.tell(ledger.begin({"scale": 0.003}), Outcome.failed("diverged", "NaN"))
    ledger.lose(ledger.begin({"scale": 0.004}), "driver", "stopped")
    ledger.close()
    return load_study("study")


def test_the_front_keeps_equal_points_and_drops_dominated_ones(study):
    front = study.frontier()
    assert [p["number"] for p in front] == [0, 1, 3, 2], "by falling utility"
    middle = front[1]
    assert (middle["utility"], middle["leakage"]) == pytest.approx(closed_form(0.5))
    assert middle["params"] == {"scale": pytest.approx(1e-3)}
    beside = {"utility_std", "leakage_std", "attacks", "published", "measure", "confirmed", "undecided"}
    beside |= {"utility_interval", "leakage_interval", "leakage_worst_seed"}
    assert set(middle) == {"number", "params", "utility", "leakage", *beside}
    assert study.frontier(attack="norm") == front
    with pytest.raises(SelectionError, match="norm"):
        study.frontier(attack="pmc")


def test_the_summary_is_plain_data_and_finite(study):
    summary = study.summary()
    assert summary["schema"] == "tune-vfl/study/1"
    assert summary["trials"] == {"ok": 5, "diverged": 1, "preempted": 1, "running": 0, "waiting": 2}
    assert summary["baseline"]["utility"] == pytest.approx(0.95)
    assert summary["front"] == study.frontier()
    # Two steps of the staircase between the reference point (0.5, 1) and the curve.
    (u0, _), (u1, l1), (u2, l2) = closed_form(0.0), closed_form(0.5), closed_form(1.0)
    assert summary["hypervolume"] == pytest.approx((u1 - 0.5) * (1 - l1) + (u2 - 0.5) * (l1 - l2))
    assert u0 > u1 > u2
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


@pytest.mark.parametrize(
    ("by", "number"),
    [
        ("knee", 1),
        ("max-utility", 0),
        ("min-leakage", 2),
        ("leakage<=0.3", 1),
        ("leakage < 0.2", 2),
        ("utility>=0.8", 1),
        ("utility >= 0.8 and leakage <= 0.9", 1),
    ],
)
def test_selecting(study, by, number):
    assert chosen(study.record().studies[0], by).number == number


@pytest.mark.parametrize("by", ["best", "leakage=0.2", "leakage<=x", "loss<=1", ""])
def test_a_selection_that_is_none(study, by):
    with pytest.raises(UsageError, match="expected knee"):
        chosen(study.record().studies[0], by)


def test_a_condition_that_nothing_meets_says_where_the_front_is(study):
    with pytest.raises(SelectionError, match=r"leakage 0\.0000"):
        chosen(study.record().studies[0], "utility>=0.99")
    with pytest.raises(SelectionError, match="no point"):
        chosen(replace(study.record().studies[0], trials=()), "knee")


def test_an_export_comes_back(study, tmp_path):
    from tune_vfl import load_config

    config = study.export("min-leakage", tmp_path / "best.json")
    held = load_config(tmp_path / "best.json")
    assert held == config
    assert held.trial == 2
    assert held.defense.params["scale"] == pytest.approx(0.1)


def test_the_names_of_studies(study):
    assert study_names() == ["study"]
    with pytest.raises(StudyError, match="stdy"):
        load_study("stdy")


def test_standing_counts_and_notes_when_the_hypervolume_grew(study):
    record = study.record().studies[0]
    standing = RunProgress([record])
    assert (standing.done, standing.total, standing.front_size) == (6, 8, 4)
    assert math.isinf(standing.eta_seconds)
    standing.asked(2)
    standing.told(record.name, record.trials[5])
    assert "1 trials ago" in standing.line()
    assert "1 running" in standing.line()
    assert "ETA 0:00" in standing.line()


def test_trials_that_run_count_half_for_the_time_that_is_left(study, monkeypatch):
    clock = iter([0.0, 60.0, 60.0])
    monkeypatch.setattr("tune_vfl.driver.progress.time.monotonic", lambda: next(clock))
    record = dataclasses.replace(study.record().studies[0], trials=())
    standing = RunProgress([record])
    standing.total = 43
    standing.asked(5)
    standing.told(record.name, study.record().studies[0].trials[0])
    assert standing.eta_seconds == pytest.approx(60 / 3 * 40), "one finished and four that run are three in a minute"


def test_without_a_terminal_progress_is_one_plain_line(study):
    stream = io.StringIO()
    report = ProgressReport("study", [study.record().studies[0]], stream=stream)
    report.on_ask("study", 1)
    report.on_tell("study", study.record().studies[0].trials[1])
    assert stream.getvalue() == "", "no line before the minute is over"
    report.close()
    assert stream.getvalue().startswith("study: 7/8 trials: 6 ok")
    assert stream.getvalue().count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_progress_is_a_bar(study):
    stream = Terminal()
    report = ProgressReport("study", [study.record().studies[0]], stream=stream)
    report.on_tell("study", study.record().studies[0].trials[1])
    report.on_baseline(["study"], Outcome.failed("diverged", "NaN"))
    report.close()
    assert "7/8 trials" in stream.getvalue()
    assert "without defense: diverged" in stream.getvalue()


def test_a_report_says_when_a_studys_own_file_holds_other_rows(tmp_path, home):
    bank = tmp_path / "bank.csv"
    bank.write_text("a,b,y\n" + "".join(f"{k},{k % 7},{k % 2}\n" for k in range(40)), encoding="utf-8")
    dataset = {"name": "csv", "path": str(bank), "label": "y", "passive_parties": 1}
    record = open_ledger("own", dataset=dataset).record()
    record = replace(record, data=load(record.cell.dataset).fingerprint)
    assert changed_data(record) == ""
    assert changed_data(replace(record, data="")) == "", "nothing to compare"
    bank.write_text("a,b,y\n" + "".join(f"{k},{k % 5},{k % 2}\n" for k in range(40)), encoding="utf-8")
    assert f"{bank} holds other rows now" in changed_data(record)
    bank.write_text("a\n", encoding="utf-8")
    assert "cannot be read any more" in changed_data(record)
    bank.unlink()
    assert changed_data(record) == "", "a study of another machine"
    assert changed_data(open_ledger("bundled").record()) == ""
