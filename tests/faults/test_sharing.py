"""Many searches on one cluster, and a cluster that grows under a search; both slow, and run by hand."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import Driver, check_mlflow, check_study, cluster_of, finished, lost
from tests.faults.mlflow_server import Server
from tests.helpers.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster whose head has no room for any pack."""
    with cluster_of(head_cpus=0) as cluster:
        yield cluster


def test_eight_searches_share_ten_cpus_from_the_first_minute(
    cluster: Any, postgres: Postgres, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for _ in range(5):
        cluster.add_node(num_cpus=2)
    monkeypatch.setenv("TUNE_VFL_STORAGE", postgres.fresh())
    names = [f"study{i}" for i in range(8)]
    spec = {"tracking": f"http://127.0.0.1:{server.port}", "resources": {"concurrency": "auto", "pack": 1}}
    with ExitStack() as stack:
        drivers = []
        for name in names:
            (tmp_path / name).mkdir()
            given = {"name": name, "mlflow": True, "options": {"sleep": 6.0}}
            drivers.append(stack.enter_context(Driver(tmp_path / name, cluster.address, spec=spec, **given)))
        held: Counter[int] = Counter()
        while any(d.process.poll() is None for d in drivers):
            running = [finished(name, running=True) for name in names]
            if all(running):
                held[sum(running)] += 1
                print(f"running at once: {running}", flush=True)
                assert sum(running) <= 10 + 2, "nobody takes more than its share"
            time.sleep(2)
        for driver in drivers:
            code, err = driver.ends()
            assert code == 0, err
    assert held, "all eight ran at once"
    for name in names:
        record = check_study(name=name)
        assert lost(record) == 0
        check_mlflow(server, record)


def test_a_search_that_starts_on_no_worker_grows_as_nodes_join(cluster: Any, tmp_path: Path) -> None:
    spec = {"resources": {"concurrency": "auto", "pack": 1}, "budget": {"trials": 12}}
    patch = {"tune_vfl.execution.capacity._EVERY_SECONDS": 1.0}
    with Driver(tmp_path, cluster.address, spec=spec, options={"sleep": 8.0}, patch=patch) as driver:
        assert driver.process.stderr is not None
        while "no node of the cluster has room yet" not in (line := driver.process.stderr.readline()):
            assert line, "it did not say that it waits"
        most = 0
        for nodes in (1, 2, 3, 4):
            cluster.add_node(num_cpus=1)
            end = time.monotonic() + 90
            while time.monotonic() < end and most < nodes and driver.process.poll() is None:
                most = max(most, finished("study", running=True))
                time.sleep(0.3)
            print(f"{nodes} nodes: {most} packs at once", flush=True)
            assert most == nodes
        code, err = driver.ends()
    assert code == 0, err
    assert lost(check_study()) == 0
