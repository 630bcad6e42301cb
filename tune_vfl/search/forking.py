"""Workers of a Ray on this machine, forked from one process that has done their imports."""

from __future__ import annotations

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
    from trainables.base import PackTrainable

# How many workers may ask for a fork while it is still importing.
_BACKLOG = 64
_UNPREPARED = "trainables.base:PackTrainable"


class ForkServer:
    """A running :mod:`trainables.fork_server`; it ends with this process at the latest.

    Args:
        trainable: what its forks are prepared for; others import what they need.

    Attributes:
        environment: what Ray's workers must have in their environment.
        worker_path: what Ray must run as its worker.
    """

    def __init__(self, trainable: type[PackTrainable] | None) -> None:
        from ray._private.workers import __path__ as workers

        self._folder = tempfile.mkdtemp(prefix="tune-vfl-fork-")
        place = str(Path(self._folder) / "door")
        self.worker_path = forked.__file__
        self.environment = {forked.SOCKET: place, forked.WORKER: str(Path(workers[0]) / "default_worker.py")}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(place)
            door.listen(_BACKLOG)
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [sys.executable, "-P", "-m", "trainables.fork_server", str(door.fileno()), *_named(trainable)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[door.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C on a terminal is for the driver
            )

    def close(self) -> None:
        """End it, with all that it has forked."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def can_fork() -> bool:
    """Whether this system has what it takes: Linux's handles of processes."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _named(trainable: type[PackTrainable] | None) -> list[str]:
    """Return the trainable as another process finds it, and what it imports."""
    if trainable is None or trainable.__module__ == "__main__" or "<locals>" in trainable.__qualname__:
        return [_UNPREPARED]
    return [f"{trainable.__module__}:{trainable.__qualname__}", *trainable.imports]
