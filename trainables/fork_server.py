"""A process that has done a worker's imports, from which Ray's workers on this machine are forked.

A worker's own imports, torch and Ray above all, take some three seconds of a core, and a search starts four workers or
more. Ray starts each with the command of :mod:`trainables.forked`, which asks here for a fork of its own, and imports
all by itself where nobody answers. Linux only.

``python -m trainables.fork_server HANDLE MODULE...`` listens at the Unix socket that it was given, until its standard
input ends, which is the driver's end too. The modules are imported at once. Ray, and the
:class:`trainables.base.PackTrainable` that workers run, are imported once the driver is connected, or else when the
first worker asks, in its environment: it says which class it is, and Ray's core reads there, as it is imported, to whom
it belongs.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trainables.forked import REFUSED, TRAINABLE

PR_SET_PDEATHSIG = 1
# Arguments and environment of a worker, as JSON; the environment of a process is a few thousand bytes.
MOST_BYTES = 2**20
# What Ray's core reads when it is imported: a worker with another one of these cannot be forked from here.
BELONGS_TO = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_AUTH_MODE")


class Asked(NamedTuple):
    """What a worker is to be.

    Attributes:
        caller: the connection on which its end is told.
        handles: standard input, output and error.
        environment, folder, arguments, worker, oom_score_adj: those of the process that Ray has started. No worker:
            there will be some of this environment, and what they import is to be imported before.
    """

    caller: socket.socket
    handles: list[int]
    environment: dict[str, str]
    folder: str
    arguments: list[str]
    worker: str
    oom_score_adj: str

    @property
    def belongs_to(self) -> list[str | None]:
        """Whose worker it is."""
        return [self.environment.get(name) for name in BELONGS_TO]


def main() -> None:
    """Import, listen, and fork whenever somebody asks."""
    handle, *modules = sys.argv[1:]
    gc.disable()  # what is imported stays: there is nothing to collect before the first fork
    with socket.socket(fileno=int(handle)) as door:
        for module in modules:
            importlib.import_module(module)
        place = Path(door.getsockname())
        asked = Server(door).serve()
    if asked is not None:
        _become(asked)
    shutil.rmtree(place.parent, ignore_errors=True)


class Server:
    """Forks until standard input ends.

    Args:
        door: where workers ask.
    """

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._belongs_to: list[str | None] | None = None
        self._children: dict[int, tuple[int, socket.socket]] = {}
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(door, selectors.EVENT_READ, "door")
        self._waiting.register(sys.stdin.fileno(), selectors.EVENT_READ, "driver")

    def serve(self) -> Asked | None:
        """Return what a fork is to become, in the fork; None in this process."""
        while True:
            for key, _ in self._waiting.select():
                if key.data == "driver":
                    return None
                if key.data == "door":
                    asked = _read(self._door.accept()[0])
                    if asked is not None and self._fork(asked):
                        return asked
                elif key.data == "child" and key.fd in self._children:
                    self._bury(key.fd)
                elif key.data in self._children:  # Ray has ended the process that it takes for its worker
                    with suppress(ProcessLookupError):
                        os.kill(self._children[key.data][0], signal.SIGKILL)
                    self._bury(key.data)

    def _fork(self, asked: Asked) -> bool:
        """Fork; return whether this is the fork."""
        if self._belongs_to is None:
            self._belongs_to = asked.belongs_to
            _set_environment(asked)
            prepare(asked.environment[TRAINABLE])
        if not asked.worker:
            asked.caller.close()
            return False
        pid = os.fork() if asked.belongs_to == self._belongs_to else None
        if pid == 0:
            self._waiting.close()
            for handle, (_, caller) in self._children.items():
                os.close(handle)
                caller.close()
            asked.caller.close()
            return True
        for handle in asked.handles:
            os.close(handle)
        if pid is None:
            _answer(asked.caller, REFUSED)
            return False
        ended = os.pidfd_open(pid)
        self._children[ended] = pid, asked.caller
        self._waiting.register(ended, selectors.EVENT_READ, "child")
        self._waiting.register(asked.caller, selectors.EVENT_READ, ended)
        return False

    def _bury(self, ended: int) -> None:
        """Hear how a fork ended, and let the process that asked for it end in the same way."""
        pid, caller = self._children.pop(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._waiting.unregister(ended)
        self._waiting.unregister(caller)
        os.close(ended)
        _answer(caller, code if 0 <= code < REFUSED else 128 + abs(code) % 64)


def prepare(trainable: str) -> None:
    """Import what Ray's workers need, and those of a trainable: ``module:class``."""
    importlib.import_module("ray._private.workers.default_worker")

    module, _, name = trainable.partition(":")
    getattr(importlib.import_module(module), name).prepare_worker()
    # What is there now stays, and its pages stay shared: Python's collector would write to all of them.
    gc.freeze()


def _answer(caller: socket.socket, code: int) -> None:
    with suppress(OSError):
        caller.sendall(bytes([code]))
    caller.close()


def _read(caller: socket.socket) -> Asked | None:
    """Return what a worker is to be; None where who asked has gone."""
    caller.settimeout(10)
    with suppress(OSError, ValueError):
        content, handles, _, _ = socket.recv_fds(caller, MOST_BYTES, 3)
        while content and not content.endswith(b"\n"):
            more = caller.recv(MOST_BYTES)
            content = content + more if more else b""
        caller.settimeout(None)
        return Asked(caller, handles, **json.loads(content))
    caller.close()
    return None


def _set_environment(asked: Asked) -> None:
    os.environ.clear()
    os.environ.update(asked.environment)
    os.chdir(asked.folder)


def _become(asked: Asked) -> None:
    """Be the worker that Ray asked for; does not come back."""
    os.setpgid(0, 0)  # with a worker Ray ends its process group
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for place, handle in enumerate(asked.handles):
        os.dup2(handle, place)
        os.close(handle)
    _set_environment(asked)
    gc.enable()
    with suppress(OSError):  # which process the kernel ends first when memory runs out is Ray's to say
        Path("/proc/self/oom_score_adj").write_text(asked.oom_score_adj, encoding="ascii")
    sys.argv = asked.arguments
    runpy.run_path(asked.worker, run_name="__main__")


if __name__ == "__main__":
    main()
