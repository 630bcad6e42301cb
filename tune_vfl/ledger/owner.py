"""Which process asked a trial, written so that after a crash it can be seen whether that process still runs.

A process is known by its number and its start, in ticks since a boot that has an id of its own: both stay the same when
the clock is set, which moves the start times that psutil gives.
"""

from __future__ import annotations

import os
import platform
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    return {"host": platform.node(), "pid": os.getpid(), "start": _start_of(os.getpid()), "session": session}


def is_alive(owner: Mapping[str, Any] | None) -> bool:
    """Return whether the asker may still answer.

    On another host this cannot be seen and the answer is False: the caller holds the study's lock, which that process
    would hold if it lived.
    """
    if not owner or owner.get("host") != platform.node():
        return False
    pid = int(owner.get("pid", -1))
    if pid == os.getpid():
        return owner.get("session") in _OPEN_SESSIONS
    return _start_of(pid) is not None and _start_of(pid) == owner.get("start")


def _start_of(pid: int) -> str | None:
    # The start tells a process from a later one with the same number. A zombie has ended: nobody has collected it yet.
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _start_by_ps(pid)
    return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"


def _start_by_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return answer.stdout.strip() or None
