"""A confirmation over Ray with the simulated trainable: kill -9, Ctrl-C, workers that die; all else needs no Ray."""

import ast
import os
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.contests import SCALES, searched
from tests.helpers.drivers import shared_ray, start_driver
from tests.helpers.ready import Program
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl import load_study
from tune_vfl.confirmation.run import Confirmed, confirm
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.confirmations import UNDEFENDED

pytestmark = pytest.mark.usefixtures("home")


def go(seeds: int = 3, **options: Any) -> Confirmed:
    return confirm("study", seeds=seeds, work=TrainableSpec(SimulatedTrainable, {"noise": 0.02, **options}))


def trained(journal: Path) -> Counter[tuple[float, int]]:
    """How often each setting was trained with each seed; the undefended model's scale is 0."""
    lines = [re.fullmatch(r"(\{.*\}) (\[.*\])", line) for line in journal.read_text().splitlines()]
    read = [(ast.literal_eval(line[1]), ast.literal_eval(line[2])) for line in lines if line]
    return Counter((params.get("scale", 0.0), seed) for params, seeds in read for seed in seeds)


def kept(name: str = "study") -> dict[Any, Any]:
    return {place[1:]: record for place, record in Confirmations(storage_at(), None).records(name).items()}


DRIVER = """
    import sys
    from tests.helpers.simulated import SimulatedTrainable
    from tune_vfl.confirmation.run import confirm
    from tune_vfl.execution.trainable_spec import TrainableSpec

    options = {"noise": 0.02, "sleep": 0.3, "journal": sys.argv[1]}
    ended = confirm("study", seeds=3, work=TrainableSpec(SimulatedTrainable, options))
    print("stopped" if ended.answer is None else "done")
"""


def wait_for_records(count: int, journal: Path, process: Program) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        if journal.exists() and len(kept()) >= count:
            return
        time.sleep(0.2)
    pytest.fail("the driver did not get going")


def interrupt_after(count: int) -> None:
    """Press Ctrl-C in this process once more records than ``count`` are kept."""

    def press() -> None:
        while len(kept()) <= count:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def test_kill_9_then_ctrl_c_then_the_end_trains_nothing_twice_that_was_kept(tmp_path: Path, capfd: Any) -> None:
    scales = SCALES[::2]
    searched(scales=scales).close()
    assert load_study("study").frontier()[0]["confirmed"] is False
    driver = start_driver(DRIVER, tmp_path / "first", ray=shared_ray())
    wait_for_records(6, tmp_path / "first", driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    after_kill = kept()
    assert load_study("study").record().studies[0].confirmation is None, "half a confirmation is none"

    interrupt_after(len(after_kill))
    stopped = go(sleep=0.3, journal=str(tmp_path / "second"))
    assert stopped.answer is None
    assert stopped.owed > 0
    assert re.search(r"at least \d+ trainings are owed: 'tune-vfl confirm study'", capfd.readouterr().err)
    after_stop = kept()
    places = {(0.0 if n == UNDEFENDED else scales[n], seed) for n, seed in after_kill}
    second = trained(tmp_path / "second")
    assert not places & set(second), "what the killed run had kept is not trained again"
    assert sum(second.values()) == len(after_stop) - len(after_kill), "Ctrl-C loses nothing that was begun"

    ended = go(journal=str(tmp_path / "third"))
    assert ended.answer is not None
    assert not ended.failed
    third = trained(tmp_path / "third")
    assert max(third.values()) == 1
    assert sum(third.values()) == len(kept()) - len(after_stop)
    assert {p: r for p, r in kept().items() if p in after_stop} == after_stop, "nothing kept was changed"

    again = go(journal=str(tmp_path / "none"))
    assert not (tmp_path / "none").exists(), "a confirmation that has everything only answers"
    assert again.answer == ended.answer
    confirmed = {p["number"] for p in load_study("study").frontier() if p["confirmed"]}
    assert confirmed == {p.number for p in ended.answer.points if p.confirmed and p.on_front}
    assert load_study("study").record().studies[0].confirmation == ended.answer


@pytest.mark.slow
def test_a_worker_that_dies_costs_a_retry_and_a_setting_that_kills_workers_is_left_out(
    tmp_path: Path, capfd: Any
) -> None:
    searched().close()
    ended = go(exit_once=str(tmp_path / "died"), exit_above=0.95)
    assert ended.answer is not None
    last = len(SCALES) - 1
    assert set(ended.failed) == {("study", last)}
    assert "its worker process died 3 times" in ended.failed["study", last]
    assert {n for n, _ in kept()} >= {UNDEFENDED, 0, 1}
    assert next(p for p in ended.answer.points if p.number == last).outcome == "error"
    assert f"confirm study: trial {last} could not be measured" in capfd.readouterr().err
    repaired = go()
    assert repaired.answer is not None
    assert not repaired.failed, "what could not be measured is tried again the next time"
    assert next(p for p in repaired.answer.points if p.number == last).outcome == "ok"


@pytest.mark.slow
def test_a_setting_that_hangs_in_compiled_code_is_left_out_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tune_vfl.execution.watchdogs.GRACE_SECONDS", 3.0)
    searched(scales=(SCALES[0], SCALES[-1]), budget={"trial_minutes": 0.1}).close()
    ended = go(seeds=1, hang_above=0.95)
    assert ended.answer is not None
    assert set(ended.failed) == {("study", 1)}
    assert "stuck in compiled code" in ended.failed["study", 1]
