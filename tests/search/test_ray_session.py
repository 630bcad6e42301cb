"""The Ray that a search starts where none is named."""

from __future__ import annotations

import os

import pytest

from tune_vfl.search import ray_session


class Forks:
    """A fork server that is none."""

    def __init__(self, trainable: object) -> None:
        self.environment, self.worker_path = {"TUNE_VFL_FORK_SERVER": "nowhere"}, "worker.py"


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


def test_tune_counts_no_callbacks_and_so_imports_nothing_that_it_could_log_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.air._internal import usage
    from ray.tune import Callback, tune

    counted: list[object] = []
    monkeypatch.setattr(usage, "_count_callbacks", lambda callbacks: counted.append(callbacks) or {})
    with ray_session.uncounted():
        tune.air_usage.tag_callbacks([Callback()])
    assert counted == []
    tune.air_usage.tag_callbacks([Callback()])
    assert len(counted) == 1
