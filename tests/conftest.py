"""What all rooms share: a home of its own for each test that asks, and the command line called in this process."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.helpers.postgres import Postgres

# One thread a process, as .ci/run has it: workers that each take all cores only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# An example takes as long as the machine lets it: no test asserts a duration.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# What a test starts, a program, a Ray or its workers, imports the tests' helpers in whatever folder it runs.
ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

# Ledgers and tracking databases wait for the disk at each commit: where memory is mounted as a file system and has
# room, the tests' folders stand there. What a test kills is a process, never the machine.
MEMORY, ROOM = Path("/dev/shm"), 2 * 2**30
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# What a person may have set for clusters and servers of theirs; no test may act on it.
OUTSIDE = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "MLFLOW_TRACKING_URI", "TUNE_VFL_STORAGE", "TUNE_VFL_DEBUG")


# A file's tests stay with one worker, which computes once what they share; so do the files of a group, each of which
# holds a Ray, a server, a study or scores. Groups begin first, in this order: who begins a long one last keeps the
# others waiting. What needs no Ray stands between those that do, so that two Rays never start in the same seconds: a
# Ray gives up when its start takes half a minute.
IN_ONE_WORKER = {
    "tests/faults/test_driver.py": "drivers",
    "tests/faults/test_start_and_stop.py": "drivers",
    "tests/confirmation/test_run.py": "drivers",
    "tests/evaluation/test_strength.py": "strength",  # it keeps what it has scored
    "tests/reports/test_reports.py": "reports",
    "tests/driver/test_run.py": "simulated",
    "tests/driver/test_campaign.py": "simulated",
    "tests/faults/test_workers.py": "simulated",
    "tests/faults/test_services.py": "servers",
    "tests/ledger/test_ledger.py": "servers",
    "tests/ledger/test_lease.py": "servers",
    "tests/ledger/test_db_errors.py": "servers",
    "tests/samples/test_release.py": "servers",
    "tests/tracking/test_shared.py": "servers",
    "tests/cli/test_verbs_on_a_study.py": "trained",
    "tests/spaces/test_recipe_domains.py": "trained",
    "tests/examples/test_own_loops.py": "trained",
    "tests/examples/test_notebook.py": "trained",
    "tests/cluster/test_jobs.py": "cluster",
    "tests/tracking/test_tracking.py": "tracking",
    "tests/tracking/test_writing.py": "tracking",
    "tests/tracking/test_ui.py": "tracking",  # the last in the alphabet, and it waits for a server
}
MOST_WORKERS = 4  # each holds torch, and up to 2 GB
LOWEST = 19


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Give workers to the cores where folders are run, and none where a person names a file or a test.

    There are two more than cores: whoever waits for a Ray, a server or a lease leaves its core to another.
    """
    options = config.option
    named = any(".py" in argument for argument in config.args)
    if named or options.keyword or options.usepdb or options.collectonly:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 2, MOST_WORKERS) if cores > 1 else 0


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker of pytest-xdist the priority that Ray gives its own, the lowest: a Ray would wait for tests."""
    if hasattr(config, "workerinput") and hasattr(os, "nice"):
        os.nice(LOWEST)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the groups first where workers share the tests."""
    if hasattr(config, "workerinput"):
        order = list(dict.fromkeys(IN_ONE_WORKER.values()))
        groups = {group: place for place, group in enumerate(order)}
        items.sort(key=lambda item: groups.get(group_of(item.nodeid), len(order)))


def group_of(nodeid: str) -> str:
    """Name what a test stays together with: its file, or the group of its file."""
    path, _, _ = nodeid.partition("::")
    return IN_ONE_WORKER.get(path, path)


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


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's schema, made once: making it takes seconds."""
    from tune_vfl.tracking import store

    path: Path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    store.client(f"sqlite:///{path}")
    return path


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, as in a process of one's own: a worker of pytest-xdist ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
