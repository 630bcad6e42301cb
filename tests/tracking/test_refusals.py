"""A tracking server that refuses is told apart from one that is silent, with its answer and what to do."""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.helpers.studies import made_up_study
from tune_vfl.errors import UnreachableError
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.service.health import tracking
from tune_vfl.tracking.mlflow import Recorder
from tune_vfl.tracking.refusals import explained
from tune_vfl.tracking.store import client


class Refusing:
    """A server that answers everything in one way."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        refusing = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(refusing.status)
                self.send_header("Content-Length", str(len(refusing.body)))
                self.end_headers()
                self.wfile.write(refusing.body)

            do_POST = do_GET  # noqa: N815 - as http.server names it

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(name="server")
def _server(home: object) -> Iterator[Refusing]:
    server = Refusing()
    yield server
    server.close()


def answer(code: str, message: str) -> bytes:
    return json.dumps({"error_code": code, "message": message}).encode()


REFUSED = {
    "no user": (401, b"Not authenticated", "401 Unauthorized: Not authenticated", "MLFLOW_TRACKING_USERNAME"),
    "no permission": (403, b"Permission denied", "403 Forbidden: Permission denied", "the right to write"),
    "another server": (404, b"<html>Not here</html>", "404 Not Found: Not here)", "correct MLFLOW_TRACKING_URI"),
    "a login page": (302, b"", "302 Found)", "correct MLFLOW_TRACKING_URI"),
    "a page": (200, b"<html>hello</html>", "200 OK: hello)", "correct MLFLOW_TRACKING_URI"),
    "a bad value": (
        400,
        answer("INVALID_PARAMETER_VALUE", "name is too long"),
        "400 Bad Request: INVALID_PARAMETER_VALUE: name is too long",
        "correct what it names",
    ),
    "too large": (413, b"", "413 ", "larger requests"),
    "busy": (429, b"", "429 Too Many Requests", "fewer searches"),
    "broken": (500, answer("INTERNAL_ERROR", "oops"), "500 Internal Server Error", "its log says more"),
    "starting": (503, b"", "503 Service Unavailable", "wait until it is ready"),
    "a full disk": (507, b"No room", "507 Insufficient Storage: No room", "make room on its disk"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "body", "said", "advice"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_said_with_the_answer_and_what_to_do(
    server: Refusing, status: int, body: bytes, said: str, advice: str
) -> None:
    server.status, server.body = status, body
    with pytest.raises(UnreachableError) as error:
        client(server.uri)
    told = str(error.value)
    assert told.startswith(f"MLflow at {server.uri} answers, but refuses ({said}")
    assert advice in told
    assert "does not answer" not in told
    assert "start it" not in told


def test_silence_is_another_sentence(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections and says nothing
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        uri = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=r"does not answer \(timed out\); start it, or unset"):
            client(uri)
    with pytest.raises(UnreachableError, match=r"does not answer \(Connection refused\); start it, or unset"):
        client(uri)


def test_an_error_of_another_kind_is_neither() -> None:
    assert explained(KeyError("x"), "http://h:5000") == "MLflow at http://h:5000 failed (KeyError: 'x')"
    assert "pw" not in explained(ConnectionRefusedError("no"), "http://me:pw@h:5000")


def test_a_search_goes_on_and_says_what_the_server_answered(
    server: Refusing, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.status, server.body = 403, b"Permission denied"
    study = made_up_study(4)
    recorder = Recorder("s", server.uri)
    with caplog.at_level(logging.WARNING):
        recorder.on_study(study)
        recorder.on_end()
    assert "403 Forbidden: Permission denied" in caplog.text
    assert "'tune-vfl doctor --repair' writes what is missing" in caplog.text
    with pytest.raises(UnreachableError, match="403 Forbidden"):
        recorder.sync(CampaignRecord.of(study))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    check = tracking()
    assert check.status == "unreachable"
    assert "403 Forbidden" in check.detail
