"""What Ray runs for a worker on this machine: asks the fork server for one that has its imports done, and waits for it.

Nothing is imported here that takes time. Where no fork server answers, this process becomes the worker.
"""

from __future__ import annotations

import os
import sys

SOCKET = "TUNE_VFL_FORK_SERVER"
WORKER = "TUNE_VFL_RAY_WORKER"
TRAINABLE = "TUNE_VFL_TRAINABLE"
REFUSED = 255


def forked() -> int | None:
    """Let a fork be the worker and wait for its end; return its exit code, or None where none could be had."""
    import json
    import socket

    place = os.environ.get(SOCKET)
    if not place:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.connect(place)
            with open("/proc/self/oom_score_adj", encoding="ascii") as own:  # noqa: PTH123 - pathlib takes long
                oom_score_adj = own.read()
            asked = {
                "worker": os.environ[WORKER],
                "arguments": sys.argv,
                "environment": dict(os.environ),
                "folder": os.getcwd(),  # noqa: PTH109
                "oom_score_adj": oom_score_adj,
            }
            socket.send_fds(server, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
        except OSError:
            return None
        answer = server.recv(1)
    if not answer:  # the server is gone, and all of its forks with it
        return 1
    return None if answer[0] == REFUSED else answer[0]


def main() -> None:
    """Be the worker, or wait for the one that is."""
    code = forked()
    if code is not None:
        os._exit(code)
    import runpy

    runpy.run_path(os.environ[WORKER], run_name="__main__")


if __name__ == "__main__":
    main()
