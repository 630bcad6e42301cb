"""A process that has done a worker's imports, from which Ray's workers on this machine are forked.

A worker's own imports, torch and Ray above all, take some three seconds of a core, and a search starts four workers or
more. Ray starts each with the command of :mod:`trainables.forked`, which asks here for a fork of its own, and imports
all by itself where nobody answers. Linux only.

``python -m trainables.fork_server HANDLE MODULE...`` listens at the Unix socket that it was given, until its standard
input ends, which is the driver's end too. The modules are imported at once. Ray, and the
:class:`trainables.base.PackTrainable` that workers run, are imported once the driver is connected, or else when the
first worker asks, in its environment: it says which class it is, and Ray's core reads there, as it is imported, to whom
it belongs. A driver that has imported some of it and has done nothing else yet forks this process off itself.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
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
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from trainables.forked import REFUSED, TRAINABLE

PR_SET_PDEATHSIG = 1
# Arguments and environment of a worker, as JSON; the environment of a process is a few thousand bytes.
MOST_BYTES = 2**20
# What Ray's core reads when it is imported: a worker with another one of these cannot be forked from here.
BELONGS_TO = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_AUTH_MODE")
# Standard input, which ends with the driver.
_DRIVER = 0
# The handle of the socket in a fork of the driver: the first behind those that every process has.
_DOOR = 3
# How often a Python that was just started looks for garbage.
_USUAL_THRESHOLD = (700, 10, 10)


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
    """Be the server, in a process of its own."""
    handle, *modules = sys.argv[1:]
    serve(int(handle), modules)


def instead_of_driver(handle: int, driver: int, modules: Sequence[str]) -> NoReturn:
    """Be the server in a fork of the driver, where nothing goes on of what the driver was about to do.

    Its signals are blocked, so that none of them is answered here as the driver would.

    Args:
        handle: of the socket to listen at.
        driver: of what ends with the driver.
        modules: to import.
    """
    code = 1
    try:
        _leave_driver(handle, driver)
        serve(_DOOR, modules)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:  # as a process of its own ends, but without coming back to what the driver was in
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _leave_driver(handle: int, driver: int) -> None:
    """Be as a process that was just started, but for what is imported, and what that wants done at a process's end."""
    os.setsid()  # Ctrl-C on a terminal is for the driver
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    nowhere = os.open(os.devnull, os.O_RDWR)
    handles = [fcntl.fcntl(one, fcntl.F_DUPFD, _DOOR + 1) for one in (driver, nowhere, nowhere, handle)]
    for place, one in enumerate(handles):
        os.dup2(one, place)
    os.closerange(_DOOR + 1, os.sysconf("SC_OPEN_MAX"))
    sys.argv = [__name__]
    # New ones: those of the driver may hold what it has yet to print, or be what a library has put there.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    gc.set_threshold(*_USUAL_THRESHOLD)
    with suppress(OSError):
        Path("/proc/self/comm").write_text("fork_server", encoding="ascii")


def serve(handle: int, modules: Sequence[str]) -> None:
    """Import, listen, and fork whenever somebody asks.

    Args:
        handle: of the socket to listen at.
        modules: to import.
    """
    gc.disable()  # what is imported stays: there is nothing to collect before the first fork
    with socket.socket(fileno=handle) as door:
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
        self._waiting.register(_DRIVER, selectors.EVENT_READ, "driver")

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
    with suppress(Exception):  # another version of Ray; a fork of the driver is called as the driver is till now
        importlib.import_module("ray._raylet").setproctitle("tune-vfl fork_server")

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
