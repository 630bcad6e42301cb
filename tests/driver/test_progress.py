"""How a search says how it goes: the numbers of its line, what a person is told, whose turn it is, and why it lost."""

import io
import math
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.helpers.campaigns import part_of, steady
from tune_vfl.driver import progress
from tune_vfl.driver.progress import ProgressReport, RunProgress
from tune_vfl.execution.pack_sizes import pack_size, shortened
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.spec import Resources

FAILED, LOST = Outcome.failed("diverged", "NaN"), Outcome.failed("preempted", "gone")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def begun(**fields: Any) -> StudyRecord:
    """One trial of .9 at leakage .5, one that diverged, one that was lost; two run, and five wait."""
    return part_of("laplace", [(0.9, 0.5), FAILED, LOST], **{"running": 2, "waiting": 5, **fields})


def trial(number: int, outcome: Outcome) -> TrialRecord:
    (found,) = part_of("laplace", [outcome]).trials
    return replace(found, number=number)


def test_what_was_there_before_this_run_counts(clock: Clock) -> None:
    found = RunProgress([begun()])
    assert (found.done, found.total, found.running) == (2, 9, 0), "what was lost does not count"
    assert found.front_size == 1
    assert found.hypervolume == pytest.approx((0.9 - 0.5) * (1 - 0.5))
    assert math.isinf(found.eta_seconds)
    assert found.line() == (
        "2/9 trials: 1 ok, 1 diverged, 1 preempted, starting workers; hypervolume 0.2000 (grew just now), front 1; "
        "ETA ?"
    )


def test_before_the_first_trial_it_says_what_is_measured_first(clock: Clock) -> None:
    found, measured = RunProgress([part_of("laplace", [], waiting=5)]), list[str]()
    assert found.line() == "0/5 trials: starting workers; ETA ?"
    found.beside = lambda: measured
    assert found.line() == "0/5 trials: starting workers; ETA ?", "nothing is handed out before they are there"
    measured += ["measuring floors", "measuring a cost"]
    assert found.line() == "0/5 trials: measuring floors, measuring a cost; ETA ?"
    clock.now += 600
    found.asked(2)
    assert found.line() == "0/5 trials: 2 running, measuring floors, measuring a cost; ETA ?"
    clock.now += 10
    found.told("camp-breast_cancer-laplace", trial(0, timed(steady(0.8, 0.6), 10.0)))
    assert found.eta_seconds == pytest.approx(10 * 4), "ten minutes before the first trial are no pace"


def test_the_line_follows_trials_as_they_are_asked_and_end(clock: Clock) -> None:
    found, name = RunProgress([begun()]), begun().name
    found.beside = list
    found.asked(3)
    clock.now += 30
    found.told(name, trial(5, timed(steady(0.8, 0.6), 30.0)))
    assert (found.running, found.done, found.owed[name]) == (2, 3, 6)
    # Two run at once: 15 seconds a trial; six of nine are left.
    assert found.eta_seconds == pytest.approx(30 / 2 * (9 - 3))
    assert "3/9 trials: 2 ok" in found.line()
    assert "2 running; hypervolume 0.2000 (grew 1 trials ago), front 1; ETA 1:30" in found.line()
    found.told(name, trial(6, LOST))
    assert (found.running, found.done, found.owed[name]) == (1, 3, 6), "it is asked again"
    found.told(name, trial(7, timed(steady(0.95, 0.2), 3570.0)))
    assert found.hypervolume == pytest.approx(0.45 * 0.8)
    assert "(grew just now), front 1" in found.line(), "it dominates all the others"
    found.told(name, trial(8, FAILED))
    assert (found.running, found.counts["diverged"]) == (0, 2)
    assert "ETA 1:20:00" in found.line(), "three in an hour; four are left"


def timed(outcome: Outcome, seconds: float) -> Outcome:
    """Return the outcome of a training that took so long in its worker."""
    return outcome.model_copy(update={"seconds": {"train": seconds}})


def test_the_wait_for_a_worker_is_no_part_of_the_pace(clock: Clock) -> None:
    """Packs of two, two at once, of 40 s each: both wait 200 s for their workers, and one for the undefended model."""
    found, name = RunProgress([part_of("laplace", [], waiting=14)]), "camp-breast_cancer-laplace"

    def told(first: int) -> None:
        for number in (first, first + 1):
            one = trial(number, timed(steady(0.8, 0.6), 20.0))
            found.told(name, replace(one, finished=one.finished + timedelta(seconds=first)))

    found.asked(2)
    clock.now += 240
    told(0)
    found.asked(2)
    found.asked(2)
    assert found.eta_seconds == pytest.approx(20 / 2 * (8 + 4)), "20 s a trial, two packs at once, 8 wait and 4 run"
    clock.now += 60
    told(2)
    found.asked(2)
    told(4)
    found.asked(2)
    assert found.eta_seconds == pytest.approx(20 / 2 * (4 + 4)), "what came after the first pack is too little yet"
    clock.now += 100
    assert found.eta_seconds == pytest.approx(160 / (4 + 4) * (4 + 4)), "no more than those that run can have ended"
    clock.now -= 100
    told(6)
    assert found.eta_seconds == pytest.approx(60 / 6 * (4 + 1)), "six have ended in the minute after the first pack"


def test_a_lost_trial_alone_says_nothing_of_the_pace(clock: Clock) -> None:
    found = RunProgress([begun()])
    found.asked(1)
    clock.now += 10
    found.told(begun().name, trial(9, LOST))
    assert math.isinf(found.eta_seconds)
    found.told(begun().name, trial(9, LOST))
    assert found.running == 0, "never less than none"


