"""Whole searches over Ray Tune with the simulated trainable: outcomes, faults, Ctrl-C, kill -9 and resume."""

import os
import signal
import time
from collections import Counter
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from trainables.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl import load_study
from tune_vfl.driver.api import resume
from tune_vfl.driver.campaign_run import run_study
from tune_vfl.driver.study_run import StudyRun
from tune_vfl.errors import StudyError, TuneVflError, UnreachableError
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spaces.named import space_of
from tune_vfl.spaces.space import point_key

WIDE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}


pytestmark = pytest.mark.usefixtures("home")


# One worker, where a test is not about several: each takes seconds to start.
ALONE = {"concurrency": 1}


class Ended(NamedTuple):
    record: StudyRecord
    stopped: bool


def go(options=None, *, name="study", sinks=(), progress=False, take_over=False, **fields):
    spec = simulated_spec(name, **fields)
    cell = simulated_cell(spec)
    work = TrainableSpec(SimulatedTrainable, options or {})
    study = PlannedStudy(spec, cell, space_of(spec, cell))
    how = {"sinks": sinks, "progress": progress, "work": work, "take_over": take_over}
    stopped = run_study(study, **how)
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
    packs = Counter(t.pack for t in Ledger.open("study").trials())
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


def test_more_budget_and_another_spec():
    go(budget={"trials": 4}, defense=WIDE, resources=ALONE)
    with pytest.raises(StudyError, match=r"budget\.trials: 4 -> 3"):
        go(budget={"trials": 3}, defense=WIDE, resources=ALONE)
    with pytest.raises(StudyError, match="sampler"):
        go(budget={"trials": 5}, defense=WIDE, resources=ALONE, sampler="random")
    check_ledger(go(budget={"trials": 5}, defense=WIDE, resources=ALONE).record, 5)
    study = resume("study", 7, progress=False, sinks=(), work=TrainableSpec(SimulatedTrainable, {}))
    check_ledger(study.record().studies[0], 7)


def test_a_trial_over_its_time_is_a_timeout():
    record = go({"sleep": 5.0}, budget={"trials": 2, "trial_minutes": 0.005}, resources={**ALONE, "pack": 2}).record
    assert {t.outcome.outcome for t in record.trials} == {"timeout"}


def test_workers_that_all_die_end_the_search(monkeypatch):
    monkeypatch.setattr("tune_vfl.execution.pack_searcher._MAX_LOSSES_IN_A_ROW", 3)
    with pytest.raises(TuneVflError, match="workers die"):
        go({"exit_above": -1.0}, defense=WIDE, budget={"trials": 40}, resources={**ALONE, "pack": 1})
    assert Ledger.open("study").record().running == 0


def test_a_ledger_that_is_gone_when_the_last_pack_of_a_stopped_search_is_told_is_an_error(ctrl_c, monkeypatch):
    end, told = StudyRun.end, []

    def gone(part, numbers, sent):
        told.append(numbers)
        if len(told) == 3:
            raise UnreachableError("the ledger is gone")
        if len(told) == 2:  # of the first two packs one is the undefended model
            os.kill(os.getpid(), signal.SIGINT)
        end(part, numbers, sent)

    monkeypatch.setattr(StudyRun, "end", gone)
    with pytest.raises(UnreachableError, match="the ledger is gone"):
        go({"sleep": 0.5}, budget={"trials": 8}, resources={"concurrency": 2, "pack": 1})
    assert len(told) == 3


class Broken:
    def __init__(self):
        self.told = 0

    def on_trials(self, study, records):
        self.told += len(records)
        raise RuntimeError("the tracking server is away")

    def on_study(self, record):
        raise RuntimeError("the tracking server is away")

    def on_end(self):
        raise RuntimeError("the tracking server is away")

    def left(self):
        raise RuntimeError("the tracking server is away")


class Listening:
    def __init__(self):
        self.trials, self.studies, self.ends = [], [], 0

    def on_trials(self, study, records):
        self.trials += [record.number for record in records]

    def on_study(self, record):
        self.studies.append(record)

    def on_end(self):
        self.ends += 1

    def left(self):
        return ""


def test_a_broken_listener_is_warned_of_once_and_the_others_hear_everything(capfd):
    broken, listening = Broken(), Listening()
    ended = go(budget={"trials": 6}, defense=WIDE, sinks=(broken, listening), resources=ALONE)
    check_ledger(ended.record, 6)
    assert broken.told == 6
    assert sorted(listening.trials) == [t.number for t in ended.record.trials]
    assert listening.studies[0].trials == ()
    assert listening.studies[-1] == ended.record
    assert listening.ends == 1
    assert capfd.readouterr().err.count("Broken failed") == 1


def test_no_time_left_asks_nothing_more(capfd, monkeypatch):
    heard = Listening()
    # The half hour is over once the first trial is told: how long a worker takes to start must not matter.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (3600 if heard.trials else 0))
    monkeypatch.setattr("tune_vfl.driver.search_packs.time", clock)
    budget = {"trials": 400, "minutes": 30}
    ended = go({"sleep": 0.05}, defense=WIDE, budget=budget, progress=True, resources=ALONE, sinks=(heard,))
    record = ended.record
    assert record.running == 0
    assert 0 < record.waiting < 400
    assert not ended.stopped
    assert "tune-vfl resume study" in capfd.readouterr().err
