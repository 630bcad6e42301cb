"""How many packs run at once: what nodes hold, what an autoscaler may start, and whom it is shared with."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.errors import SpecError, UnreachableError
from tune_vfl.execution.capacity import NO_GPU, Capacity, demand, packs_that_fit, startable
from tune_vfl.ledger.storage import storage_at
from tune_vfl.spec import Resources

AUTO = Resources()
FOUR = [{"CPU": 4.0, "GPU": 1.0}]


def room(resources: Resources = AUTO, nodes: Any = FOUR, *, sharing: Any = ("study",), **given: Any) -> Capacity:
    lease = SimpleNamespace(study="study", roommates=sharing if callable(sharing) else lambda: list(sharing))
    return Capacity(resources, lease, nodes=nodes if callable(nodes) else lambda: nodes, **given)


@pytest.mark.parametrize(
    ("resources", "node", "packs"),
    [
        (AUTO, {"CPU": 4}, 4),
        (Resources(cpu=2), {"CPU": 5}, 2),
        (Resources(cpu=0.5), {"CPU": 2}, 4),
        (Resources(gpu=1), {"CPU": 8}, 0),
        (Resources(gpu=0.25), {"CPU": 8, "GPU": 1}, 4),
        (Resources(gpu=0.25), {"CPU": 2, "GPU": 1}, 2),
        (Resources(gpu=0.4), {"CPU": 8, "GPU": 2}, 4),  # two on each, and never one on both
        (Resources(gpu=2), {"CPU": 8, "GPU": 5}, 2),
    ],
)
def test_a_node_has_room_for(resources: Resources, node: dict[str, float], packs: int) -> None:
    assert packs_that_fit(resources, node) == packs


def test_nodes_are_filled_one_by_one() -> None:
    assert room(Resources(cpu=2), [{"CPU": 3}, {"CPU": 3}]).packs() == 2, "a pack never lies on two nodes"
    assert room(Resources(concurrency=8)).packs() == 4
    assert room(Resources(concurrency=3)).packs() == 3
    assert room(Resources(concurrency=8), grows=True).packs() == 8


def test_a_pack_that_fits_nowhere_is_refused_where_nothing_can_come(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SpecError, match="takes 16 CPU and 0 GPU, but there are 4 CPU and 1 GPU; ask for less"):
        room(Resources(cpu=16)).packs()
    assert room(Resources(gpu=1), [{"CPU": 4}], grows=True).packs() == 1
    assert "waiting for one to join" in capsys.readouterr().err


def test_it_looks_again_as_nodes_come_and_go_and_searches_begin_and_end() -> None:
    clock, nodes, sharing = [0.0], [{"CPU": 4.0}], ["study"]
    changing = room(nodes=nodes, sharing=lambda: list(sharing), now=lambda: clock[0])
    assert changing.packs() == 4
    nodes.append({"CPU": 4.0})
    assert changing.packs() == 4, "not at every step"
    clock[0] += 11
    assert changing.packs() == 8
    sharing.append("later")
    clock[0] += 11
    assert changing.packs() == 4
    del nodes[1]
    clock[0] += 11
    assert changing.packs() == 2


@given(st.integers(1, 40), st.integers(1, 12))
def test_shares_fill_the_room_and_differ_by_one_at_most(cpus: int, searches: int) -> None:
    names = [f"s{i}" for i in range(searches)]
    shares = []
    for name in names:
        lease = SimpleNamespace(study=name, roommates=lambda: names)
        shares.append(Capacity(AUTO, lease, nodes=lambda: [{"CPU": float(cpus)}]).packs())
    assert sum(shares) == max(cpus, searches), "everything is used, and each has at least one"
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True), "the remainder goes to the oldest"


def test_a_database_that_is_away_takes_nobodys_room() -> None:
    def away() -> list[str]:
        raise UnreachableError("away")

    assert room(sharing=away).packs() == 4


def test_a_database_that_goes_away_leaves_everybody_its_share() -> None:
    clock, answers = [0.0], [["older", "study"]]

    def sharing() -> list[str]:
        if not answers:
            raise UnreachableError("away")
        return answers.pop()

    shared = room(sharing=sharing, now=lambda: clock[0])
    assert shared.packs() == 2
    clock[0] += 11
    assert shared.packs() == 2, "eight searches that cannot ask do not all take everything"


def test_a_machine_that_dies_under_a_search_is_not_taken_for_a_mistake_in_its_spec() -> None:
    clock, nodes = [0.0], [{"CPU": 4.0}]
    dying = room(nodes=nodes, now=lambda: clock[0])
    assert dying.packs() == 4
    nodes.clear()
    clock[0] += 11
    assert dying.packs() == 1, "who watches the nodes says what happened"


def test_leases_of_one_room_know_each_other(tmp_path: Path) -> None:
    place, here = storage_at(str(tmp_path / "ledger.db")), "here cpu"
    with (
        place.lease("b", room=here) as b,
        place.lease("a", room=here) as a,
        place.lease("c", room="x") as c,
    ):
        assert sorted(b.roommates()) == ["a", "b"] == sorted(a.roommates())
        assert c.roommates() == ["c"]
    with place.lease("a", room=here) as a:
        assert a.roommates() == ["a"], "what ended takes no room"


SHIPPED = (Path(__file__).parents[2] / "cluster.yaml").read_text(encoding="utf-8")
HEAD = {"CPU": 3.0}


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped file on the head, as `ray up` leaves it there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "ray_bootstrap_config.yaml"
    file.write_text(SHIPPED)
    return file


def test_what_the_autoscaler_may_start_counts(bootstrap: Path, tmp_path: Path) -> None:
    """From no worker at all, four are asked for at once: of the kind without GPUs for packs that ask for none."""
    assert startable(Resources(gpu=1), bootstrap) == 4
    assert startable(Resources(gpu=0.25), bootstrap) == 16
    assert startable(AUTO, bootstrap) == 3 + 4 * 8
    assert startable(Resources(cpu=16), bootstrap) == 0
    assert startable(AUTO, tmp_path / "none.yaml") is None
    for unknown in (
        "just: [a, text",
        "just a text",
        "available_node_types: {a: {resources: {}}}",
        "available_node_types: {a: }",
    ):
        bootstrap.write_text(unknown)
        assert startable(AUTO, bootstrap) is None


def without_cpu_workers() -> str:
    """A cluster of a CPU head and GPU workers."""
    cluster = yaml.safe_load(SHIPPED)
    del cluster["available_node_types"]["cpu_worker"]
    return yaml.safe_dump(cluster)


def test_packs_without_a_gpu_start_no_machine_that_has_one(bootstrap: Path) -> None:
    bootstrap.write_text(without_cpu_workers())
    assert startable(AUTO, bootstrap) == 3
    assert startable(Resources(gpu=1), bootstrap) == 4
    assert room(nodes=[HEAD], grows=True).packs() == 3
    assert room(Resources(concurrency=16), [HEAD], grows=True).packs() == 3
    with pytest.raises(
        SpecError, match=r"takes 4 CPU and 0 GPU, but there are 3 CPU and 0 GPU, and none to be started"
    ):
        room(Resources(cpu=4), [HEAD], grows=True).packs()


def test_machines_that_came_for_gpu_packs_are_no_room_for_others(bootstrap: Path) -> None:
    """They go at any time, and packs that lose their place would have new ones started."""
    workers = [{"CPU": 8.0}] * 4, [{"CPU": 8.0, "GPU": 1.0}] * 4
    nodes = [HEAD, *workers[0], *workers[1]]
    assert room(nodes=nodes, grows=True).packs() == 3 + 4 * 8
    assert room(Resources(concurrency=64), nodes, grows=True).packs() == 3 + 4 * 8
    assert room(Resources(gpu=1), nodes, grows=True).packs() == 4
    assert room(Resources(concurrency=64), [*nodes, {"CPU": 40.0}], grows=True).packs() == 64, "one that joined by hand"
    bootstrap.unlink()
    assert room(nodes=nodes, grows=True).packs() == 3 + 8 * 8, "machines that nobody starts are room for all"


def asked(resources: Resources) -> dict[str, float]:
    """What Ray is asked for by one pack on a cluster of the shipped file."""
    wants = demand(resources, {"CPU": 3.0, NO_GPU: 1.0})
    return {{"cpu": "CPU", "gpu": "GPU"}.get(name, name): amount for name, amount in wants.items() if amount}


@pytest.mark.parametrize("packs", [1, 35, 36, 200])
@pytest.mark.parametrize("cpu", [1, 3.5, 8])
def test_ray_starts_no_gpu_machine_for_packs_that_ask_for_none(packs: int, cpu: float) -> None:
    """Its own scheduler, asked offline for the placement groups of packs that wait, also of more than have room."""
    assert set(machines_for([asked(Resources(cpu=cpu))] * packs)) <= {"cpu_worker"}
    assert set(machines_for([asked(Resources(cpu=cpu))] * packs, full=True)) <= {"cpu_worker"}
    assert machines_for([asked(Resources(cpu=cpu, gpu=1))] * packs, full=True) == {"gpu_worker": min(packs, 4)}


def test_a_cluster_that_does_not_tell_its_machines_apart_is_asked_for_cpus_alone() -> None:
    assert demand(Resources(cpu=2), {"CPU": 8.0, "GPU": 1.0}) == {"cpu": 2, "gpu": 0}
    assert demand(Resources(gpu=1), {NO_GPU: 1.0}) == {"cpu": 1, "gpu": 1}


def machines_for(packs: Sequence[dict[str, float]], *, full: bool = False) -> dict[str, int]:
    """Return how many machines of each kind Ray starts for packs that wait; the head alone is up, and idle or full."""
    from ray.autoscaler._private.util import prepare_config
    from ray.autoscaler.v2.instance_manager.config import NodeTypeConfig
    from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
    from ray.autoscaler.v2.schema import AutoscalerInstance
    from ray.core.generated.autoscaler_pb2 import GangResourceRequest, NodeState, NodeStatus, ResourceRequest
    from ray.core.generated.instance_manager_pb2 import Instance, NodeKind

    config = prepare_config(yaml.safe_load(SHIPPED))
    kinds = {
        name: NodeTypeConfig(name, 0, kind["max_workers"] + (name == "head"), resources=kind["resources"])
        for name, kind in config["available_node_types"].items()
    }
    holds = config["available_node_types"]["head"]["resources"]
    up = AutoscalerInstance(
        cloud_instance_id="0",
        ray_node=NodeState(
            node_id=b"0", total_resources=holds, available_resources={} if full else holds, status=NodeStatus.RUNNING
        ),
        im_instance=Instance(
            instance_id="0", instance_type="head", status=Instance.RAY_RUNNING, node_id="0", node_kind=NodeKind.HEAD
        ),
    )
    waiting = [GangResourceRequest(requests=[ResourceRequest(resources_bundle=pack)]) for pack in packs]
    asked = SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs=kinds,
        max_num_nodes=config["max_workers"] + 1,
        gang_resource_requests=waiting,
        current_instances=[up],
    )
    return {launch.instance_type: launch.count for launch in ResourceDemandScheduler(None).schedule(asked).to_launch}
