"""Confirmations over Ray with the simulated trainable: from a search to an answer, with faults, kill -9 and resume."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.contests import PARAMETERS, SCALES, SEVERAL, in_campaign, searched
from tests.helpers.drivers import shared_ray, start_driver
from trainables.simulated import SimulatedTrainable
from tune_vfl import load_study
from tune_vfl.confirmation import Confirmed, confirm
from tune_vfl.errors import StudyError
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.confirmations import UNDEFENDED
from tune_vfl.records.joint_confirmation import JointConfirmation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.helpers.ready import Program
    from tune_vfl.records.confirmations import SeedRecord

pytestmark = pytest.mark.usefixtures("home")


def go(seeds: int = 3, **options: Any) -> Confirmed:
    return confirm("study", seeds=seeds, work=TrainableSpec(SimulatedTrainable, {"noise": 0.02, **options}))


def trained(journal: Path) -> Counter[tuple[float, int]]:
    """How often each setting was trained with each seed; the undefended model's scale is 0."""
    lines = [re.fullmatch(r"(\{.*\}) (\[.*\])", line) for line in journal.read_text().splitlines()]
    read = [(ast.literal_eval(line[1]), ast.literal_eval(line[2])) for line in lines if line]
    return Counter((params.get("scale", 0.0), seed) for params, seeds in read for seed in seeds)


def kept(name: str = "study") -> dict[Any, Any]:
    ledger = Ledger.open(name)
    ledger.close()
    return ledger.confirmations.records()


DRIVER = """
    import sys
    from trainables.simulated import SimulatedTrainable
    from tune_vfl.confirmation import confirm
    from tune_vfl.execution.trainable_spec import TrainableSpec

    options = {"noise": 0.02, "sleep": 0.3, "journal": sys.argv[1]}
    ended = confirm("study", seeds=3, work=TrainableSpec(SimulatedTrainable, options))
    print("stopped" if ended.answer is None else "done")
"""


def wait_for_records(count: int, journal: Path, process: Program, held: Callable[[], Mapping[Any, Any]] = kept) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        if journal.exists() and len(held()) >= count:
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


PARTS = {"laplace": SCALES[:6:2], "gaussian": SCALES[6::2], "iso": SCALES[1:8:3]}
CAMPAIGN_DRIVER = (
    DRIVER.replace('confirm("study"', 'confirm("campaign"')
    .replace('"sleep"', '"by_defense": json.loads(sys.argv[2]), "sleep"')
    .replace("import sys", "import json, sys")
)


def searched_campaign() -> None:
    in_campaign([searched(name, defense=name, scales=scales) for name, scales in PARTS.items()])


def go_all(seeds: int = 3, **options: Any) -> Confirmed:
    work = TrainableSpec(SimulatedTrainable, {"noise": 0.02, "by_defense": SEVERAL, **options})
    return confirm("campaign", seeds=seeds, work=work)


def trained_in_all(journal: Path) -> Counter[tuple[str, int, int]]:
    """How often each place was trained; what several studies have in common is that of no study."""
    lines = [re.fullmatch(r"(\{.*\}) (\[.*\])", line) for line in journal.read_text().splitlines()]
    found: Counter[tuple[str, int, int]] = Counter()
    for params, seeds in [(ast.literal_eval(line[1]), ast.literal_eval(line[2])) for line in lines if line]:
        setting = "", UNDEFENDED
        for defense, scales in PARTS.items():
            if (value := params.get(PARAMETERS[defense])) is not None:
                setting = defense, scales.index(value)
        found.update((*setting, seed) for seed in seeds)
    return found


def kept_of_all() -> dict[tuple[str, int, int], SeedRecord]:
    found = {}
    for name in PARTS:
        for (number, seed), record in kept(name).items():
            found["" if number == UNDEFENDED else name, number, seed] = record
    return found


