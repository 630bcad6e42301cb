"""The Ray that a search starts where none is named."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tune_vfl.execution import ray_session
from tune_vfl.machine.signals import Interrupted, answered


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)


@pytest.mark.usefixtures("no_ray")
def test_a_ray_of_ones_own_is_a_new_one_whose_workers_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ray start` has left on the machine is somebody else's."""
    started: list[tuple[Mapping[str, Any], str]] = []
    monkeypatch.setattr("ray.init", lambda **given: started.append((given, os.environ["OMP_NUM_THREADS"])))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    ray_session.connect()
    ((given, threads),) = started
    assert (given["address"], given["include_dashboard"]) == ("local", False)
    assert given["runtime_env"]["working_dir"] != str(Path.cwd())
    assert (threads, os.environ["OMP_NUM_THREADS"]) == ("1", "7")


@pytest.mark.usefixtures("no_ray")
def test_sigterm_while_ray_starts_is_answered_in_words(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray sets a handler of its own first thing, which ends a process without a word."""

    def init(**_: object) -> None:
        def handler(number: int, _frame: object) -> None:
            raise SystemExit(number)

        signal.signal(signal.SIGTERM, handler)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(Interrupted) as interrupted, answered(lambda: "left"):
        ray_session.connect()
    assert interrupted.value.exit_code == 143
    assert capfd.readouterr().err == "left\n"


@pytest.mark.usefixtures("no_ray")
def test_the_handlers_of_signals_are_those_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(7)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("ray.init", init)
    with pytest.raises(SystemExit, match="7"):
        ray_session.connect()
    assert signal.getsignal(signal.SIGTERM) is before
