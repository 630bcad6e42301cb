"""A PostgreSQL or an MLflow server that is restarted, cut off, away or slow under a search."""

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.driver import search
from tests.faults.harness import Driver, check_mlflow, check_study, lost
from tests.faults.mlflow_server import Door, Server
from tests.helpers.drivers import shared_ray
from tests.helpers.ledgers import reopened
from tests.helpers.postgres import Postgres
from tune_vfl.errors import StudyError
from tune_vfl.records.studies import StudyRecord

pytestmark = pytest.mark.usefixtures("home")


def restart(server: Postgres) -> None:
    server.stop()
    server.start()


def away_for_a_while(server: Postgres) -> None:
    server.stop()
    time.sleep(8)
    server.start()


def end_sessions(server: Postgres) -> None:
    assert server.end_sessions()


BY_HAND = [pytest.param(fault, marks=pytest.mark.slow) for fault in (restart, end_sessions)]


@pytest.mark.parametrize("fault", [*BY_HAND, away_for_a_while])
def test_what_becomes_of_the_server_costs_the_wait_alone(
    fault: Any, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TUNE_VFL_STORAGE", postgres.fresh())
    with Driver(tmp_path, shared_ray(), options={"sleep": 0.3}) as driver:
        driver.wait_for(2)
        fault(postgres)
        code, err = driver.ends()
    assert code == 0, err
    assert lost(check_study()) == 0


def test_a_driver_that_was_cut_off_goes_on_alone_until_it_is_taken_over(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The split brain: every session of the server is ended, and a second search of the same study begins."""
    monkeypatch.setenv("TUNE_VFL_STORAGE", postgres.fresh())
    with Driver(tmp_path, shared_ray(), options={"sleep": 0.5}) as driver:
        driver.wait_for(2)
        assert postgres.end_sessions()
        with pytest.raises(StudyError, match=rf"process {driver.process.pid} on .* --take-over"):
            search(driver.spec, {})
        driver.wait_for(4)
        search(driver.spec, {}, take_over=True)
        code, err = driver.ends()
    record = check_study()
    assert code == 2
    assert "study 'study' was taken over by another process" in err
    assert f"process {os.getpid()} on " in err
    assert reopened("study").record().trials == record.trials, "nothing came after the end"


def open_later(door: Door, driver: Driver) -> None:
    driver.wait_for(4)
    door.is_open = True


def shut_for_a_while(door: Door, driver: Driver) -> None:
    driver.wait_for(3)
    door.shut()
    driver.wait_for(7)
    door.is_open = True


def shut_until_the_end(door: Door, driver: Driver) -> None:
    driver.wait_for(3)
    door.shut()


def slow(door: Door, driver: Driver) -> None:
    door.delay = 0.2


MOMENTS = [
    pytest.param(False, open_later, id="start", marks=pytest.mark.slow),
    pytest.param(True, shut_for_a_while, id="middle", marks=pytest.mark.slow),
    pytest.param(True, shut_until_the_end, id="end"),
    pytest.param(True, slow, id="slow", marks=pytest.mark.slow),
]


def resume_until_mlflow_answers(driver: Driver, record: StudyRecord) -> None:
    """Resume, and once more after a time-out: on a busy machine the server may be slow again."""
    heard: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logging.getLogger("tune_vfl.tracking"), "warning", lambda text, *_: heard.append(text))
        for _ in range(3):
            heard.clear()
            assert driver.go_on() == record
            if not heard:
                return


@pytest.mark.usefixtures("wiped")
@pytest.mark.parametrize(("begins_open", "moment"), MOMENTS)
def test_an_mlflow_that_is_away_or_slow_stops_nothing_and_misses_nothing_in_the_end(
    begins_open: bool, moment: Any, server: Server, door: Door, tmp_path: Path
) -> None:
    door.is_open = begins_open
    given = {"patch": {"tune_vfl.tracking.mlflow._RETRY_EVERY": 0.5}, "mlflow": True}
    with Driver(tmp_path, shared_ray(), spec={"tracking": door.uri}, options={"sleep": 0.8}, **given) as driver:
        moment(door, driver)
        code, err = driver.ends()
        assert code == 0, err
        record = check_study()
        if moment is shut_until_the_end:
            door.is_open = True
            resume_until_mlflow_answers(driver, record)
    assert lost(record) == 0
    check_mlflow(server, record)


@pytest.mark.usefixtures("wiped")
def test_kill_9_while_a_trial_is_recorded(server: Server, door: Door, tmp_path: Path) -> None:
    # Trials that wait are recorded together: on a busy machine there may be a single call.
    fault = {"at": "record", "call": 1, "do": "kill"}
    with Driver(tmp_path, shared_ray(), spec={"tracking": door.uri}, mlflow=True, fault=fault) as driver:
        assert driver.ends()[0] == -signal.SIGKILL
        check_mlflow(server, driver.go_on())
