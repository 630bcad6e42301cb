"""What other machines can reach of this user's Ray and MLflow, and whether a stranger is answered."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import grpc
import pytest

from tune_vfl.machine import web
from tune_vfl.service import open_doors, ray_cluster
from tune_vfl.service.open_doors import Door, doors, examine_doors, kind_of, outward_address
from tune_vfl.service.ray_cluster import examine_cluster

SERVER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1])
    input()
"""
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


told = []  # what a head has heard beside the questions


class _Head(grpc.GenericRpcHandler):
    def __init__(self, *, wants_token):
        self._wants_token = wants_token

    def service(self, call):
        told.append(dict(call.invocation_metadata))
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
    """Let the doctor find these doors, at an address that is reached in this test."""

    def found(*doors):
        monkeypatch.setattr(open_doors, "doors", lambda: iter(doors))
        monkeypatch.setattr(open_doors, "outward_address", lambda: "127.0.0.1")
        return [(check.status, check.detail) for check in examine_doors()]

    return found


@pytest.mark.parametrize("head", [False], indirect=True)
def test_a_head_that_answers_a_stranger_is_a_finding(seen, head):
    ((status, detail),) = seen(Door("gcs", "::", head), Door("ray", "::", 7))
    assert status == "finding"
    assert f"{head} answers other machines without a token" in detail


@pytest.mark.parametrize("head", [True], indirect=True)
def test_a_head_that_wants_a_token_is_not(seen, head):
    ((status, detail),) = seen(Door("gcs", "::", head))
    assert (status, "want a token" in detail) == ("ok", True)


@pytest.mark.parametrize("head", [True], indirect=True)
def test_no_head_is_told_the_token(head, monkeypatch):
    """gRPC proves of nobody who that is, so the doctor asks the dashboard alone, where it may."""
    told.clear()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a-token")
    (check,) = examine_cluster(f"127.0.0.1:{head}")
    assert (check.status, "set RAY_ADDRESS to its dashboard" in check.detail) == ("ok", True)
    monkeypatch.setattr(web, "ACCEPT_SECONDS", 0.1)
    monkeypatch.setattr(web.os, "getuid", lambda: 12345)
    (check,) = examine_cluster(f"127.0.0.1:{head}")
    assert (check.status, "not a process of yours" in check.detail) == ("finding", True)
    assert len(told) == 2
    assert "a-token" not in str(told)


@pytest.mark.parametrize("head", [True], indirect=True)
def test_auto_is_a_head_of_ones_own_whatever_a_file_of_ray_s_says(head, monkeypatch):
    found = [Door("gcs", "0.0.0.0", head), Door("dashboard", "::1", 9)]  # noqa: S104
    monkeypatch.setattr(ray_cluster, "doors", lambda: iter(found))
    (check,) = examine_cluster("auto")
    assert (check.status, f"127.0.0.1:{head} wants a token" in check.detail) == ("ok", True)
    found.clear()
    (check,) = examine_cluster("auto")
    assert (check.status, "no Ray head of yours" in check.detail) == ("unreachable", True)


def test_what_is_no_head_is_told_apart(page):
    assert [check.status for check in examine_cluster(f"127.0.0.1:{page}")] == ["unreachable"]


def test_a_dashboard_and_an_mlflow_that_answer_a_stranger_are_findings(seen, page):
    both = seen(Door("dashboard", "::", page), Door("mlflow", "::", page))
    assert [status for status, _ in both] == ["finding", "finding"]
    assert f"MLflow answers other machines at 127.0.0.1:{page}" in both[1][1]
    several = [Door("mlflow", "::", page)] * 4  # the processes of one server share its socket
    assert len(seen(*several)) == 1


def test_what_listens_on_loopback_is_nobody_s_business(seen, page):
    ((status, detail),) = seen(Door("dashboard", "127.0.0.1", page), Door("mlflow", "::1", page))
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


def test_the_sockets_of_a_program_are_found_and_those_of_others_are_not(tmp_path):
    program = tmp_path / "gcs_server"
    program.write_text(SERVER)
    words, pipes = [program, "-u", program], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        subprocess.Popen(words, executable=sys.executable, **pipes) as head,
    ):
        port = int(head.stdout.readline())
        found = {door.port: door for door in doors()}
        head.communicate("\n")
        assert other.getsockname()[1] not in found
    assert found[port] == Door("gcs", "127.0.0.1", port)


def test_a_mapped_loopback_is_closed():
    hosts = {host: Door("ray", host, 1).is_open for host in ("::ffff:127.0.0.1", "::1", "::", "0.0.0.0")}  # noqa: S104
    assert hosts == {"::ffff:127.0.0.1": False, "::1": False, "::": True, "0.0.0.0": True}  # noqa: S104


def test_the_address_that_others_see_is_one_of_this_machine_or_none():
    address = outward_address()
    if address is not None:
        with socket.socket() as own:
            own.bind((address, 0))