def test_a_campaign_is_confirmed_as_one_and_a_kill_costs_what_was_in_flight(tmp_path: Path) -> None:
    searched_campaign()
    driver = start_driver(CAMPAIGN_DRIVER, tmp_path / "first", json.dumps(SEVERAL), ray=shared_ray())
    wait_for_records(6, tmp_path / "first", driver, kept_of_all)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    after_kill = kept_of_all()
    assert open_study("campaign").record().confirmation is None
    ended = go_all(journal=str(tmp_path / "second"))
    assert isinstance(ended.answer, JointConfirmation)
    assert not ended.failed
    second = trained_in_all(tmp_path / "second")
    assert max(second.values()) == 1
    assert set(second) == set(kept_of_all()) - set(after_kill), "what the killed run had kept is not trained again"
    assert Counter(s for s, *_ in kept_of_all())[""] == 10, "one undefended model for all studies"
    for name in PARTS:
        assert sum(n == UNDEFENDED for n, _ in kept(name)) == 10, "and each of them has it"

    record = open_study("campaign").record()
    assert record.confirmation == ended.answer
    assert {(s.name, n) for s in record.studies for n in s.confirmed} == set(ended.answer.by_setting)
    assert {p.defense for p in ended.answer.by_setting.values()} == {"laplace", "gaussian"}
    again = go_all(journal=str(tmp_path / "none"))
    assert not (tmp_path / "none").exists(), "a confirmation that has everything only answers"
    assert again.answer == ended.answer

    work = TrainableSpec(SimulatedTrainable, {"noise": 0.02, "by_defense": SEVERAL})
    tuned = confirm("campaign", seeds=3, adaptive=0.5, work=work).answer
    assert isinstance(tuned, JointConfirmation)
    assert {(p.study, p.number) for p in tuned.points if p.tuned} == set(ended.answer.by_setting)
    assert tuned.knee == ended.answer.knee
    broken = TrainableSpec(SimulatedTrainable, {"nonsense": 1})
    assert confirm("campaign", seeds=3, adaptive=0.5, work=broken).answer == tuned, "nothing is asked again"
    with storage_at().lease("laplace"), pytest.raises(StudyError, match="being run by another process"):
        go_all()


def test_a_setting_of_a_campaign_that_cannot_be_measured_is_named_with_its_study(capfd: Any) -> None:
    searched_campaign()
    ended = go_all(seeds=1, raise_above=0.8)
    assert isinstance(ended.answer, JointConfirmation)
    assert set(ended.failed) == {("gaussian", 2)}
    assert "confirm campaign: trial gaussian#2 could not be measured" in capfd.readouterr().err
    check = next(c for c in ended.answer.checks if not c.ok and c.name == "measured")
    assert check.says.startswith("no number for trial gaussian#2: ")
    record = open_study("campaign").record().study("gaussian")
    point = next(p for p in record.confirmation.points if p.number == 2)
    assert (point.outcome, point.confirmed) == ("error", False)


def test_attackers_are_tuned_against_what_stays_once() -> None:
    searched().close()
    plain = go(2).answer
    assert plain is not None
    work = TrainableSpec(SimulatedTrainable, {"noise": 0.02})
    tuned = confirm("study", seeds=2, adaptive=0.5, work=work).answer
    assert tuned is not None
    before = {p.number: p for p in plain.points}
    for point in tuned.points:
        if not point.confirmed:
            assert point == before[point.number], "only what stays is worth an attacker's time"
            continue
        assert point.tuned is not None
        leakage = sum(point.tuned.advantages) / 5
        assert point.leakage_untuned == before[point.number].leakage
        assert point.leakage == pytest.approx(max(leakage, point.leakage_untuned))
        assert point.leakage_interval[1] >= before[point.number].leakage_interval[1]
    assert tuned.knee == plain.knee
    # A simulated worker that nobody can import any more: whatever is asked again now would fail.
    broken = TrainableSpec(SimulatedTrainable, {"nonsense": 1})
    assert confirm("study", seeds=2, work=broken).answer == tuned
    assert confirm("study", seeds=2, adaptive=0.5, work=broken).answer == tuned


def test_more_seeds_add_to_those_that_there_are(tmp_path: Path) -> None:
    searched().close()
    first = go(2)
    before = set(kept())
    more = go(3, journal=str(tmp_path / "more"))
    assert first.answer is not None
    assert more.answer is not None
    assert more.answer.seeds == (1000, 1001, 1002)
    assert sum(trained(tmp_path / "more").values()) == len(kept()) - len(before)


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


def test_what_raises_is_left_out_and_what_diverges_is_kept_as_that() -> None:
    searched().close()
    ended = go(raise_above=0.95, diverge_above=0.8)
    assert ended.answer is not None
    ends = {p.number: p.outcome for p in ended.answer.points}
    last = len(SCALES) - 1
    assert ends[last] == "error"
    assert ends[last - 1] == "diverged"
    assert set(ended.failed) == {("study", last)}
    assert not any(n == last for n, _ in kept())


def test_a_study_that_is_being_run_is_not_confirmed_beside_that() -> None:
    searched().close()
    with storage_at().lease("study"), pytest.raises(StudyError, match="being run by another process"):
        go()
