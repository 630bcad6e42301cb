"""The MLflow UI: on loopback, on a port that is free, and gone with what it started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tune_vfl.errors import TuneVflError, UsageError
from tune_vfl.tracking import ui


def test_the_ui_listens_on_loopback_only():
    words = ui.command("sqlite:///x.db", 5001)
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert words[words.index("--port") + 1] == "5001"
    with pytest.raises(UsageError, match="has its own UI"):
        ui.command("http://server:5000", 5001)


def test_a_taken_port_is_said_to_be_taken(home):
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(TuneVflError, match=f"port {port} on 127.0.0.1 is taken"):
            ui.serve(None, port)


def lives(pid):
    """Whether a process runs; one that ended and that nobody asked about does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()


def test_ending_the_ui_ends_what_it_started(tmp_path):
    child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    server = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]])"
    code = "import sys; from tune_vfl.tracking.ui import _run; sys.exit(_run([sys.executable, '-c', *sys.argv[1:]]))"
    note = tmp_path / "pid"
    ours = subprocess.Popen([sys.executable, "-c", code, server, str(note), child])
    deadline = time.monotonic() + 30
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    ours.terminate()
    assert ours.wait(10) == 0
    while lives(int(note.read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(int(note.read_text()))
