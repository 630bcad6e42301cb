"""A dashboard that answers the questions of Ray's state API, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from tune_vfl.cluster.relay import Relay
from tune_vfl.machine.web import WebServer


def listing(*rows: dict[str, Any]) -> bytes:
    """Return an answer that lists these."""
    counts = dict.fromkeys(("total", "num_after_truncation", "num_filtered"), len(rows))
    result = {**counts, "result": list(rows), "partial_failure_warning": "", "warnings": None}
    return json.dumps({"result": True, "msg": "", "data": {"result": result}}).encode()


@contextmanager
def cluster(kind: str, answer: bytes) -> Iterator[Relay]:
    """Serve a cluster that gives this answer for one kind of states, and 404 for others."""

    class Dashboard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.partition("?")[0] == f"/api/v0/{kind}"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(answer if known else b"404: Not Found")

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        relay = Relay(WebServer(f"http://127.0.0.1:{server.server_port}"))
        try:
            yield relay
        finally:
            relay.close()
            server.shutdown()
