"""Listeners are told everything in order, waited for while they get on, and left when they do not."""

import _thread
import threading
import time

import pytest

from tests.helpers.studies import made_up_study
from tune_vfl.driver import sinks
from tune_vfl.driver.sinks import Dispatcher

RECORD = made_up_study(6, failures=())


class Slow:
    """Writes one thing after the other, each in a moment of its own, or never gets on."""

    def __init__(self, todo: int = 0, pause: float = 0.02) -> None:
        self.todo, self.pause = todo, pause
        self.told: list[object] = []
        self.may_begin = threading.Event()

    def on_trials(self, study, records):
        self.may_begin.wait(10)
        self.told.append((study, [r.number for r in records]))

    def on_study(self, record):
        while self.todo:
            time.sleep(self.pause)
            self.todo -= 1
        self.told.append("study")

    def on_end(self):
        self.told.append("end")

    def left(self):
        return f"{self.todo} left" if self.todo else ""


def test_trials_that_pile_up_are_told_together_and_in_order():
    slow = Slow()
    with Dispatcher([slow]) as dispatcher:
        dispatcher.on_study(RECORD)
        for trial in RECORD.trials[:5]:
            dispatcher.on_tell("study", trial)
        dispatcher.on_study(RECORD)
        dispatcher.on_tell("study", RECORD.trials[5])
        slow.may_begin.set()
    assert slow.told[0] == "study"
    assert slow.told.pop() == "end"
    told = [entry for entry in slow.told if entry != "study"]
    assert [number for _, numbers in told for number in numbers] == list(range(6))
    assert len(told) <= 4
    assert slow.told.index("study", 1) == len(slow.told) - 2


def test_trials_of_several_studies_are_told_study_by_study_each_in_its_order():
    slow = Slow()
    with Dispatcher([slow]) as dispatcher:
        for number, trial in enumerate(RECORD.trials):
            dispatcher.on_tell(("one", "other")[number % 2], trial)
        slow.may_begin.set()
    assert slow.told.pop() == "end"
    numbers = {"one": [], "other": []}
    for study, told in slow.told:
        numbers[study] += told
    assert numbers == {"one": [0, 2, 4], "other": [1, 3, 5]}
    assert len(slow.told) <= 4


def test_the_end_waits_as_long_as_a_listener_gets_on(monkeypatch, capsys):
    monkeypatch.setattr(sinks, "SAY_EVERY_SECONDS", 0.1)
    slow = Slow(todo=40)
    dispatcher = Dispatcher([slow], patience=0.2)
    dispatcher.on_study(RECORD)
    dispatcher.close()
    assert slow.told == ["study", "end"]
    said = capsys.readouterr().err
    assert " left; after Ctrl-C 'tune-vfl doctor --repair' writes the rest" in said


def test_a_listener_that_does_not_get_on_is_left(capsys):
    stuck = Slow(todo=1, pause=3600)
    dispatcher = Dispatcher([stuck], patience=0.2)
    dispatcher.on_study(RECORD)
    dispatcher.close()
    assert stuck.told == []
    assert "1 left, but nothing moves any more; 'tune-vfl doctor --repair' writes the rest" in capsys.readouterr().err


def test_ctrl_c_at_the_end_leaves_at_once_and_says_what_is_left(ctrl_c, capsys):
    stuck = Slow(todo=1, pause=3600)
    dispatcher = Dispatcher([stuck])
    dispatcher.on_study(RECORD)
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        dispatcher.close()
    assert "left at once; 1 left; 'tune-vfl doctor --repair' writes the rest" in capsys.readouterr().err


def test_a_search_that_ctrl_c_leaves_does_not_wait_for_listeners():
    def search():
        with Dispatcher([Slow(todo=1, pause=3600)]) as dispatcher:
            dispatcher.on_study(RECORD)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search()
