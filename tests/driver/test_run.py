"""Whole searches over Ray Tune with the simulated trainable; what needs no Ray is in test_without_workers.py."""

import os
import signal
from collections import Counter
from typing import NamedTuple

import pytest

from tests.helpers.ledgers import reopened
from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl import load_study
from tune_vfl.driver import campaign_run
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.driver.study_run import StudyRun
from tune_vfl.errors import StudyError, UnreachableError
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spaces.named import space_of
from tune_vfl.spaces.space import point_key

pytestmark = pytest.mark.usefixtures("home")


class Ended(NamedTuple):
    record: StudyRecord
    stopped: bool


def go(options=None, *, name="study", sinks=(), progress=False, take_over=False, other_code=False, **fields):
    spec = simulated_spec(name, **fields)
    cell = simulated_cell(spec)
    work = TrainableSpec(SimulatedTrainable, options or {})
    study = PlannedStudy(spec, cell, space_of(spec, cell))
    how = {"sinks": sinks, "progress": progress, "work": work, "take_over": take_over, "other_code": other_code}
    stopped = run_campaign(PlannedCampaign.of(study), **how)
    return Ended(load_study(name).record().studies[0], stopped)


def check_ledger(record, trials):
    """What must hold of every finished study."""
    assert record.running == record.waiting == 0
    assert len(record.counted) == trials
    retried = {t.retry_of for t in record.trials if t.retry_of is not None}
    lost = {t.number for t in record.trials if t.outcome.outcome == "preempted"}
    assert retried == lost, "every lost trial was asked again, once"
    first_asked = [point_key(t.params) for t in record.trials if t.retry_of is None]
    assert len(set(first_asked)) == len(first_asked), "no point twice"


def test_a_search_fills_its_ledger_with_a_front_and_a_baseline(capfd):
    ended = go({"noise": 0.01}, budget={"trials": 24}, progress=True)
    check_ledger(ended.record, 24)
    assert not ended.stopped
    assert ended.record.by_outcome() == {"ok": 24, "running": 0, "waiting": 0}
    assert ended.record.baseline.outcome == "ok"
    assert ended.record.reference_point == (0.5, 1.0)
    packs = Counter(t.pack for t in reopened("study").trials())
    assert set(packs.values()) == {6}
    summary = load_study("study").summary()
    assert summary["trials"]["ok"] == 24
    assert summary["hypervolume"] > 0.3
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "24/24 trials: 24 ok" in shown.err
    assert "without defense" in shown.err
    before = ended.record
    again = go({}, budget={"trials": 24})
    assert again.record == before, "a finished study has nothing left to do"


def test_a_ledger_that_is_gone_when_the_last_pack_of_a_stopped_search_is_told_is_an_error(ctrl_c, monkeypatch):
    store, told = StudyRun.store, []

    def gone(part, job, answers):
        told.append(job)
        if len(told) == 3:
            raise UnreachableError("the ledger is gone")
        if len(told) == 2:  # of the first two packs one is the undefended model
            os.kill(os.getpid(), signal.SIGINT)
        store(part, job, answers)

    monkeypatch.setattr(StudyRun, "store", gone)
    with pytest.raises(UnreachableError, match="the ledger is gone"):
        go({"sleep": 0.5}, budget={"trials": 8}, resources={"concurrency": 2, "pack": 1})
    assert len(told) == 3


def test_other_code_is_refused_unless_it_is_accepted(monkeypatch, capfd):
    """A defense that was edited in place: its new leakages do not belong beside the old ones."""
    go(budget={"trials": 4})
    (held,) = reopened("study").code
    changed = {**held, "tune_vfl.defenses.laplace": "edited"}
    monkeypatch.setattr(campaign_run, "code_of", lambda *_: changed)
    go(budget={"trials": 4})  # nothing is owed, nothing is measured
    with pytest.raises(StudyError, match=r"measured by other code: tune_vfl\.defenses\.laplace \(changed\)"):
        go(budget={"trials": 6})
    assert len(load_study("study").record().studies[0].trials) == 4
    check_ledger(go(budget={"trials": 6}, other_code=True).record, 6)
    assert reopened("study").code == [held, changed]
    assert "measured by other code from here on: tune_vfl.defenses.laplace (changed)" in capfd.readouterr().err
    check_ledger(go(budget={"trials": 7}).record, 7)


def test_a_study_without_digests_goes_on_with_a_note(capfd):
    go(budget={"trials": 4})
    ledger = reopened("study")
    ledger._set(code=None)
    check_ledger(go(budget={"trials": 6}).record, 6)
    assert "which code measured its first trials is not known" in capfd.readouterr().err
    assert len(ledger.code) == 1
