"""What stands for Ray's agents in a Ray that a search starts, and that its workers need none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tune_vfl.search import lean_ray, ray_session, stand_in

PARENT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-I", "-S", *sys.argv[1:]]).pid, flush=True)
time.sleep(600)
"""


def agents() -> list[bool]:
    """Say of each agent of a Ray of this process whether another one stands for it."""
    called = [" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)]
    kinds = ("stand_in.py", "dashboard/agent.py", "runtime_env/agent/main.py", "ray::DashboardAgent", "ray::RuntimeEnv")
    ours = [name for name in called if any(kind in name for kind in kinds) and "ray/core/src/ray" not in name]
    return sorted("stand_in.py" in name for name in ours)


@pytest.mark.usefixtures("home")
def test_the_agent_of_runtime_environments_comes_when_it_is_called() -> None:
    import ray

    ray.shutdown()  # the tests of a process share a Ray, whose agent another one may have called
    with ray_session.quiet_tune():
        ray_session.connect()
    task = ray.remote(num_cpus=0)(lambda: os.environ.get("TOLD"))
    assert ray.get(task.remote()) is None
    assert agents() == [True, True]
    assert ray.get(task.options(runtime_env={"env_vars": {"TOLD": "so"}}).remote()) == "so"
    assert agents() == [False, True]


@pytest.mark.parametrize("arguments", [[], ["FILE", "127.0.0.1", "false"]], ids=["silent", "waiting"])
def test_what_stands_for_an_agent_ends_with_its_raylet(arguments, tmp_path):
    port = tmp_path / "port"
    words = [str(port) if word == "FILE" else word for word in arguments]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, stand_in.__file__, *words], stdout=subprocess.PIPE, encoding="ascii"
    )
    assert parent.stdout is not None
    stands = psutil.Process(int(parent.stdout.readline()))
    end = time.monotonic() + 60
    # It has told whose end it shares before it listens; the other one tells nobody, so it is given a second.
    while not port.exists() and words and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0 if words else 1)
    assert stands.is_running()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert stands.wait(60) is None  # not a child of this process: how it ended is not known
    assert not words or int(port.read_text()) > 0


@pytest.mark.parametrize("arguments", [[], ["FILE", "127.0.0.1", "false"]], ids=["silent", "waiting"])
def test_what_stands_for_an_agent_does_not_outlive_a_raylet_that_was_gone_before_it_began(arguments, tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    words = [str(tmp_path / "port") if word == "FILE" else word for word in arguments]
    told = {**os.environ, "RAY_RAYLET_PID": str(gone.pid)}
    subprocess.run([sys.executable, "-I", "-S", stand_in.__file__, *words], env=told, timeout=60, check=True)
    assert not (tmp_path / "port").exists()


def test_workers_of_tune_have_an_environment_of_their_own_only_where_they_inherit_another(monkeypatch):
    from ray.tune.execution import class_cache

    usual = dict(class_cache.DEFAULT_ENV_VARS)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setattr(lean_ray, "workers_environment", lambda: {**os.environ, **usual})
    with lean_ray.inheriting():
        assert not class_cache.DEFAULT_ENV_VARS
        assert not class_cache.ENV_VARS_TO_PROPAGATE
    assert usual == class_cache.DEFAULT_ENV_VARS
    inherited = {**os.environ, **usual}
    monkeypatch.setattr(lean_ray, "workers_environment", lambda: inherited)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "set after Ray was started")
    with lean_ray.inheriting():
        assert usual == class_cache.DEFAULT_ENV_VARS
        assert "AWS_ACCESS_KEY_ID" in class_cache.ENV_VARS_TO_PROPAGATE
