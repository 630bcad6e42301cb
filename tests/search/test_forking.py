"""Ray's workers, forked from one process that has done their imports: what Ray meets is what it has started.

That process is one of its own, or a fork of the driver: all of it holds for both.
"""

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

from tune_vfl.search.forking import can_fork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Stands for Ray's own worker: says who it is, and then does what it is told.
WORKER = """
import gc, json, os, signal, sys, time
told = sys.argv[1]
print(json.dumps({
    "pid": os.getpid(), "group": os.getpgid(0), "ray": "ray" in sys.modules, "said": os.environ.get("SAID"),
    "folder": os.getcwd(), "main": sys.modules["__main__"].__dict__.get("told"), "input": sys.stdin.read(),
    "shared": "wave" in sys.modules, "signals": [repr(signal.getsignal(one)) for one in (2, 15)],
    "hooks": [sys.excepthook.__name__, repr(sys.unraisablehook)], "collects": gc.get_threshold(),
    "handles": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task")),
}), flush=True)
if told == "stay":
    time.sleep(60)
if told == "die":
    os.kill(os.getpid(), 9)
sys.exit(7)
"""

# A driver: has imports done, words unsaid, and signals, hooks and a handle of its own when it starts the server. Does
# what it is told, and ends when nobody tells it anything any more.
DRIVER = """
import wave, json, os, signal, sys, threading, time
from tune_vfl.search import forking

def own(*_):
    print("the driver's own", flush=True)

if sys.argv[1] == "own":
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
sys.excepthook = own
for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, own)
kept = os.open(os.devnull, os.O_RDONLY)
sys.stdout.write("unsaid")
server = forking.ForkServer(())
is_fork = isinstance(server._process, forking._Fork)
environment = server.environment("trainables.base:PackTrainable")
print("\\n" + json.dumps([is_fork, server.worker_path, environment]), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    server.prepare(told) if told else server.close()
    print("done", flush=True)
"""

pytestmark = pytest.mark.skipif(not can_fork(), reason="workers are forked on Linux alone")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("worker") / "worker.py"
    path.write_text(WORKER)
    return path


class Server:
    """A fork server, and its driver, a process of its own.

    Args:
        kind: whether the server is a process of its ``own`` or a ``fork`` of the driver.
    """

    def __init__(self, kind: str) -> None:
        self.driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.hear() == "unsaid"
        is_fork, self.worker_path, self.environment = json.loads(self.hear())
        assert is_fork == (kind == "fork")

    def hear(self) -> str:
        """Return what the driver says next."""
        assert self.driver.stdout is not None
        return self.driver.stdout.readline().strip()

    def tell(self, environment: Mapping[str, str]) -> None:
        """Let the driver prepare the server for workers of this environment, or close it: an empty one."""
        assert self.driver.stdin is not None
        self.driver.stdin.write(json.dumps(environment) + "\n")
        self.driver.stdin.flush()
        assert self.hear() == "done"

    def end(self) -> None:
        """End the driver, which has nothing else to say."""
        said, _ = self.driver.communicate(timeout=60)
        assert (self.driver.returncode, said) == (0, "")


