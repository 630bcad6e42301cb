"""What other machines can reach of this user's Ray and MLflow, and whether a stranger is answered."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import grpc
import pytest

from tune_vfl.service import open_doors
from tune_vfl.service.open_doors import Listener, examine_doors, kind_of, listeners, outward_address

ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[]" if self.path == "/api/jobs/" else b"<html>")

    def log_message(self, *_):
        """Stay quiet."""


@pytest.fixture
def page():
    """A server that answers everybody, as a dashboard without a token and an MLflow do."""
    server = HTTPServer(("127.0.0.1", 0), _Page)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


class _Head(grpc.GenericRpcHandler):
    def __init__(self, *, wants_token):
        self._wants_token = wants_token

    def service(self, call):
        if call.method != ALIVE:
            return None
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, _request, context):
        if self._wants_token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "token")
        return b""


@pytest.fixture
def head(request):
    """What asks a Ray's head for its nodes gets an answer, or is told to bring a token."""
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([_Head(wants_token=request.param)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


@pytest.fixture
def seen(monkeypatch):
    """Let the doctor find these listeners, at an address that is reached in this test."""

    def found(*doors):
        monkeypatch.setattr(open_doors, "listeners", lambda: iter(doors))
        monkeypatch.setattr(open_doors, "outward_address", lambda: "127.0.0.1")
        return [(check.status, check.detail) for check in examine_doors()]

    return found


@pytest.mark.parametrize("head", [False], indirect=True)
def test_a_head_that_answers_a_stranger_is_a_finding(seen, head):
    ((status, detail),) = seen(Listener("gcs", 1, "::", head), Listener("ray", 1, "::", 7))
    assert status == "finding"
    assert f"{head} answers other machines without a token" in detail


@pytest.mark.parametrize("head", [True], indirect=True)
def test_a_head_that_wants_a_token_is_not(seen, head):
    ((status, detail),) = seen(Listener("gcs", 1, "::", head))
    assert (status, "want a token" in detail) == ("ok", True)


def test_a_dashboard_and_an_mlflow_that_answer_a_stranger_are_findings(seen, page):
    both = seen(Listener("dashboard", 1, "::", page), Listener("mlflow", 2, "::", page))
    assert [status for status, _ in both] == ["finding", "finding"]
    assert f"MLflow answers other machines at 127.0.0.1:{page}" in both[1][1]


def test_what_listens_on_loopback_is_nobody_s_business(seen, page):
    ((status, detail),) = seen(Listener("dashboard", 1, "127.0.0.1", page), Listener("mlflow", 2, "::1", page))
    assert (status, "on loopback" in detail) == ("ok", True)
    assert seen() == [("ok", "no Ray and no MLflow of yours runs here")]


def test_programs_are_known_by_their_command_lines():
    python = "/usr/bin/python3"
    assert kind_of(["/x/ray/core/src/ray/gcs/gcs_server", "--log_dir=/tmp"]) == "gcs"
    assert kind_of([python, "/x/ray/dashboard/dashboard.py", "--host=0.0.0.0"]) == "dashboard"
    assert kind_of(["ray::DashboardAgent"]) == kind_of(["/x/raylet", "--port"]) == "ray"
    assert kind_of([python, "-m", "mlflow", "ui", "--host", "127.0.0.1"]) == "mlflow"
    assert kind_of([python, "-m", "uvicorn", "mlflow.server.fastapi_app:app"]) == "mlflow"
    assert [kind_of(words) for words in (["vim", "/x/ray/notes.md"], [""], [python, "train_mlflow.py"])] == [None] * 3


def test_sockets_are_read_as_the_kernel_writes_them(tmp_path):
    head = "  sl  local_address rem_address st\n"
    row = "   0: {}:{:04X} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 {} 1\n"
    rows = [row.format("0100007F", 8265, "0A", 11), row.format("00000000", 6379, "0A", 12)]
    rows.append(row.format("0100007F", 5000, "01", 13))  # a connection, not a door
    wide = [row.format("00000000000000000000000000000000", 80, "0A", 14)]
    wide.append(row.format("0000000000000000FFFF00000100007F", 81, "0A", 15))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(head + "".join(rows))
    (tmp_path / "net" / "tcp6").write_text(head + "".join(wide))
    process = tmp_path / "42"
    (process / "fd").mkdir(parents=True)
    (process / "cmdline").write_bytes(b"/x/gcs_server\0--port=1\0")
    for inode in range(11, 16):
        (process / "fd" / str(inode)).symlink_to(f"socket:[{inode}]")
    found = {(door.host, door.port) for door in listeners(tmp_path)}
    assert found == {("127.0.0.1", 8265), ("0.0.0.0", 6379), ("::", 80), ("127.0.0.1", 81)}  # noqa: S104
    assert {door.port for door in listeners(tmp_path) if door.is_open} == {6379, 80}


def test_the_address_that_others_see_is_one_of_this_machine_or_none():
    address = outward_address()
    if address is not None:
        with socket.socket() as own:
            own.bind((address, 0))
