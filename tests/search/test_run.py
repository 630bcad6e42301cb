"""Whole searches over Ray Tune with the simulated trainable: outcomes, faults, Ctrl-C, kill -9 and resume."""

import math
import os
import re
import signal
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.helpers.drivers import shared_ray, start_driver
from trainables.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl.errors import StudyError, TuneVflError
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.planned import PlannedStudy
from tune_vfl.search import load_study, resume
from tune_vfl.search.runner import Work, run_study
from tune_vfl.spaces.named import space_of
from tune_vfl.spaces.space import point_key

WIDE = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}


pytestmark = pytest.mark.usefixtures("home")


# One worker, where a test is not about several: each takes seconds to start.
ALONE = {"concurrency": 1}


def go(options=None, *, name="study", listeners=(), progress=False, trials=None, take_over=False, **fields):
    spec = simulated_spec(name, **fields)
    cell = simulated_cell(spec)
    work = Work(SimulatedTrainable, options or {})
    study = PlannedStudy(spec, cell, space_of(spec, cell))
    return run_study(study, listeners=listeners, progress=progress, work=work, trials=trials, take_over=take_over)


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
    check_ledger(ended.record(), 24)
    assert not ended.stopped
    assert ended.record().by_outcome() == {"ok": 24, "running": 0, "waiting": 0}
    assert ended.record().baseline.outcome == "ok"
    assert ended.record().reference_point == (0.5, 1.0)
    packs = Counter(t.user_attrs["pack"] for t in Ledger.open("study").trials())
    assert set(packs.values()) == {6}
    summary = load_study("study").summary()
    assert summary["trials"]["ok"] == 24
    assert summary["hypervolume"] > 0.3
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "24/24 trials: 24 ok" in shown.err
    assert "without defense" in shown.err
    before = ended.record()
    again = go({}, budget={"trials": 24})
    assert again.record() == before, "a finished study has nothing left to do"


def test_more_budget_and_another_spec():
    go(budget={"trials": 4}, defense=WIDE, resources=ALONE)
    with pytest.raises(StudyError, match=r"budget\.trials: 4 -> 3"):
        go(budget={"trials": 3}, defense=WIDE, resources=ALONE)
    with pytest.raises(StudyError, match="sampler"):
        go(budget={"trials": 5}, defense=WIDE, resources=ALONE, sampler="random")
    check_ledger(go(budget={"trials": 5}, defense=WIDE, resources=ALONE).record(), 5)
    study = resume("study", 7, progress=False, listeners=(), work=Work(SimulatedTrainable, {}))
    check_ledger(study.record(), 7)


def test_every_outcome_ends_as_what_it_is():
    space = {"name": "laplace", "space": {"scale": {"choice": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]}}}
    options = {"nan_above": 0.9, "raise_above": 0.6, "oom_above": 0.8, "diverge_above": 0.2}
    # 1e-2 raises, 1e-1 runs out of memory first; with P > 1 none of them harms the others.
    record = go(options, defense=space, resources={**ALONE, "pack": 5}).record()
    ends = {t.params["scale"]: t.outcome.outcome for t in record.trials}
    assert ends == {1e-5: "ok", 1e-4: "diverged", 1e-3: "diverged", 1e-2: "error", 1e-1: "oom"}
    assert all(t.outcome.reason for t in record.trials if t.outcome.outcome != "ok")
    check_ledger(record, 5)


def test_nan_ends_diverged_and_harms_nothing_else():
    record = go({"nan_above": 0.5}, defense=WIDE, sampler="random", budget={"trials": 16}, resources=ALONE).record()
    check_ledger(record, 16)
    assert set(record.by_outcome()) == {"ok", "diverged", "running", "waiting"}
    for trial in record.trials:
        t = (5 + math.log10(trial.params["scale"])) / 4
        assert trial.outcome.outcome == ("diverged" if t > 0.5 else "ok")


def test_a_trial_over_its_time_is_a_timeout():
    record = go({"sleep": 5.0}, budget={"trials": 2, "trial_minutes": 0.005}, resources={**ALONE, "pack": 2}).record()
    assert {t.outcome.outcome for t in record.trials} == {"timeout"}


