"""What a search needs of Ray, and none of the rest that takes time at the start."""

from __future__ import annotations

import inspect
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nobody reads what the monitors of logs and of machines to add would say; each costs
# half a second of a core at the start, and some of it for ever after. Any free port does for the agent: on its usual
# one, which another Ray on this machine holds, it would insist for three seconds.
_LEAN = {"include_log_monitor": False, "no_monitor": True, "dashboard_agent_listen_port": 0}
# A node on this machine is up in one second, or three where there is other work.
_SOON_SECONDS = 10.0


@contextmanager
def lean(**more: Any) -> Iterator[None]:
    """Start what a search needs of Ray and no more, as far as this version of Ray can be told."""
    from ray._private import node, parameter, services, utils

    known, get_node = inspect.signature(parameter.RayParams).parameters, getattr(services, "get_node", None)
    told = {name: value for name, value in {**_LEAN, **more}.items() if name in known}
    with (
        _replaced(parameter, "RayParams", partial(parameter.RayParams, **told)),
        # Without a dashboard it only counts how Ray is used.
        _replaced(node.Node, "start_api_server", lambda *_, **__: None),
        # As if what dashboards need were not installed: this process would import all of it only to see that it is.
        _replaced(utils, "get_dashboard_dependency_error", lambda: ImportError("not needed")),
        _replaced(services, "get_node", partial(_node_soon, get_node)),
    ):
        yield


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
def uncounted() -> Iterator[None]:
    """Let Tune run without counting which of its callbacks are used.

    The count is sent nowhere (``RAY_USAGE_STATS_ENABLED``), and imports MLflow and whatever else Tune can log to before
    any trial, which takes more than a second of a core.
    """
    with _replaced(sys.modules.get("ray.air._internal.usage"), "tag_callbacks", lambda _callbacks: False):
        yield


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