@pytest.fixture(scope="module", params=["own", "fork"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[Server]:
    server = Server(kind)
    yield server
    server.end()


def started(server: Server, worker: Path, told: str, **environment: str) -> subprocess.Popen[str]:
    """Start what Ray starts."""
    return subprocess.Popen(
        [sys.executable, server.worker_path, told],
        env={
            **os.environ,
            **server.environment,
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


def test_a_fork_is_what_the_process_that_asked_would_have_been(server: Server, worker: Path) -> None:
    process = started(server, worker, "end", SAID="this")
    answer = said(process)
    assert process.wait(30) == 7
    assert answer["pid"] not in (process.pid, os.getpid())
    assert answer["ray"]  # without importing it
    assert (answer["said"], answer["folder"], answer["input"]) == ("this", str(worker.parent), "given")
    assert answer["main"] == "end"
    # Ray ends the process groups of its workers: no fork may be in that of the others.
    assert answer["group"] == answer["pid"]


def test_the_one_ends_with_the_other(server: Server, worker: Path) -> None:
    """A worker that dies is seen to have died, and one that Ray ends does not live on as its fork."""
    dying = started(server, worker, "die")
    said(dying)
    assert dying.wait(30) == 128 + signal.SIGKILL
    staying = started(server, worker, "stay")
    fork = said(staying)["pid"]
    staying.kill()
    staying.wait(30)
    assert gone(fork)


def test_the_worker_of_another_ray_and_one_without_a_server_import_for_themselves(server: Server, worker: Path) -> None:
    """Ray's core reads whose worker it is as it is imported, so that its forks cannot be anybody else's."""
    for changes in ({"RAY_JOB_ID": "02"}, {"TUNE_VFL_FORK_SERVER": "/nowhere"}, {"TUNE_VFL_FORK_SERVER": ""}):
        process = started(server, worker, "end", **changes)
        answer = said(process)
        assert process.wait(30) == 7
        assert (answer["pid"], answer["ray"], answer["main"]) == (process.pid, False, "end")


def test_all_forks_end_with_their_server(kind: str, worker: Path) -> None:
    server = Server(kind)
    process = started(server, worker, "stay")
    fork = said(process)["pid"]
    server.tell({})
    assert process.wait(30) == 1
    assert gone(fork)
    assert not Path(server.environment["TUNE_VFL_FORK_SERVER"]).exists()
    server.end()


def test_a_driver_that_ends_leaves_no_server(kind: str) -> None:
    server = Server(kind)
    server.end()
    assert not Path(server.environment["TUNE_VFL_FORK_SERVER"]).parent.exists()


def test_a_server_ends_with_its_driver(kind: str, worker: Path) -> None:
    server = Server(kind)
    process = started(server, worker, "stay")
    fork = said(process)["pid"]
    server.driver.kill()
    server.driver.communicate()
    assert process.wait(30) == 1
    assert gone(fork)
    assert not Path(server.environment["TUNE_VFL_FORK_SERVER"]).parent.exists()


def test_a_server_that_is_told_whose_workers_will_come_has_imported_before(kind: str, worker: Path) -> None:
    server = Server(kind)
    expected = {**os.environ, **server.environment, "RAY_JOB_ID": "01"}
    server.tell(expected)
    process = started(server, worker, "end", SAID="this")
    answer = said(process)
    assert process.wait(30) == 7
    assert answer["ray"]
    assert (answer["said"], answer["folder"]) == ("this", str(worker.parent)), "its own, not what was expected"
    other = started(server, worker, "end", RAY_JOB_ID="02")
    assert not said(other)["ray"]
    assert other.wait(30) == 7
    server.tell({})
    server.tell(expected)  # nobody is there, and nobody minds
    server.end()


def test_a_fork_of_the_driver_has_nothing_of_it_but_its_imports(worker: Path) -> None:
    found = {}
    for kind in ("own", "fork"):
        server = Server(kind)
        process = started(server, worker, "end")
        found[kind] = said(process)
        assert process.wait(30) == 7
        server.end()
    assert (found["own"].pop("shared"), found["fork"].pop("shared")) == (False, True)
    same = {name for name in found["own"] if name not in {"pid", "group"}}
    assert {name: found["fork"][name] for name in same} == {name: found["own"][name] for name in same}


def test_ctrl_c_is_for_the_driver_alone(server: Server, worker: Path) -> None:
    os.killpg(server.driver.pid, signal.SIGINT)
    assert server.hear() == "the driver's own"
    process = started(server, worker, "end")
    assert said(process)["ray"]
    assert process.wait(30) == 7


def test_a_process_is_forked_only_where_nothing_runs_that_a_fork_would_lack() -> None:
    program = (
        "import sys, threading, time\n"
        "from tune_vfl.search.forking import may_be_forked\n"
        "print(may_be_forked())\n"
        "inside = threading.Thread(target=lambda: print(may_be_forked()))\n"
        "inside.start(), inside.join()\n"
        "sys.modules['ray'] = sys\n"
        "print(may_be_forked())\n"
        "del sys.modules['ray']\n"
        "import _thread\n"
        "_thread.start_new_thread(time.sleep, (1000,))\n"
        "time.sleep(.1)\n"
        "print(may_be_forked())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "False"]
