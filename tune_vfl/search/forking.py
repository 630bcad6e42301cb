"""Workers of a Ray on this machine, forked from one process that has done their imports."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainables import fork_server, forked
from tune_vfl.machine.signals import LISTENER, SIGNALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainables.base import PackTrainable

# How many workers may ask for a fork while it is still importing.
_BACKLOG = 64
# Workers use one thread each: two single-thread processes beat one with two threads.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_UNPREPARED = "trainables.base:PackTrainable"


class ForkServer:
    """A running :mod:`trainables.fork_server`; it ends with this process at the latest.

    Args:
        modules: what it imports at once.

    Attributes:
        worker_path: what Ray must run as its worker.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._folder = tempfile.mkdtemp(prefix="tune-vfl-fork-")
        self._place = str(Path(self._folder) / "door")
        self.worker_path = forked.__file__
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(self._place)
            door.listen(_BACKLOG)
            self._process = _Fork(door, modules) if may_be_forked() else _started(door, modules)
        atexit.register(self.close)  # after what is registered later: Ray's own way out

    def environment(self, trainable: str) -> dict[str, str]:
        """Return what Ray's workers must have in their environment.

        Args:
            trainable: what they run, see :func:`named`.
        """
        from ray._private.workers import __path__ as workers

        worker = str(Path(workers[0]) / "default_worker.py")
        return {forked.SOCKET: self._place, forked.WORKER: worker, forked.TRAINABLE: trainable}

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Let it import what workers need of Ray, before the first of them asks.

        Args:
            environment: what they will have; others than it can fork none.
        """
        asked = {"worker": "", "arguments": [], "environment": {**environment}, "folder": "/", "oom_score_adj": ""}
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.connect(self._place)
            server.sendall(json.dumps(asked).encode() + b"\n")

    def close(self) -> None:
        """End it, with all that it has forked."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _started(door: socket.socket, modules: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the server in a process of its own."""
    return subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-P", "-m", "trainables.fork_server", str(door.fileno()), *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[door.fileno()],
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,  # Ctrl-C on a terminal is for the driver
    )


class _Fork:
    """The server in a fork of this process, which has imports done; as much of ``Popen`` as a server needs."""

    def __init__(self, door: socket.socket, modules: Sequence[str]) -> None:
        driver, end = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                fork_server.instead_of_driver(door.fileno(), driver, modules)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(driver)
        self.stdin = os.fdopen(end, "wb")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        with suppress(ChildProcessError):  # whoever waits for any child of this process has seen its end
            os.waitpid(self._pid, 0)


def may_be_forked() -> bool:
    """Whether this process can be the fork server's parent: nothing runs in it that a fork would lack.

    That is so where a verb has just begun. Ray's core must not be loaded yet: it reads as it is whose worker it is in.
    """
    threads = threading.enumerate()
    return (
        can_fork()
        and "ray" not in sys.modules
        and threading.current_thread() is threading.main_thread()
        and all(thread.name in {threading.main_thread().name, LISTENER} for thread in threads)
        and len(list(Path("/proc/self/task").iterdir())) == len(threads)
    )


def can_fork() -> bool:
    """Whether this system has what it takes: Linux's handles of processes."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def named(trainable: type[PackTrainable] | None) -> str:
    """Return a trainable as another process finds it: workers have its imports done. Of others they do their own."""
    if trainable is None or trainable.__module__ == "__main__" or "<locals>" in trainable.__qualname__:
        return _UNPREPARED
    return f"{trainable.__module__}:{trainable.__qualname__}"
