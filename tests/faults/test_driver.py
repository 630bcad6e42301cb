"""A driver that is killed, stopped, interrupted or short of disk, at each moment of a search."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.faults.harness import Driver, check_study, finished, lost
from tests.helpers.drivers import shared_ray
from tune_vfl.ledger.storage import storage_at
from tune_vfl.papers.results import SeedResult, read_results

if TYPE_CHECKING:
    from tests.conftest import Run

pytestmark = pytest.mark.usefixtures("home")

KILLED = [
    pytest.param({"at": "ask", "call": 5}, 1, id="ask", marks=pytest.mark.slow),
    pytest.param({"at": "tell", "call": 5}, 2, id="tell", marks=pytest.mark.slow),
    pytest.param({"at": "told", "call": 4}, 2, id="told"),
]


@pytest.mark.parametrize(("fault", "most_lost"), KILLED)
def test_kill_9_of_the_driver_loses_its_flight_alone(fault: dict[str, Any], most_lost: int, tmp_path: Path) -> None:
    with Driver(tmp_path, shared_ray(), fault={**fault, "do": "kill"}) as driver:
        assert driver.ends()[0] == -signal.SIGKILL
        kept = finished()
        record = driver.go_on()
    assert len(record.trials) >= kept
    assert lost(record) <= most_lost


def test_kill_9_in_flight(tmp_path: Path) -> None:
    with Driver(tmp_path, shared_ray(), options={"sleep": 0.5}) as driver:
        driver.wait_for(2)
        driver.wait_for_flight()
        driver.send(signal.SIGKILL)
        driver.ends()
        assert 0 < lost(driver.go_on()) <= 2


def test_the_first_ctrl_c_loses_nothing(tmp_path: Path) -> None:
    with Driver(tmp_path, None, options={"sleep": 0.3}) as driver:
        driver.wait_for(2)
        driver.wait_for_flight()  # between two packs nothing is running
        # As a terminal does it: to the whole process group, Ray's processes included.
        os.killpg(driver.process.pid, signal.SIGINT)
        code, err = driver.ends()
        assert code == 130
        assert re.search(r"stopping: \d+ of 12 trials are kept, \d running", err.replace(" are running", " running"))
        assert "'tune-vfl resume study'" in err
        assert lost(driver.go_on()) == 0


@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGINT, signal.SIGINT), 130), pytest.param((signal.SIGTERM,), 143, marks=pytest.mark.slow)],
)
def test_leaving_at_once_costs_the_flight(signals: tuple[int, ...], code: int, tmp_path: Path) -> None:
    with Driver(tmp_path, shared_ray(), options={"sleep": 2.0}) as driver:
        driver.wait_until_trained(3)  # the second pack has just begun
        for number in signals:
            driver.send(number)
            time.sleep(0.3)
        ended, err = driver.ends()
        assert ended == code
        assert "left at once; what was finished is kept, what was running is asked again" in err
        assert 0 < lost(driver.go_on()) <= 2


def test_ctrl_c_while_ray_starts_is_answered_and_costs_nothing(tmp_path: Path) -> None:
    with Driver(tmp_path, None, fault={"at": "start", "do": "stop"}) as driver:
        driver.wait_until_stopped()  # it is about to start Ray, beside what it does until it needs it
        driver.send(signal.SIGCONT)
        time.sleep(0.1)  # on an idle machine Ray may have started after half a second
        driver.send(signal.SIGINT)
        code, err = driver.ends()
        assert code == 130
        assert "study: left" in err
        assert driver.go_on().trials


@pytest.mark.slow
def test_the_death_of_rays_head_ends_in_words_and_the_study_goes_on(tmp_path: Path) -> None:
    with Driver(tmp_path, None, options={"sleep": 0.5}) as driver:
        driver.wait_for(2)
        family = psutil.Process(driver.process.pid).children(recursive=True)
        [head] = [process for process in family if process.name() == "gcs_server"]
        head.kill()
        code, err = driver.ends()
        assert code == 4
        assert "Ray on this machine died" in err
        assert "'tune-vfl resume'" in err
        assert lost(driver.go_on()) <= 2


def test_a_driver_that_was_stopped_for_too_long_finds_its_study_taken(tmp_path: Path) -> None:
    """Its lease ran out while it could not renew it, and another search has finished the study."""
    short = {"tune_vfl.ledger.lease.LEASE_SECONDS": 2.0}
    with Driver(tmp_path, shared_ray(), fault={"at": "ask", "call": 5, "do": "stop"}, patch=short) as driver:
        driver.wait_until_stopped()
        time.sleep(2.5)
        record = driver.go_on()
        driver.send(signal.SIGCONT)
        code, err = driver.ends()
    assert code == 2
    assert "study 'study' was taken over" in err or "is not held by this process any more" in err
    assert check_study() == record, "nothing came after the end"


def test_a_second_driver_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with Driver(tmp_path, shared_ray(), options={"sleep": 2.0}) as driver:
        driver.wait_for(2)
        with Driver(tmp_path / "second", shared_ray()) as second:
            code, err = second.ends()
        assert code == 2
        assert f"is being run by another process: process {driver.process.pid} on " in err
        assert driver.ends()[0] == 0
    assert lost(check_study()) == 0


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path) -> None:
    with Driver(tmp_path, shared_ray(), fault={"at": "tell", "call": 4, "do": "clock"}) as driver:
        assert driver.ends()[0] == 0
    assert lost(check_study()) == 0


def test_a_full_disk_ends_in_words_and_the_study_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with Driver(tmp_path, shared_ray(), fault={"at": "tell", "call": 4, "do": "fill"}) as driver:
        code, err = driver.ends()
        assert code == 4
        assert re.search(r"disk|room|written", err), err
        assert driver.go_on().ok


def test_a_home_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_VFL_HOME", "/proc/nowhere/home")
    with Driver(tmp_path, shared_ray()) as driver:
        code, err = driver.ends()
    assert code == 4
    assert "cannot be written" in err
    assert not driver.journal.exists()
    assert not storage_at().exists()


REPRODUCE = ("reproduce", "kdk-table6", "--dataset", "digits", "--seeds", "12", "--json", "--results")


def _seeds(folder: Path) -> dict[tuple[str, int], SeedResult]:
    """Return what `reproduce` has kept, by evaluation and seed."""
    found = read_results(folder, REPRODUCE[1]).evaluations
    return {(label, seed): result for label, one in found.items() for seed, result in one.seeds.items()}


@pytest.mark.slow  # two times 24 trainings
def test_kill_9_of_reproduce_keeps_its_seeds_and_does_not_change_its_answer(tmp_path: Path, run: "Run") -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "tune_vfl", *REPRODUCE, str(killed)]
    address = shared_ray()  # its token is in the environment from now on
    with subprocess.Popen(command, env={**os.environ, "RAY_ADDRESS": address}, stdout=subprocess.DEVNULL) as program:
        while len(_seeds(killed)) < 3 and program.poll() is None:
            time.sleep(0.02)
        program.kill()
    before = _seeds(killed)
    assert program.returncode == -signal.SIGKILL
    assert 3 <= len(before) < 24, "it was killed in the middle"
    resumed, uninterrupted = (run(*REPRODUCE, folder)[:2] for folder in (killed, whole))
    assert resumed[0] == 0
    assert resumed == uninterrupted
    after = _seeds(killed)
    assert {key: after[key] for key in before} == before, "what was kept, its seconds too, was not trained again"
    assert {key: one.scores for key, one in after.items()} == {key: one.scores for key, one in _seeds(whole).items()}
    assert len(after) == 24