def test_a_killed_worker_costs_a_retry_and_nothing_else(tmp_path, capsys):
    record = go(
        {"exit_once": str(tmp_path / "died")}, defense=WIDE, budget={"trials": 8}, resources={"pack": 2}
    ).record()
    check_ledger(record, 8)
    assert record.baseline.outcome == "ok"
    assert (tmp_path / "died").exists()
    assert capsys.readouterr().out == ""  # Ray tells of dead workers on stdout, where an answer may be


def test_a_setting_that_kills_every_worker_ends_as_an_error():
    record = go({"exit_above": 0.9}, budget={"trials": 4}, resources={**ALONE, "pack": 4}).record()
    check_ledger(record, 4)
    by_scale = {t.params["scale"]: t.outcome.outcome for t in record.counted}
    assert by_scale == {1e-4: "ok", 1e-3: "ok", 1e-2: "ok", 1e-1: "error"}


def test_a_trial_stuck_in_compiled_code_is_a_timeout_and_costs_the_others_of_its_pack_a_retry(monkeypatch, capfd):
    monkeypatch.setattr("tune_vfl.search.watch.GRACE_SECONDS", 5.0)
    ended = go(
        {"hang_above": 0.9},
        budget={"trials": 4, "trial_minutes": 0.02},
        resources={**ALONE, "pack": 4},
        progress=True,
    )
    record = ended.record()
    check_ledger(record, 4)
    by_scale = {t.params["scale"]: t.outcome.outcome for t in record.counted}
    assert by_scale == {1e-4: "ok", 1e-3: "ok", 1e-2: "ok", 1e-1: "timeout"}
    (late,) = (t for t in record.trials if t.outcome.outcome == "timeout")
    assert "stuck in compiled code" in late.outcome.reason
    assert record.by_outcome()["preempted"] == 4
    assert ended.overdue() == []
    shown = capfd.readouterr().err
    assert "its 4 trials are asked again one by one" in shown
    assert "it ended as timeout" in shown


def test_workers_that_all_die_end_the_search(monkeypatch):
    monkeypatch.setattr("tune_vfl.search.searcher._MAX_LOSSES_IN_A_ROW", 3)
    with pytest.raises(TuneVflError, match="workers die"):
        go({"exit_above": -1.0}, defense=WIDE, budget={"trials": 40}, resources={**ALONE, "pack": 1})
    assert Ledger.open("study").record().running == 0


class Broken:
    def __init__(self):
        self.told = 0

    def on_trial(self, record):
        self.told += 1
        raise RuntimeError("the tracking server is away")

    def on_study(self, record):
        raise RuntimeError("the tracking server is away")


class Listening:
    def __init__(self):
        self.trials, self.studies = [], []

    def on_trial(self, record):
        self.trials.append(record.number)

    def on_study(self, record):
        self.studies.append(record)


def test_a_broken_listener_is_warned_of_once_and_the_others_hear_everything(capfd):
    broken, listening = Broken(), Listening()
    ended = go(budget={"trials": 6}, defense=WIDE, listeners=(broken, listening), resources=ALONE)
    check_ledger(ended.record(), 6)
    assert broken.told == 6
    assert sorted(listening.trials) == [t.number for t in ended.record().trials]
    assert listening.studies[0].trials == ()
    assert listening.studies[-1] == ended.record()
    assert capfd.readouterr().err.count("Broken failed") == 1


def test_no_time_left_asks_nothing_more(capfd, monkeypatch):
    heard = Listening()
    # The half hour is over once the first trial is told: how long a worker takes to start must not matter.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (3600 if heard.trials else 0))
    monkeypatch.setattr("tune_vfl.search.searcher.time", clock)
    budget = {"trials": 400, "minutes": 30}
    ended = go({"sleep": 0.05}, defense=WIDE, budget=budget, progress=True, resources=ALONE, listeners=(heard,))
    record = ended.record()
    assert record.running == 0
    assert 0 < record.waiting < 400
    assert not ended.stopped
    assert "tune-vfl resume study" in capfd.readouterr().err


DRIVER = """
    import sys
    from trainables.simulated import SimulatedTrainable, simulated_cell, simulated_spec
    from tune_vfl.errors import TuneVflError
    from tune_vfl.ledger.planned import PlannedStudy
    from tune_vfl.search.runner import Work, run_study
    from tune_vfl.spaces.named import space_of

    wide = {"name": "laplace", "space": {"scale": {"float": [1e-5, 1e-1], "log": True}}}
    resources = {"pack": 2, "concurrency": int(sys.argv[3])}
    spec = simulated_spec("study", defense=wide, budget={"trials": 24}, resources=resources)
    cell = simulated_cell(spec)
    work = Work(SimulatedTrainable, {"sleep": float(sys.argv[2]), "journal": sys.argv[1]})
    try:
        ended = run_study(PlannedStudy(spec, cell, space_of(spec, cell)), work=work)
    except TuneVflError as error:
        sys.exit(f"ended with {error.exit_code}: {error}")
    print("stopped" if ended.stopped else "done")
"""


