"""Ctrl-C and SIGTERM are answered in words, and end what they are to end."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from tune_vfl.machine import signals
from tune_vfl.machine.signals import Interrupted, answered


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def wait():
    time.sleep(5)


def send_and_wait(number):
    send(number)
    wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_answered_once_and_leaves(number, code, capfd):
    def press_and_press_again_while_things_are_put_away():
        with answered(lambda: "outer"), answered(lambda: "inner"):
            try:
                send_and_wait(number)
            finally:
                send_and_wait(number)

    with pytest.raises(Interrupted) as interrupted:
        press_and_press_again_while_things_are_put_away()
    assert interrupted.value.exit_code == code
    assert capfd.readouterr().err == "inner\n"


def test_a_second_press_ends_nothing_that_puts_things_back_until_two_seconds_are_over():
    put_back = []

    def press_on():
        with answered(lambda: "left"):
            try:
                send_and_wait(signal.SIGINT)
            finally:
                send(signal.SIGINT)
                put_back.append(1)
                time.sleep(signals.PUTTING_BACK_SECONDS)
                send(signal.SIGINT)
                time.sleep(0.1)
                put_back.append(2)

    with pytest.raises(Interrupted):
        press_on()
    assert put_back == [1]


def test_the_first_ctrl_c_stops_gently_and_the_second_leaves(capfd):
    stops = []

    def press_twice():
        with answered(lambda: "left", stop=lambda: stops.append(1)):
            send(signal.SIGINT)
            time.sleep(0.1)
            assert stops == [1]
            assert capfd.readouterr().err == ""
            send_and_wait(signal.SIGINT)

    with pytest.raises(Interrupted):
        press_twice()
    assert stops == [1]
    assert capfd.readouterr().err == "left\n"


def test_sigterm_waits_for_nothing():
    with (
        pytest.raises(Interrupted),
        answered(lambda: "left", stop=lambda: pytest.fail("there is no time to stop gently")),
    ):
        send_and_wait(signal.SIGTERM)


def test_an_error_that_a_signal_made_is_no_error(capfd):
    def broken():
        try:
            send(signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise ImportError("half a module") from None

    with pytest.raises(Interrupted), answered(lambda: "left"):
        broken()
    with pytest.raises(ImportError), answered(lambda: "left"):
        raise ImportError("of its own")
    assert capfd.readouterr().err == "left\n"


def test_a_signal_that_was_swallowed_is_raised_by_the_next_check_and_at_the_latest_at_the_end(capfd):
    def swallow(*, check):
        with answered(lambda: "left") as signals:
            signals.check()
            with suppress(KeyboardInterrupt):
                send_and_wait(signal.SIGTERM)
            if check:
                signals.check()
                pytest.fail("it went on")

    for check in (True, False):
        with pytest.raises(Interrupted):
            swallow(check=check)
        assert capfd.readouterr().err == "left\n"


class Swallows:
    """Is interrupted where Python swallows what is raised, as around a fork."""

    def __del__(self) -> None:
        send_and_wait(signal.SIGINT)


def test_what_python_swallowed_is_raised_before_the_next_block_begins_and_prints_no_traceback(capfd):
    began = []

    def swallow():
        with answered(lambda: "outer"):
            Swallows()
            with answered(lambda: "inner"):
                began.append("inner")

    hook = sys.unraisablehook
    with pytest.raises(Interrupted):
        swallow()
    assert began == []
    assert sys.unraisablehook == hook
    assert capfd.readouterr().err == "outer\n"


def test_what_python_swallows_of_others_is_still_told(monkeypatch):
    class Fails:
        def __del__(self) -> None:
            raise ValueError("of another")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda swallowed: told.append(swallowed.exc_type))
    with answered(lambda: "words"):
        Fails()
    assert told == [ValueError]


def test_nothing_is_left_behind(ctrl_c):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with answered(lambda: "left"):
        pass
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before
    with pytest.raises(KeyboardInterrupt) as plain:
        send_and_wait(signal.SIGINT)
    assert not isinstance(plain.value, Interrupted)


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
