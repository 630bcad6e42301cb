"""Ctrl-C and SIGTERM are answered in words at once, whatever the main thread does, and end what they are to end."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from tune_vfl.machine.signals import Left, answered, handlers_kept


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def wait():
    time.sleep(5)


def send_and_wait(number):
    send(number)
    wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_answered_once_and_leaves(number, code, capsys):
    def press_and_press_again_while_things_are_put_away():
        with answered(lambda: "outer"), answered(lambda: "inner"):
            try:
                send_and_wait(number)
            finally:
                send_and_wait(number)

    with pytest.raises(Left) as left:
        press_and_press_again_while_things_are_put_away()
    assert left.value.exit_code == code
    assert capsys.readouterr().err == "inner\n"


def test_the_first_ctrl_c_stops_gently_and_the_second_leaves(capsys):
    stops = []

    def press_twice():
        with answered(lambda: "left", stop=lambda: stops.append(1)):
            send(signal.SIGINT)
            time.sleep(0.1)
            assert stops == [1]
            assert capsys.readouterr().err == ""
            send_and_wait(signal.SIGINT)

    with pytest.raises(Left):
        press_twice()
    assert stops == [1]
    assert capsys.readouterr().err == "left\n"


def test_sigterm_waits_for_nothing():
    with pytest.raises(Left), answered(lambda: "left", stop=lambda: pytest.fail("there is no time to stop gently")):
        send_and_wait(signal.SIGTERM)


def test_an_error_that_a_signal_made_is_no_error(capsys):
    def broken():
        try:
            send(signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise ImportError("half a module") from None

    with pytest.raises(Left), answered(lambda: "left"):
        broken()
    with pytest.raises(ImportError), answered(lambda: "left"):
        raise ImportError("of its own")
    assert capsys.readouterr().err == "left\n"


def test_it_is_answered_while_the_main_thread_is_in_compiled_code(tmp_path, monkeypatch):
    """The main thread waits in sqlite, which no signal interrupts, until both signals are answered."""
    said, stopped, in_time = [], [], []
    monkeypatch.setattr("tune_vfl.machine.signals._write", said.append)
    holds = sqlite3.connect(tmp_path / "locked.db", isolation_level=None, check_same_thread=False)
    holds.execute("BEGIN EXCLUSIVE")

    def press_twice_and_let_go():
        for answers in (stopped, said):
            time.sleep(0.2)
            send(signal.SIGINT)
            end = time.monotonic() + 20
            while not answers and time.monotonic() < end:
                time.sleep(0.05)
            in_time.append(bool(answers))
        holds.close()

    waits = sqlite3.connect(tmp_path / "locked.db", isolation_level=None, timeout=60)

    def wait_for_the_lock():
        with answered(lambda: "left", stop=lambda: stopped.append(1)):
            threading.Thread(target=press_twice_and_let_go).start()
            waits.execute("BEGIN EXCLUSIVE")
            wait()

    with pytest.raises(Left):
        wait_for_the_lock()
    waits.close()
    assert in_time == [True, True]
    assert (stopped, said) == ([1], ["left"])


def test_a_library_that_takes_the_handler_does_not_take_the_answer(capsys):
    def rude(*_):
        raise SystemExit(15)  # as Ray's own handler does

    def be_cut_off():
        with answered(lambda: "left"):
            with handlers_kept():
                signal.signal(signal.SIGTERM, rude)
            assert signal.getsignal(signal.SIGTERM) is not rude
            signal.signal(signal.SIGTERM, rude)
            try:
                send_and_wait(signal.SIGTERM)
            finally:
                time.sleep(1.2)  # the thread answers meanwhile

    with pytest.raises(Left) as left:
        be_cut_off()
    assert left.value.exit_code == 143
    assert capsys.readouterr().err == "left\n"


def test_who_swallows_it_is_rung_again(capsys):
    def swallow():
        with answered(lambda: "left"):
            with suppress(KeyboardInterrupt):
                send_and_wait(signal.SIGTERM)
            wait()
            pytest.fail("it went on for five seconds")

    with pytest.raises(Left):
        swallow()
    assert capsys.readouterr().err == "left\n"


def test_of_a_callback_that_swallows_it_nothing_is_printed_and_of_other_errors_all(monkeypatch, capsys):
    class Callback:
        def __init__(self, act):
            self.act = act

        def __del__(self):
            self.act()

    def swallow():
        with answered(lambda: "left"):
            Callback(lambda: 1 / 0)
            Callback(lambda: send_and_wait(signal.SIGTERM))
            wait()
            pytest.fail("it went on for five seconds")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", hook := lambda what: told.append(type(what.exc_value)))
    with pytest.raises(Left):
        swallow()
    assert told == [ZeroDivisionError]
    assert sys.unraisablehook is hook
    assert capsys.readouterr().err == "left\n"


def test_nothing_is_left_behind(ctrl_c):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with answered(lambda: "left"):
        pass
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1
    with pytest.raises(KeyboardInterrupt) as plain:
        send_and_wait(signal.SIGINT)
    assert not isinstance(plain.value, Left)


def test_another_thread_changes_nothing():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def run():
        with answered(lambda: "left"):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_verb_that_is_interrupted_says_so_and_shows_no_traceback(number, code, tmp_path):
    pipe = tmp_path / "spec.yaml"
    os.mkfifo(pipe)  # reading the spec waits until somebody writes it
    process = subprocess.Popen(
        [sys.executable, "-m", "tune_vfl", "validate", str(pipe)], stderr=subprocess.PIPE, text=True
    )
    writing = os.open(pipe, os.O_WRONLY)  # returns once the verb reads
    time.sleep(0.3)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    os.close(writing)
    assert (process.returncode, err.strip()) == (code, "tune-vfl: interrupted")
