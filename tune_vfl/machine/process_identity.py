"""The identity of a process, from which another one can tell later whether it still runs.

A process is known by its number and its start, in ticks since a boot that has an id of its own: both stay the same when
the clock is set, which moves the start times that psutil gives. A number means something within its namespace only:
processes of another container are not seen from here.
"""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tune_vfl.machine import children

_OPEN_SESSIONS: set[str] = set()


def new_session() -> str:
    """Return an id for one run of a search in this process, counted as living until :func:`end_session`."""
    session = uuid.uuid4().hex
    _OPEN_SESSIONS.add(session)
    return session


def end_session(session: str) -> None:
    """Mark a session as over: what it left running is an orphan."""
    _OPEN_SESSIONS.discard(session)


def this_owner(session: str) -> dict[str, Any]:
    """Return the owner of what ``session`` asks from now on."""
    return {**_here(), "pid": os.getpid(), "start": _start_of(os.getpid()), "session": session}


def has_ended(owner: Mapping[str, Any]) -> bool:
    """Return whether the owner's run of a search is known to be over.

    Of another machine, of another container, or of a time before this machine was last started nothing is known from
    here, and the answer is False.
    """
    if any(owner.get(key) != value for key, value in _here().items()):
        return False
    pid = int(owner.get("pid", -1))
    if pid == os.getpid():
        return owner.get("session") not in _OPEN_SESSIONS
    start = _start_of(pid)
    return start is None or start != owner.get("start")


@cache
def boot_id() -> str:
    """Return what names the time since this machine was started: another one after each start."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _answer_of("sysctl", "-n", "kern.bootsessionuuid")


def _here() -> dict[str, str]:
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return {"host": platform.node(), "boot": boot_id(), "namespace": namespace}


def _start_of(pid: int) -> str | None:
    # The start tells a process from a later one with the same number. A zombie has ended: nobody has collected it yet.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _answer_of("ps", "-o", "lstart=", "-p", str(pid)) or None
    return None if fields[0] in "ZX" else f"{boot_id()}:{fields[19]}"


def _answer_of(*command: str) -> str:
    try:
        return children.run(command, seconds=10)[1].strip()
    except OSError:
        return ""
