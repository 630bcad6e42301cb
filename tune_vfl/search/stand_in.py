"""Stands for an agent of Ray's, and becomes it as soon as somebody calls.

``python -I -S stand_in.py FILE ADDRESS COMMAND...`` listens at a port of the address and writes which one it is to the
file. The command is the agent's, which is given the same port; who has called calls again, as Ray does. Without
arguments nobody ever calls. Linux only: it ends with the process that has started it.
"""

import ctypes
import os
import select
import signal
import socket
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Wait, and become the agent."""
    # Who has started it may be gone by now, and somebody else the parent: Ray says who it was.
    parent = int(os.environ.get("RAY_RAYLET_PID") or os.getppid())
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    if len(sys.argv) == 1:
        while True:
            signal.pause()
    file, address, *command = sys.argv[1:]
    family, _, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.bind(place)
        door.listen()
        port = door.getsockname()[1]
        draft = Path(f"{file}.draft")
        draft.write_text(str(port), encoding="ascii")
        draft.replace(file)
        select.select([door], [], [])
    os.execv(command[0], [*command, f"--runtime-env-agent-port={port}"])  # noqa: S606 - Ray's own words


if __name__ == "__main__":
    main()
