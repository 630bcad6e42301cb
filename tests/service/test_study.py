"""A study as a person holds it: the front, its summary, an export, and whether its file holds other rows."""

import json
from dataclasses import replace

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, closed_form, simulate
from tune_vfl import load_study
from tune_vfl.data import load
from tune_vfl.errors import UnknownNameError
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
    with pytest.raises(UnknownNameError, match="norm"):
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


def test_an_export_comes_back(study, tmp_path):
    from tune_vfl import load_config

    config = study.export("min-leakage", tmp_path / "best.json")
    held = load_config(tmp_path / "best.json")
    assert held == config
    assert held.trial == 2
    assert held.defense.params["scale"] == pytest.approx(0.1)


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
