"""What a search needs of Ray, and none of the rest that takes time at the start."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.search import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

# Nobody reads what the monitors of logs and of machines to add would say; each costs
# half a second of a core at the start, and some of it for ever after. Any free port does for the agent: on its usual
# one, which another Ray on this machine holds, it would insist for three seconds.
_LEAN = {"include_log_monitor": False, "no_monitor": True, "dashboard_agent_listen_port": 0}
# What an agent that serves nobody says of its ports.
_NO_PORT = -1
# A node on this machine is up in one second, or three where there is other work.
_SOON_SECONDS = 10.0


@contextmanager
def lean(**more: Any) -> Iterator[None]:
    """Start what a search needs of Ray and no more, as far as this version of Ray can be told."""
    from ray._private import node, parameter, services, utils

    known = inspect.signature(parameter.RayParams).parameters
    told = {name: value for name, value in {**_LEAN, **more}.items() if name in known}
    with (
        _replaced(parameter, "RayParams", partial(parameter.RayParams, **told)),
        # Without a dashboard it only counts how Ray is used.
        _replaced(node.Node, "start_api_server", lambda *_, **__: None),
        # As if what dashboards need were not installed: this process would import all of it only to see that it is.
        _replaced(utils, "get_dashboard_dependency_error", lambda: ImportError("not needed")),
        _wrapped(services, "get_node", _node_soon),
        _wrapped(services, "start_ray_process", _start_without_agents),
    ):
        yield


def _start_without_agents(usual: Any, command: list[str], kind: str, *rest: Any, **more: Any) -> Any:
    """Start a process of Ray's; others stand for the agents of a raylet, which it waits for as long as they import.

    Without a dashboard its agent does nothing but tell so. That of runtime environments comes when it is wanted.
    """
    with suppress(Exception):  # another version of Ray, or another system
        command = _without_agents(command) if kind == "raylet" and sys.platform == "linux" else command
    return usual(command, kind, *rest, **more)


def _without_agents(command: list[str]) -> list[str]:
    """Return the command that starts a raylet with other agents than it names."""
    core = import_module("ray._raylet")

    told = dict(word.removeprefix("--").split("=", 1) for word in command if "=" in word)
    session, node, agent = told["session_dir"], told["node_id"], told["runtime_env_agent_command"]
    place = Path(session) / core.get_port_filename(node, core.RUNTIME_ENV_AGENT_PORT_NAME)
    silent = [sys.executable, "-I", "-S", stand_in.__file__]
    waiting = subprocess.list2cmdline([*silent, str(place), told["node_ip_address"]])
    for port in (core.METRICS_AGENT_PORT_NAME, core.METRICS_EXPORT_PORT_NAME, core.DASHBOARD_AGENT_LISTEN_PORT_NAME):
        core.persist_port(session, node, port, _NO_PORT)
    instead = {
        "--dashboard_agent_command": subprocess.list2cmdline(silent),
        "--runtime_env_agent_command": f"{waiting} {agent}",
    }
    return [f"{name}={instead[name]}" if (name := word.partition("=")[0]) in instead else word for word in command]


def _node_soon(usual: Any, gcs_address: str, node_id: str) -> Any:
    """Return what Ray knows of the node that is starting, as soon as it does: Ray's own way looks once a second."""
    with suppress(Exception):  # another version of Ray: its own way does
        from ray._private import services, state

        known = state.GlobalState()
        known._initialize_global_state(services._get_gcs_client_options(gcs_address))
        end = time.monotonic() + _SOON_SECONDS
        while all(node["NodeID"] != node_id for node in known.node_table()) and time.monotonic() < end:
            time.sleep(0.02)
    return usual(gcs_address, node_id)


def workers_environment() -> dict[str, str]:
    """Return the environment that a Ray which this process has started gives its workers; empty if it is unknown."""
    with suppress(Exception):  # another version of Ray, or another system
        import ray
        from ray._private.worker import _global_node

        (raylet,) = _global_node.all_processes["raylet"]
        pid = raylet.process.pid
        held = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="surrogateescape")
        own = dict(line.split("=", 1) for line in held.split("\0") if "=" in line)
        return {**own, "RAY_JOB_ID": ray.get_runtime_context().get_job_id(), "RAY_RAYLET_PID": str(pid)}
    return {}


@contextmanager
def inheriting() -> Iterator[None]:
    """Let Tune's workers go without an environment of their own where the one that they inherit says the same.

    For each with one of its own Ray asks an agent, which it first has to start.
    """
    cache = sys.modules.get("ray.tune.execution.class_cache")
    usual, passed = getattr(cache, "DEFAULT_ENV_VARS", {}), getattr(cache, "ENV_VARS_TO_PROPAGATE", ())
    wanted = {**usual, **{name: os.environ[name] for name in passed if name in os.environ}}
    if wanted.items() <= workers_environment().items():
        with _replaced(cache, "DEFAULT_ENV_VARS", {}), _replaced(cache, "ENV_VARS_TO_PROPAGATE", ()):
            yield
    else:
        yield


@contextmanager
def uncounted() -> Iterator[None]:
    """Let Tune run without counting which of its callbacks are used.

    The count is sent nowhere (``RAY_USAGE_STATS_ENABLED``), and imports MLflow and whatever else Tune can log to before
    any trial, which takes more than a second of a core.
    """
    with _replaced(sys.modules.get("ray.air._internal.usage"), "tag_callbacks", lambda _callbacks: False):
        yield


def _wrapped(owner: Any, name: str, around: Callable[..., Any]) -> AbstractContextManager[None]:
    """Give what Ray has under a name to another function first, see :func:`_replaced`."""
    return _replaced(owner, name, partial(around, getattr(owner, name, None)))


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give what Ray has under a name another value for the block, where this version of Ray has it."""
    usual = getattr(owner, name, None)
    if usual is None:
        yield
        return
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, usual)