def test_a_driver_that_is_cut_off_goes_on_alone_until_it_is_taken_over(postgres, monkeypatch, tmp_path):
    """The split brain: every session of the server is ended, and a second search of the same study begins."""
    monkeypatch.setenv("TUNE_VFL_STORAGE", postgres.fresh())
    journal = tmp_path / "journal"
    driver = start_driver(DRIVER, journal, 0.25, 2)
    fields = {"defense": WIDE, "budget": {"trials": 24}, "resources": {"pack": 2}}
    try:
        wait_for_trials(4, journal, driver)
        assert postgres.end_sessions()
        with pytest.raises(StudyError, match=rf"process {driver.pid} on .* --take-over"):
            go(**fields)
        wait_for_trials(6, journal, driver)
        record = go(take_over=True, **fields).record()
        _, err = driver.communicate(timeout=300)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
    check_ledger(record, 24)
    assert driver.returncode == 1
    assert "ended with 2: study 'study' was taken over by another process" in err
    assert f"process {os.getpid()} on " in err
    assert "Traceback" not in err
    assert Ledger.open("study").record().trials == record.trials, "nothing came after the end"


def wait_for_trials(count, journal, process):
    end = time.monotonic() + 300  # a machine that is busy with other tests takes its time
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        try:
            told = len(Ledger.open("study").record().trials)
        except StudyError:
            told = 0
        began = journal.exists()
        if began and told >= count:
            return
        time.sleep(0.1 if began else 1.0)  # a look at the ledger takes more than a moment of a core
    pytest.fail("the driver did not get going")


def test_kill_9_in_the_middle_then_resume(tmp_path):
    journal = tmp_path / "journal"
    driver = start_driver(DRIVER, journal, 0.6, 2)
    wait_for_trials(6, journal, driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    left = Ledger.open("study").record()
    assert left.running > 0
    assert len(left.counted) < 24
    study = resume("study", progress=False, listeners=(), work=Work(SimulatedTrainable, {}))
    record = study.record()
    check_ledger(record, 24)
    assert {t.outcome.outcome for t in record.trials} == {"ok", "preempted"}
    kept = {t.number: t for t in left.trials}
    assert all(kept[n] == t for n, t in ((t.number, t) for t in record.trials) if n in kept), "nothing told was lost"


def test_ctrl_c_lets_running_packs_finish_and_says_how_to_resume(tmp_path):
    journal = tmp_path / "journal"
    driver = start_driver(DRIVER, journal, 0.6, 2)
    wait_for_trials(4, journal, driver)
    # As a terminal does it: to the whole process group, Ray's processes included.
    os.killpg(driver.pid, signal.SIGINT)
    out, err = driver.communicate(timeout=180)
    assert driver.returncode == 0, err
    assert out.strip() == "stopped"
    assert "tune-vfl resume study" in err
    record = Ledger.open("study").record()
    assert record.running == 0
    assert record.by_outcome().keys() == {"ok", "running", "waiting"}, "nothing was lost"
    assert 0 < record.waiting < 24
    started = len(re.findall(r"scale", journal.read_text()))
    assert started == len(record.trials), "every started trial was told"


def test_a_second_ctrl_c_leaves_at_once(tmp_path):
    journal = tmp_path / "journal"
    driver = start_driver(DRIVER, journal, 3.0, 1, ray=shared_ray())
    wait_for_trials(0, journal, driver)
    os.kill(driver.pid, signal.SIGINT)
    while "press Ctrl-C again" not in (line := driver.stderr.readline()):
        assert line, "the first Ctrl-C was not answered"
    os.kill(driver.pid, signal.SIGINT)
    _, err = driver.communicate(timeout=180)
    assert driver.returncode != 0
    assert "left at once" in err
    study = resume("study", progress=False, listeners=(), work=Work(SimulatedTrainable, {}))
    check_ledger(study.record(), 24)
