"""A gate at which all workers of a search wait for each other, once, at the start.

Without it a pack that ends before the next worker is up hands its worker to a waiting pack, and Ray Tune destroys the
worker that is still starting. Cluster-wide, through Ray's key-value store; nothing hangs on it: after a while it
opens by itself.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Workers of one machine are up within seconds of each other; a cluster that has yet to add machines is not waited for.
PATIENCE_SECONDS = 20.0

_PASSED: set[tuple[str, int]] = set()


def wait_at_gate(gate: Mapping[str, Any] | None) -> None:
    """Come to ``gate["key"]``, and wait until ``gate["count"]`` processes have, 0 for none; a process waits once."""
    if not gate or (place := (gate["key"], gate["count"])) in _PASSED:
        return
    _PASSED.add(place)
    # The gate only saves time, and Ray's store is no stable interface: nothing may depend on it.
    with suppress(Exception):
        _wait(str(gate["key"]), int(gate["count"]))


def _wait(key: str, count: int) -> None:
    import ray
    from ray.experimental.internal_kv import _internal_kv_list, _internal_kv_put

    node = ray.get_runtime_context().get_node_id()
    _internal_kv_put(f"{key}/{node}/{os.getpid()}", b"1", namespace="tune-vfl")
    end = time.monotonic() + PATIENCE_SECONDS
    while len(_internal_kv_list(f"{key}/", namespace="tune-vfl")) < count and time.monotonic() < end:
        time.sleep(0.02)
