"""The Ray that a search starts where none is named."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from trainables.cell import CellTrainable
from trainables.fork_server import BELONGS_TO
from trainables.forked import SOCKET, TRAINABLE
from tune_vfl.errors import UnreachableError
from tune_vfl.search import lean_ray, ray_session
from tune_vfl.search.forking import ONE_THREAD, can_fork
from tune_vfl.search.work import IMPORTS, REAL

if TYPE_CHECKING:
    from collections.abc import Sequence


class Forks:
    """A fork server that is none."""

    worker_path = "worker.py"

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules, self.closed = modules, False

    def environment(self, trainable: object) -> dict[str, str]:
        return {"TUNE_VFL_FORK_SERVER": "nowhere"}

    def prepare(self, environment: dict[str, str]) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_a_ray_of_ones_own_is_a_new_one_and_starts_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ray start` has left on the machine is somebody else's, and so is the port of its agent."""
    import ray
    from ray._private import parameter

    usual, started = parameter.RayParams, []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    seen = {}

    def init(**given: object) -> None:
        started.append((given["address"], parameter.RayParams()))
        seen.update({name: os.environ.get(name) for name in ray_session._SETTINGS})

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray_session, "ForkServer", Forks)
    monkeypatch.setattr(ray_session, "_FORK_SERVERS", [])
    monkeypatch.setattr(ray_session, "_WAITING", [])
    monkeypatch.setenv("RAY_worker_niceness", "7")
    monkeypatch.delenv("RAY_prestart_worker_first_driver", raising=False)
    ray_session.connect()
    ((address, params),) = started
    assert address == "local"
    assert params.worker_path == "worker.py"
    # Workers run at this process's priority, but where somebody has said another; none start before they are asked for.
    assert (seen["RAY_worker_niceness"], seen["RAY_prestart_worker_first_driver"]) == ("7", "0")
    assert "RAY_prestart_worker_first_driver" not in os.environ
    assert (params.dashboard_agent_listen_port, params.include_log_monitor, params.no_monitor) == (0, False, True)
    assert parameter.RayParams is usual


def test_workers_imports_begin_before_ray_and_the_one_that_did_them_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_session, "ForkServer", Forks)
    waiting: list[Forks] = []
    running: list[Forks] = []
    monkeypatch.setattr(ray_session, "_WAITING", waiting)
    monkeypatch.setattr(ray_session, "_FORK_SERVERS", running)
    ray_session.expect()
    ray_session.expect()
    (expected,) = waiting
    assert expected.modules == IMPORTS
    failed = Forks(())
    running.append(failed)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    ray_session.connect(CellTrainable)
    assert failed.closed, "the one of a Ray that is gone"
    assert (waiting, running) == ([], [expected])
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    ray_session.expect()
    assert waiting == [], "a Ray that runs has its own"


def test_nobody_imports_for_workers_that_are_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_session, "ForkServer", Forks)
    waiting: list[Forks] = []
    monkeypatch.setattr(ray_session, "_WAITING", waiting)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    ray_session.expect()
    assert waiting == []
    monkeypatch.delenv("RAY_ADDRESS")
    ray_session.expect()
    assert len(waiting) == 1


VERB = """
import sys, threading, time
from tune_vfl.search import forking, ray_session
if sys.argv[1:]:
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
ray_session.expect()
(server,) = ray_session._WAITING
print(isinstance(server._process, forking._Fork), "torch" in sys.modules, "ray" in sys.modules)
"""


@pytest.mark.skipif(not can_fork(), reason="workers are forked on Linux alone")
def test_what_a_search_and_its_workers_need_is_imported_once_for_both() -> None:
    """Without ``OMP_NUM_THREADS``, as most people have it: libraries would start a thread a core."""
    bare = {k: v for k, v in os.environ.items() if k not in {*ONE_THREAD, "RAY_ADDRESS"}}

    def told(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", VERB, *arguments]
        return subprocess.run(command, env=bare, capture_output=True, text=True, check=True).stdout.split()

    assert told() == ["True", "True", "False"]
    assert told("threads") == ["False", "False", "False"], "two processes import at once"


@pytest.mark.usefixtures("home")
def test_whose_workers_there_will_be_is_known_before_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with ray_session.quiet_tune():
        ray_session.connect()
    expected = lean_ray.workers_environment()
    worker = ray.get(ray.remote(num_cpus=0)(lambda: dict(os.environ)).remote())
    assert [worker.get(name) for name in BELONGS_TO] == [expected.get(name) for name in BELONGS_TO]
    assert expected["RAY_JOB_ID"]
    assert {name: worker.get(name) for name in (SOCKET, TRAINABLE)} == {n: expected.get(n) for n in (SOCKET, TRAINABLE)}


def test_tune_counts_no_callbacks_and_so_imports_nothing_that_it_could_log_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.air._internal import usage
    from ray.tune import Callback, tune

    counted: list[object] = []
    monkeypatch.setattr(usage, "_count_callbacks", lambda callbacks: counted.append(callbacks) or {})
    with lean_ray.uncounted():
        tune.air_usage.tag_callbacks([Callback()])
    assert counted == []
    tune.air_usage.tag_callbacks([Callback()])
    assert len(counted) == 1


def test_a_ray_that_begins_in_a_thread_is_waited_for_and_what_it_met_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    begun, may_end, threads = threading.Event(), threading.Event(), []

    def init(**_: object) -> None:
        threads.append(threading.current_thread())
        begun.set()
        assert may_end.wait(60)
        if len(threads) > 1:
            raise OSError("no port")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(threads))
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray_session, "ForkServer", Forks)
    monkeypatch.setattr(ray_session, "_FORK_SERVERS", [])
    ray_session.begin(REAL)
    ray_session.begin(REAL)
    assert begun.wait(60)
    threading.Timer(0.2, may_end.set).start()
    ray_session.connect(CellTrainable)
    assert may_end.is_set()
    (thread,) = threads
    assert thread.name == "tune-vfl-ray"
    assert thread.is_alive(), "Linux would end Ray's processes with it"
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    ray_session.begin(REAL)
    with pytest.raises(UnreachableError, match="no port"):
        ray_session.connect()
    assert not ray_session._BEGUN
