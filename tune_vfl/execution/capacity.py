"""The number of packs that may run at once: CPUs and GPUs of all nodes, shared with other searches."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import SpecError, UnreachableError
from tune_vfl.machine.process_identity import boot_id
from tune_vfl.machine.streams import tell

if TYPE_CHECKING:
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.spec import Resources

_EVERY_SECONDS = 10.0
# What `ray up` leaves on the head, where drivers run: the kinds of nodes that the autoscaler may start.
BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
# A cluster's resource of machines without a GPU. Where it is offered, packs that ask for no GPU ask for a trace of it:
# no machine with a GPU is started for them, however many wait, and none is kept up by them.
NO_GPU = "tune_vfl_no_gpu"
_TRACE = 0.001


def capacity_key(resources: Resources) -> str:
    """Return a name of the resources that searches share: a cluster or this machine, and its GPUs or its CPUs."""
    return f"{os.environ.get('RAY_ADDRESS') or boot_id()} {'gpu' if resources.gpu else 'cpu'}"


def packs_that_fit(resources: Resources, node: Mapping[str, float]) -> int:
    """Return the number of packs that fit on a node. A part of a GPU is always of one GPU, never of two."""
    room = math.floor(node.get("CPU", 0.0) / resources.cpu + 1e-9)
    if not resources.gpu:
        return room
    there = node.get("GPU", 0.0)
    each = math.floor(1 / resources.gpu + 1e-9)
    return min(room, math.floor(there) * each if each else math.floor(there / resources.gpu + 1e-9))


def demand(resources: Resources, cluster: Mapping[str, float]) -> dict[str, float]:
    """Return what one pack asks Ray Tune for, in its names (``cpu``, ``gpu``), on a cluster that holds ``cluster``."""
    apart = {NO_GPU: _TRACE} if NO_GPU in cluster and not resources.gpu else {}
    return {"cpu": resources.cpu, "gpu": resources.gpu, **apart}


class Capacity:
    """The capacity for a search's packs, updated from time to time.

    Args:
        resources: of one pack, with the spec's ``concurrency``.
        lease: the study's.
        nodes: returns the resources of each node that is up.
        grows: the cluster may add nodes, so that the present ones are no limit.
        now: returns the time in seconds.
    """

    def __init__(
        self,
        resources: Resources,
        lease: Lease,
        *,
        nodes: Callable[[], Sequence[Mapping[str, float]]],
        grows: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resources, self._lease, self._nodes, self._grows, self._now = resources, lease, nodes, grows, now
        self._look_at, self._packs = -math.inf, 1
        self._place, self._sharing = 0, 1
        self._looked = False

    def packs(self) -> int:
        """Return the number of packs that may run at once, at least 1.

        Raises:
            SpecError: at the first call, when no pack fits and no node that it fits on can be added.
        """
        if self._now() >= self._look_at:
            self._look_at = self._now() + _EVERY_SECONDS
            self._packs = self._count()
            self._looked = True
        return self._packs

    def _count(self) -> int:
        coming = startable(self._resources) if self._grows else 0
        nodes = self._nodes()
        if self._grows and coming is not None and not self._resources.gpu:
            # A machine with GPUs goes as it came, for packs that ask for one; others would have a new one in its place.
            nodes = [node for node in nodes if not node.get("GPU")]
        there = sum(packs_that_fit(self._resources, node) for node in nodes)
        everything = max(there, coming or 0)  # what the autoscaler may start includes what it has started
        if everything < 1:
            self._none_yet(nodes, unknown=coming is None)
        asked = self._resources.concurrency
        if isinstance(asked, int):
            return asked if coming is None else max(1, min(asked, everything))
        self._look_who_shares()
        return max(1, everything // self._sharing + (self._place < everything % self._sharing))

    def _look_who_shares(self) -> None:
        """Update this search's place among those that share the resources, from 0, and their number."""
        try:
            sharing = self._lease.roommates()
        except UnreachableError:  # the ledger's database is away: what it said last holds
            return
        if self._lease.study in sharing:
            self._place, self._sharing = sharing.index(self._lease.study), len(sharing)

    def _none_yet(self, nodes: Sequence[Mapping[str, float]], *, unknown: bool) -> None:
        """Refuse resources that no node has, or wait for one where it is unknown which nodes may come."""
        if self._looked:  # it began: machines may come back, and who watches the nodes ends it where none can
            return
        if not unknown:
            raise no_room(self._resources, nodes, grows=self._grows)
        tell(f"tune-vfl: no node of the cluster has room yet: {_wants(self._resources)}; waiting for one to join")


def no_room(resources: Resources, nodes: Sequence[Mapping[str, float]], *, grows: bool) -> SpecError:
    """Return the refusal of packs that find room on no node, and on none that an autoscaler may start."""
    held = [f"{node.get('CPU', 0):g} CPU and {node.get('GPU', 0):g} GPU" for node in nodes]
    there = ", ".join(held) or "no nodes"
    also = ", and none to be started has room (those with GPUs are for packs that ask for one)" if grows else ""
    return SpecError(f"resources: {_wants(resources)}, but there are {there}{also}; ask for less")


def _wants(resources: Resources) -> str:
    return f"one pack takes {resources.cpu:g} CPU and {resources.gpu:g} GPU"


def startable(resources: Resources, bootstrap: Path = BOOTSTRAP) -> int | None:
    """Return the number of packs that fit on the head and all nodes that are to be started for them; None if unknown.

    Nodes with GPUs are started for packs that ask for one.
    """
    import yaml

    try:
        config = yaml.safe_load(bootstrap.expanduser().read_text(encoding="utf-8"))
        kinds: Mapping[str, Any] = config["available_node_types"]
        head, most = config.get("head_node_type"), int(config.get("max_workers", 2))
        if not all("CPU" in kind["resources"] for kind in kinds.values()):
            return None  # machines of one's own: only Ray, once it runs there, knows what they hold
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
        return None
    workers = [
        packs_that_fit(resources, kind["resources"])
        for name, kind in kinds.items()
        if name != head and (resources.gpu or not kind["resources"].get("GPU"))
        for _ in range(min(most, int(kind.get("max_workers", most))))
    ]
    on_head = packs_that_fit(resources, kinds[head]["resources"]) if head in kinds else 0
    return on_head + sum(sorted(workers, reverse=True)[:most])
