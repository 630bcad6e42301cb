"""Programs that begin at once: forked from one that has imported what searches need.

That takes four seconds of a core, and is done once for the tests of a process.

Each is a process and a session of its own, that is killed, stopped and interrupted as any other; what its standard
streams say and how it ends is read as from a :class:`subprocess.Popen`. The process that they are forked from has no
Ray, no thread and no file open, and ends with the tests that started it.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 2**20  # of what is asked, with an environment


class Program:
    """A forked program; the part of ``subprocess.Popen`` that tests need.

    Args:
        streams: where its stdout, its stderr, and its number and exit code are read.
    """

    def __init__(self, streams: Sequence[int]) -> None:
        self.stdout, self.stderr, self._told = (os.fdopen(end, encoding="utf-8") for end in streams)
        self.pid = int(self._told.readline())
        self._readers = ThreadPoolExecutor(3)
        self._code: Future[str] = self._readers.submit(self._told.readline)
        self._said: list[Future[str]] = []

    @property
    def returncode(self) -> int:
        """Its exit code, or minus the signal that ended it; waits for its end."""
        return int(self._code.result())

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self.returncode if self._code.done() else None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return what it said on stdout and stderr."""
        self._said = self._said or [self._readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
        if wait([*self._said, self._code], timeout).not_done:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        self._readers.shutdown()
        for stream in (self.stdout, self.stderr, self._told):
            stream.close()
        out, err = (said.result() for said in self._said)
        return out, err


def start(module: str | None, code: str, arguments: Sequence[str], *, cwd: Path, env: dict[str, str]) -> Program:
    """Start a program in a session of its own.

    Args:
        module: run as with ``python -m``; None runs the code.
        code: a program's text.
        arguments: what it finds in ``sys.argv``.
        cwd: where it begins.
        env: its whole environment.
    """
    door, _ = _prepared()
    pipes = [os.pipe() for _ in range(3)]
    asked = {"module": module, "code": code, "arguments": list(arguments), "cwd": str(cwd), "env": env}
    socket.send_fds(door, [json.dumps(asked).encode()], [writing for _, writing in pipes])
    for _, writing in pipes:
        os.close(writing)
    return Program([reading for reading, _ in pipes])


@cache
def _prepared() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start what programs are forked from, once for the tests of this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.ready", str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()
    return ours, process


def _serve(door: socket.socket) -> None:
    """Fork what is asked for, until nobody can ask any more."""
    import mlflow  # noqa: F401

    import tests.faults.driver  # noqa: F401
    import tune_vfl.confirmation.run  # noqa: F401

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, streams, _, _ = socket.recv_fds(door, MOST_BYTES, 3)
        if not asked:
            return
        if os.fork() == 0:
            _watch(json.loads(asked), streams)
        for stream in streams:
            os.close(stream)


def _watch(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Fork the program, tell its number, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out, err, told = streams
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _become(asked, out, err)
    os.close(out)
    os.close(err)
    os.write(told, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(asked: dict[str, Any], out: int, err: int) -> NoReturn:
    """Be the program, to its end."""
    os.setsid()
    for end, stream in ((out, 1), (err, 2)):
        os.dup2(end, stream)
        os.close(end)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = ["-c", *asked["arguments"]]
    code = 1
    try:
        if asked["module"]:
            runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        else:
            exec(asked["code"], {"__name__": "__main__"})  # noqa: S102 - a test's own program
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
