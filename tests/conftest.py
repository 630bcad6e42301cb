"""What all rooms share: a home of its own for each test that asks, and the command line called in this process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.helpers.postgres import Postgres

# One thread a process, as .ci/run has it: workers that each take all cores only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a person may have set for clusters and servers of theirs; no test may act on it.
OUTSIDE = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "MLFLOW_TRACKING_URI", "TUNE_VFL_STORAGE", "TUNE_VFL_DEBUG")


# Groups stay with one worker, one test after the other: each of these files holds a Ray, a server, a study or scores
# that its tests share. They begin in this order. What needs a Ray is cut in two for two workers; scores come between
# them, so that two Rays never start in the same seconds: a Ray gives up when its start takes half a minute.
IN_ONE_WORKER = {
    "tests/confirmation/test_run.py": "simulated",
    "tests/search/test_run.py": "simulated",
    "tests/evaluation/test_strength.py": "strength",  # it keeps what it has scored
    "tests/cli/test_verbs_on_a_study.py": "trained",
    "tests/spaces/test_recipe_domains.py": "trained",
    "tests/cluster/test_jobs.py": "cluster",
    "tests/reports/test_reports.py": "reports",
    "tests/tracking/test_tracking.py": "tracking",
    "tests/tracking/test_writing.py": "tracking",
}
AUTOENCODERS = ("[cae-", "[dcae-")  # what they are fitted to is kept for the process, and takes seconds
MOST_WORKERS = 4  # each holds torch, and up to 2 GB


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Give a worker to each core where folders are run, and none where a person names a file or a test."""
    options = config.option
    named = any(".py" in argument for argument in config.args)
    if named or options.keyword or options.usepdb or options.collectonly:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS) if cores > 1 else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the groups first where workers share the tests: whoever begins a long one last keeps the others waiting."""
    if hasattr(config, "workerinput"):
        order = [*dict.fromkeys(IN_ONE_WORKER.values()), "autoencoders"]
        groups = {group: place for place, group in enumerate(order)}
        items.sort(key=lambda item: groups.get(group_of(item.nodeid), len(order)))


def group_of(nodeid: str) -> str:
    """Name what a test stays together with; most tests are alone."""
    path, _, name = nodeid.partition("::")
    return IN_ONE_WORKER.get(path) or ("autoencoders" if any(a in name for a in AUTOENCODERS) else nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out groups. xdist's own ``loadgroup`` marks the tests' ids, which pytest 9.2 no longer lets it."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class InGroups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # as collected, see pytest_collection_modifyitems; not the largest first
    return InGroups(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs public data that is not here; each argument of the mark is a file under the data root."""
    from tune_vfl.machine.places import data_root

    for mark in item.iter_markers("public_data"):
        for relative in mark.args:
            if not any((data_root() / f"{relative}{end}").exists() for end in ("", ".gz")):
                pytest.skip(f"{relative} is not under the data root {data_root()} (TUNE_VFL_DATA)")


def pytest_sessionfinish() -> None:
    """Stop the Ray that the tests of this process have shared: what takes seconds to start is started once."""
    if ray := sys.modules.get("ray"):
        ray.shutdown()


class Run(Protocol):
    """Call the command line: its exit code, what it printed, and what it said on stderr."""

    def __call__(self, *arguments: object) -> tuple[int, str, str]: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is not there yet, and no cluster or tracking server that the environment names."""
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "home"))
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    from tune_vfl.cli.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of this process; its tests take databases of their own, or leave it running as they found it."""
    from tests.helpers.postgres import Postgres, binaries

    if binaries() is None:
        pytest.skip("no PostgreSQL here (initdb, postgres): install Debian's postgresql package to run this test")
    server = Postgres()
    yield server
    server.remove()
