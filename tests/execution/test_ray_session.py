"""The Ray that a search starts where none is named."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.refusals import refusal
from tune_vfl.errors import UnreachableError
from tune_vfl.execution import ray_session
from tune_vfl.machine.runtime import strain
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


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:6379"])
def test_the_ray_of_another_search_is_not_joined_where_none_is_named(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its address it is meant."""
    nodes: list[Mapping[str, Any]] = []

    def init(**given: Any) -> None:
        nodes.append({"Alive": True, "Resources": {"CPU": 1.0, **given.get("resources", {})}})

    left: list[bool] = []
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    monkeypatch.setattr("ray.shutdown", lambda: left.append(True))
    monkeypatch.setattr(ray_session, "require_ray_head", lambda _address: None)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    ray_session.connect()  # the other search
    monkeypatch.setenv("RAY_ADDRESS", address)
    if address == "auto":
        with refusal("another search", "unset RAY_ADDRESS", error=UnreachableError):
            ray_session.connect()
    else:
        ray_session.connect()
    assert left == [True] * (address == "auto")
    nodes[:] = [{"Alive": True, "Resources": {"CPU": 1.0}}]  # a cluster
    ray_session.connect()
    assert left == [True] * (address == "auto")


def test_a_python_without_docstrings_is_named() -> None:
    code = "from tune_vfl.execution.ray_session import quiet_tune\nwith quiet_tune(): from ray import tune"
    environment = {**os.environ, "PYTHONOPTIMIZE": "2"}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert "UsageError" in ran.stderr
    assert "PYTHONOPTIMIZE=2" in ran.stderr
    subprocess.run(command, check=True, env={**environment, "PYTHONOPTIMIZE": "1"})


@pytest.mark.usefixtures("no_ray")
@pytest.mark.parametrize(
    ("memory", "load", "said"), [(2**33, 0.0, ""), (2**28, 0.0, "256 MiB of memory"), (2**33, 1e4, "10000 processes")]
)
def test_a_cause_is_named_where_it_was_seen(
    memory: int, load: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise OSError("no raylet.")

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=memory))
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    with refusal("no raylet.", said, error=UnreachableError):
        ray_session.connect()
    assert bool(strain()) == bool(said)


@pytest.mark.usefixtures("no_ray")
def test_the_thread_that_starts_ray_lasts_as_long_as_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux ends Ray's processes with the thread that has started them, in the middle of the next search."""
    by: list[threading.Thread] = []
    monkeypatch.setattr("ray.init", lambda **_: by.append(threading.current_thread()))
    ray_session.connect()
    searching = threading.Thread(target=ray_session.connect)
    searching.start()
    searching.join()
    assert by[0] is threading.main_thread()
    assert by[1] not in (searching, by[0])
    assert by[1].is_alive()


@pytest.mark.usefixtures("no_ray")
def test_what_fails_in_that_thread_is_raised_in_the_one_that_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise OSError("no raylet.")

    monkeypatch.setattr("ray.init", init)
    with ThreadPoolExecutor(1) as pool, refusal("no raylet.", error=UnreachableError):
        pool.submit(ray_session.connect).result()


@pytest.mark.usefixtures("no_ray")
def test_warnings_that_are_errors_here_are_none_in_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own processes warn, and would not start."""
    seen: list[str | None] = []
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setattr("ray.init", lambda **_: seen.append(os.environ.get("PYTHONWARNINGS")))
    ray_session.connect()
    assert (seen, os.environ["PYTHONWARNINGS"]) == ([None], "error")
