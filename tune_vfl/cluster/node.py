"""This machine's part in a cluster: a Ray that takes the place of the one it started before, and of no other.

``ray stop`` ends every Ray of a machine, searches that run on it by themselves among them. On machines of one's own
``cluster/local.yaml`` starts and stops nodes with this module instead:

    python -m tune_vfl.cluster.node start --head --port=6379    # what follows are options of `ray start`
    python -m tune_vfl.cluster.node stop
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tune_vfl.errors import TuneVflError, UsageError
from tune_vfl.ledger.process_identity import has_ended, new_session, this_owner

PATIENCE_SECONDS = 60.0
"""How long a Ray may take to come up, and to go."""

_UP = "Ray runtime started"


def main(arguments: list[str]) -> int:
    """Start, stop, or (inside the process that becomes Ray) run.

    Returns:
        The exit code.
    """
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    try:
        if verb == "run":
            run(rest)
        elif verb == "start":
            stop()
            start(rest)
        elif verb == "stop" and not rest:
            stop()
        else:
            raise UsageError("expected 'start' with options of `ray start`, or 'stop'")
    except TuneVflError as error:
        sys.stderr.write(f"tune-vfl: {error}\n")
        return error.exit_code
    return 0


def start(options: list[str]) -> None:
    """Start a Ray with these options of ``ray start``, and wait until it is up.

    Raises:
        TuneVflError: when it does not come up, with the end of what it said.
    """
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / f"{platform.node()}.log"
    with log.open("wb") as said:
        ray = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", "tune_vfl.cluster.node", "run", *options],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    end = time.monotonic() + PATIENCE_SECONDS
    while _UP not in log.read_text(encoding="utf-8", errors="replace"):
        if ray.poll() is not None or time.monotonic() > end:
            stop()
            last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise TuneVflError(f"Ray did not come up on {platform.node()}; {log} ends with:\n{last}")
        time.sleep(0.2)


def run(options: list[str]) -> None:
    """Become a Ray that stays with its process, so that its end is the end of all that it started."""
    _state().write_text(json.dumps(this_owner(new_session())), encoding="utf-8")
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--temp-dir={_folder() / 'ray'}"]
    os.execv(sys.executable, [*ray, *options])  # noqa: S606 - no shell


def stop() -> None:
    """End the Ray that :func:`start` started on this machine, if it still runs.

    Raises:
        TuneVflError: when it does not end.
    """
    owner = _held()
    if not owner or has_ended(owner):
        return
    # Where it was started on another machine that shares this folder, nothing is known of it and nothing is done.
    if owner.get("host") != platform.node():
        return
    os.kill(int(owner["pid"]), signal.SIGTERM)
    end = time.monotonic() + PATIENCE_SECONDS
    while not has_ended(owner):
        if time.monotonic() > end:
            raise TuneVflError(f"process {owner['pid']}, a Ray that was started before, does not end; end it by hand")
        time.sleep(0.2)


def _held() -> dict[str, Any]:
    try:
        held = json.loads(_state().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def _state() -> Path:
    return _folder() / f"{platform.node()}.json"


def _folder() -> Path:
    # Of this user alone: what Ray keeps in it, specs among it, is no business of others. Sockets need a short path.
    return Path.home() / ".tune-vfl-node"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