def test_several_studies_count_together_and_several_data_sets_have_a_front_each(clock: Clock) -> None:
    here, there = begun(), part_of("laplace", [(0.7, 0.9)], dataset="wine", waiting=0)
    found = RunProgress([here, there])
    assert (found.done, found.total, found.front_size) == (3, 10, 2)
    assert found.hypervolume == pytest.approx((0.4 * 0.5 + 0.2 * 0.1) / 2), "the mean of both"
    assert "3/10 trials (1 of 2 studies done): " in found.line()
    same = RunProgress([here, part_of("kdk", [(0.7, 0.9)])])
    assert same.front_size == 1, "of one data set they compete"


def test_a_stop_in_words(clock: Clock) -> None:
    found = RunProgress([begun()])
    found.asked(2)
    assert found.stopping() == (
        "stopping: 2 of 9 trials are kept, 2 are running and end first; press Ctrl-C again to leave at once, they are "
        "asked again then"
    )
    assert RunProgress([begun()]).stopping() == (
        "stopping: 2 of 9 trials are kept, what is measured beside them ends first; press Ctrl-C again to leave at "
        "once, the next run measures it again then"
    )


def report(*records: StudyRecord, name: str = "camp") -> tuple[ProgressReport, io.StringIO]:
    stream = io.StringIO()
    return ProgressReport(name, records or [begun()], stream), stream


def test_a_plain_line_at_once_and_every_15_seconds(clock: Clock) -> None:
    shown, stream = report()
    name = begun().name
    (first,) = stream.getvalue().splitlines()
    assert first == f"camp: {shown.progress.line()}"
    shown.on_ask(name, 1)
    clock.now += 14.5
    shown.on_tell(name, trial(5, steady(0.8, 0.6)))
    shown.step()
    assert stream.getvalue().splitlines() == [first]
    clock.now += 0.5
    shown.show()
    _, line = stream.getvalue().splitlines()
    assert line == f"camp: {shown.progress.line()}", "also where no trial starts or ends"
    shown.show()
    assert len(stream.getvalue().splitlines()) == 2, "15 seconds from the last one on"
    clock.now += 15
    shown.on_ask(name, 1)
    assert len(stream.getvalue().splitlines()) == 2, "a pack is counted as a whole before it is shown"
    shown.step()
    assert len(stream.getvalue().splitlines()) == 3
    shown.close()
    assert stream.getvalue().splitlines()[-1] == f"camp: {shown.progress.line()}"


def test_it_is_said_while_ray_starts_and_by_one_thread_alone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    shown, stream = report()
    before = threading.active_count()
    shown.until_it_steps()
    give_up = time.monotonic() + 60
    while stream.getvalue().count("starting workers") < 3 and time.monotonic() < give_up:
        time.sleep(0.01)
    assert stream.getvalue().count("starting workers") >= 3
    shown.step()
    while threading.active_count() > before and time.monotonic() < give_up:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_lost_trials_and_undefended_models_are_told_at_once_and_once(clock: Clock) -> None:
    one, other = begun(), part_of("laplace", [], dataset="wine")
    shown, stream = report(one, other)
    shown.on_tell(one.name, trial(7, LOST))
    for studies in ([one], [one], [other]):
        shown.on_baseline(studies, steady(0.95, 0.9))
    shown.on_baseline([other], Outcome.failed("oom", "full"))
    assert stream.getvalue().splitlines()[1:] == [
        "camp: trial 7 of camp-breast_cancer-laplace was lost (gone); it is asked again",
        "camp: without defense (breast_cancer): utility 0.9500, leakage 0.9000",
        "camp: without defense (wine): utility 0.9500, leakage 0.9000",
        "camp: without defense (wine): oom (full)",
    ]
    lone, said = report(name=one.name)
    lone.on_tell(one.name, trial(7, LOST))
    lone.on_baseline([one], steady(0.95, 0.9))
    assert said.getvalue().splitlines()[1:] == [
        f"{one.name}: trial 7 was lost (gone); it is asked again",
        f"{one.name}: without defense: utility 0.9500, leakage 0.9000",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_says_the_same_and_lines_stand_above_it(clock: Clock) -> None:
    one, stream = begun(), Terminal()
    shown = ProgressReport(one.name, [one], stream)
    shown.on_ask(one.name, 2)
    shown.on_tell(one.name, trial(7, LOST))
    shown.on_tell(one.name, trial(5, steady(0.95, 0.2)))
    (task,) = shown._bar.tasks  # type: ignore[union-attr]
    assert task.completed == 2, "it is written twice a second"
    clock.now += 0.5
    shown.show()
    assert (task.completed, task.total, task.description) == (3, 9, shown.progress.line())
    shown.close()
    said = stream.getvalue()
    assert f"{one.name}: trial 7 was lost (gone); it is asked again\n" in said
    assert "3/9 trials: 2 ok" in said
    assert f"{one.name}: {shown.progress.line()}" not in said, "the bar says it as it is left"


# Packs, turns, losses


def test_packs_of_a_share_of_the_trials() -> None:
    how: dict[str, Any] = {"seeds": 3, "workers": 2, "most": 64}
    assert pack_size(Resources(), trials=24, **how) == 6, "16 networks are 6 trials of 3 seeds: 2 rounds of 2 packs"
    assert pack_size(Resources(), trials=13, **how) == 4, "two rounds are needed, so that packs are 13 / 4"
    assert pack_size(Resources(), trials=12, **how) == 6
    assert pack_size(Resources(), trials=1, **how) == 1
    assert pack_size(Resources(), trials=0, **how) == 1
    assert pack_size(Resources(), trials=100, seeds=20, workers=1, most=64) == 1
    assert shortened(10, 60.0) == 10, "ten minutes"
    assert shortened(11, 60.0) == 10
    assert shortened(5, -1.0) == 5
