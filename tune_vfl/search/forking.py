"""Workers of a Ray on this machine, forked from one process that has done their imports."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainables import forked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainables.base import PackTrainable

# How many workers may ask for a fork while it is still importing.
_BACKLOG = 64
_UNPREPARED = "trainables.base:PackTrainable"
REAL = ("trainables.cell:CellTrainable", "tune_vfl.evaluation.packs")
"""The trainable of every search and what it imports, by name: the class itself brings Ray Tune in."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""The environment of a worker: two processes of one thread each beat one with two threads."""
_EARLY: list[ForkServer] = []


class ForkServer:
    """A running :mod:`trainables.fork_server`; it ends with this process at the latest.

    Args:
        trainable: what its forks are prepared for; others import what they need.
        prepared: the same by name, in place of it.

    Attributes:
        prepared: what its forks are prepared for, by name.
        environment: what Ray's workers must have in their environment.
        worker_path: what Ray must run as its worker.
    """

    def __init__(self, trainable: type[PackTrainable] | None, prepared: Sequence[str] = ()) -> None:
        self.prepared = tuple(prepared or named(trainable))
        self._folder = tempfile.mkdtemp(prefix="tune-vfl-fork-")
        place = str(Path(self._folder) / "door")
        self.worker_path = forked.__file__
        self.environment = {forked.SOCKET: place, forked.WORKER: str(_rays_worker())}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(place)
            door.listen(_BACKLOG)
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [sys.executable, "-P", "-m", "trainables.fork_server", str(door.fileno()), *self.prepared],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[door.fileno()],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C on a terminal is for the driver
            )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it, with all that it has forked."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def begin_early() -> None:
    """Begin the imports of the workers of a Ray that this process is about to start, while it plans what they run.

    Nothing is begun for a cluster, or a Ray that runs; what is not used ends with this process.
    """
    running = sys.modules.get("ray")
    if _EARLY or os.environ.get("RAY_ADDRESS") or not can_fork() or (running and running.is_initialized()):
        return
    _EARLY.append(ForkServer(None, REAL))
    atexit.register(_end_early)


def early_one(trainable: type[PackTrainable] | None) -> ForkServer | None:
    """Return the server that was begun early for this trainable, whose owner is then who asks; None without one."""
    kept = [server for server in _EARLY if server.runs and server.prepared == named(trainable)]
    for server in kept:
        _EARLY.remove(server)
    _end_early()
    return kept[0] if kept else None


def _end_early() -> None:
    while _EARLY:
        _EARLY.pop().close()


def _rays_worker() -> Path:
    """Return what Ray runs as its worker, without the second that importing Ray takes."""
    found = importlib.util.find_spec("ray")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("ray")
    return Path(found.origin).parent / "_private" / "workers" / "default_worker.py"


def can_fork() -> bool:
    """Whether this system has what it takes: Linux's handles of processes."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def named(trainable: type[PackTrainable] | None) -> tuple[str, ...]:
    """Return the trainable as another process finds it, and what it imports."""
    if trainable is None or trainable.__module__ == "__main__" or "<locals>" in trainable.__qualname__:
        return (_UNPREPARED,)
    return (f"{trainable.__module__}:{trainable.__qualname__}", *trainable.imports)
