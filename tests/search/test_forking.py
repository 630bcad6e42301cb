"""Ray's workers, forked from one process that has done their imports: what Ray meets is what it has started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tune_vfl.search.forking import ForkServer, can_fork, named

if TYPE_CHECKING:
    from collections.abc import Iterator

# Stands for Ray's own worker: says who it is, and then does what it is told.
WORKER = """
import json, os, sys, time
told = sys.argv[1]
print(json.dumps({
    "pid": os.getpid(), "group": os.getpgid(0), "ray": "ray" in sys.modules, "said": os.environ.get("SAID"),
    "folder": os.getcwd(), "main": sys.modules["__main__"].__dict__.get("told"), "input": sys.stdin.read(),
}), flush=True)
if told == "stay":
    time.sleep(60)
if told == "die":
    os.kill(os.getpid(), 9)
sys.exit(7)
"""

pytestmark = pytest.mark.skipif(not can_fork(), reason="workers are forked on Linux alone")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("worker") / "worker.py"
    path.write_text(WORKER)
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer(())
    yield server
    server.close()


def started(server: ForkServer, worker: Path, told: str, **environment: str) -> subprocess.Popen[str]:
    """Start what Ray starts."""
    return subprocess.Popen(
        [sys.executable, server.worker_path, told],
        env={
            **os.environ,
            **server.environment(named(None)),
            "TUNE_VFL_RAY_WORKER": str(worker),
            "RAY_JOB_ID": "01",
            **environment,
        },
        cwd=worker.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("given")
    process.stdin.close()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def gone(pid: int) -> bool:
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_a_fork_is_what_the_process_that_asked_would_have_been(server: ForkServer, worker: Path) -> None:
    process = started(server, worker, "end", SAID="this")
    answer = said(process)
    assert process.wait(30) == 7
    assert answer["pid"] not in (process.pid, os.getpid())
    assert answer["ray"]  # without importing it
    assert (answer["said"], answer["folder"], answer["input"]) == ("this", str(worker.parent), "given")
    assert answer["main"] == "end"
    # Ray ends the process groups of its workers: no fork may be in that of the others.
    assert answer["group"] == answer["pid"]


def test_the_one_ends_with_the_other(server: ForkServer, worker: Path) -> None:
    """A worker that dies is seen to have died, and one that Ray ends does not live on as its fork."""
    dying = started(server, worker, "die")
    said(dying)
    assert dying.wait(30) == 128 + signal.SIGKILL
    staying = started(server, worker, "stay")
    fork = said(staying)["pid"]
    staying.kill()
    staying.wait(30)
    assert gone(fork)


def test_the_worker_of_another_ray_and_one_without_a_server_import_for_themselves(
    server: ForkServer, worker: Path
) -> None:
    """Ray's core reads whose worker it is as it is imported, so that its forks cannot be anybody else's."""
    for changes in ({"RAY_JOB_ID": "02"}, {"TUNE_VFL_FORK_SERVER": "/nowhere"}, {"TUNE_VFL_FORK_SERVER": ""}):
        process = started(server, worker, "end", **changes)
        answer = said(process)
        assert process.wait(30) == 7
        assert (answer["pid"], answer["ray"], answer["main"]) == (process.pid, False, "end")


def test_all_forks_end_with_their_server(worker: Path) -> None:
    server = ForkServer(())
    process = started(server, worker, "stay")
    fork = said(process)["pid"]
    server.close()
    assert process.wait(30) == 1
    assert gone(fork)
    assert not Path(server.environment(named(None))["TUNE_VFL_FORK_SERVER"]).exists()


def test_a_server_that_is_told_whose_workers_will_come_has_imported_before(worker: Path) -> None:
    server = ForkServer(())
    expected = {**os.environ, **server.environment(named(None)), "RAY_JOB_ID": "01"}
    server.prepare(expected)
    process = started(server, worker, "end", SAID="this")
    answer = said(process)
    assert process.wait(30) == 7
    assert answer["ray"]
    assert (answer["said"], answer["folder"]) == ("this", str(worker.parent)), "its own, not what was expected"
    other = started(server, worker, "end", RAY_JOB_ID="02")
    assert not said(other)["ray"]
    assert other.wait(30) == 7
    server.close()
    server.prepare(expected)  # nobody is there, and nobody minds
