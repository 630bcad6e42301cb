"""The MLflow UI: on loopback, on a port that is free, and gone with what it started."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tune_vfl.errors import TuneVflError, UsageError
from tune_vfl.tracking import ui


def test_the_ui_listens_on_loopback_only():
    words = ui.command(5001)
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert words[words.index("--port") + 1] == "5001"
    with pytest.raises(UsageError, match=r"http://me@server:5000 is a .* has its own UI") as refused:
        ui.store_of("http://me:secret@server:5000")
    assert "secret" not in str(refused.value)


def test_the_server_finds_a_database_whatever_folder_it_starts_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ui.store_of("sqlite:///x.db") == f"sqlite:///{tmp_path}/x.db"
    assert ui.store_of("mlruns") == (tmp_path / "mlruns").as_uri()
    assert ui.store_of("postgresql://u:p@h/d") == "postgresql://u:p@h/d"


def test_a_taken_port_is_said_to_be_taken(home):
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
    code = "import sys; from tune_vfl.tracking.ui import _run as f; f([sys.executable, '-c', *sys.argv[1:]], {}, id)"
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


CLOSED = [
    "/",
    "/ajax-api/2.0/mlflow/experiments/search?max_results=5",
    "/ajax-api/3.0/mlflow/assistant/config",
    "/get-artifact?path=x&run_uuid=y",
    "/openapi.json",
    "/graphql",
    "/ajax-api/3.0/jobs/x",
]


def status(url, method="GET", user=None, password=None):
    asked = urllib.request.Request(url, method=method, data=b"{}" if method == "POST" else None)  # noqa: S310 - http
    asked.add_header("Content-Type", "application/json")
    if user:
        asked.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def answer(url, user, password, body=None):
    asked = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode())  # noqa: S310 - http
    asked.add_header("Content-Type", "application/json")
    asked.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as reply:
        return reply.read().decode()


def test_the_ui_answers_its_user_alone(home, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import sys; from tune_vfl.cli.main import main; sys.exit(main(['ui', '--port', sys.argv[1]]))"
    environment = os.environ | {"TUNE_VFL_HOME": str(home), "TMPDIR": str(tmp_path)}
    ours = subprocess.Popen(
        [sys.executable, "-c", code, str(port)], env=environment, stderr=subprocess.PIPE, text=True, umask=0
    )
    try:
        link = next(found for line in ours.stderr if (found := re.search(r"http://(\S+):(\S+)@(127\S+)/", line)))
        user, password, place = link.groups()
        assert re.fullmatch(rf"127\.0\.0\.1:{port}/[\w-]{{22}}", place), "a path that no page of another port knows"
        url = f"http://{place}"
        assert {path: status(url + path) for path in CLOSED} == dict.fromkeys(CLOSED, 401)
        bare = f"http://127.0.0.1:{port}"
        assert {status(bare + path, user=user, password=password) for path in CLOSED} == {404}
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        hidden = (password, place.partition("/")[2], str(home))
        assert [
            words for words in running.splitlines() if "mlflow" in words and any(map(words.__contains__, hidden))
        ] == []
        asked = {"message": "run id", "context": {}}
        begun = answer(f"{url}/ajax-api/3.0/mlflow/assistant/message", user, password, asked)
        said = answer(bare + json.loads(begun)["stream_url"], user, password)
        assert "sandbox" in said, "the assistant runs nothing on this machine"
        assert status(f"{url}/ajax-api/3.0/mlflow/assistant/message", "POST") == 401
        assert status(url, user=user, password="wrong") == 401  # noqa: S106 - none
        assert [status(url + path, user=user, password=password) for path in CLOSED[:2]] == [200, 200]
        (settings,) = tmp_path.glob("tune-vfl-ui-*")
        assert settings.stat().st_mode & 0o777 == 0o700
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "mlflow.db").stat().st_mode & 0o777 == 0o600
    finally:
        ours.terminate()
        ours.communicate(timeout=60)
    assert ours.returncode in {0, 143}
    assert not list(tmp_path.glob("tune-vfl-ui-*")), "the password and its folder are gone"
