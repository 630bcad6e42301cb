"""The token goes to a dashboard that is the cluster's, and to nothing else that answers at its address."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tune_vfl.cluster import own_ports
from tune_vfl.cluster.dashboard import ask
from tune_vfl.cluster.own_ports import refuse_strangers
from tune_vfl.errors import UnreachableError
from tune_vfl.service.ray_cluster import examine_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Run

TOKEN = "0123456789abcdef"  # noqa: S105 - of no cluster


class Listening(BaseHTTPRequestHandler):
    """Takes every token, and wants one, as a listener at the dashboard's port may."""

    heard: list[str | None]

    def do_GET(self) -> None:
        given = self.headers["Authorization"]
        self.heard.append(given)
        self.send_response(200 if given else 401)
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def heard() -> list[str | None]:
    return []


@pytest.fixture
def address(heard: list[str | None], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What listens where the dashboard is expected."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Told", (Listening,), {"heard": heard})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("verb", [("jobs", "list"), ("pull", "x"), ("jobs", "stop", "x"), ("submit",)])
def test_another_users_listener_hears_no_token(
    verb: tuple[str, ...], address: str, heard: list[str | None], run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(own_ports.os, "getuid", lambda: 12345)
    spec = tmp_path / "s.yaml"
    spec.write_text("{study: s, dataset: wine, defense: laplace, attacks: [pmc]}")
    code, out, err = run(*verb, *([spec] if verb == ("submit",) else []), "--cluster", address)
    assert (code, out) == (4, "")
    assert f"the token is not sent to {address}" in err
    assert "not a process of yours" in err
    (check,) = examine_cluster(address)
    assert (check.status, "is not sent" in check.detail) == ("finding", True)
    assert set(heard) <= {None}


def test_ones_own_forward_may_have_it(address: str) -> None:
    refuse_strangers(address)
    refuse_strangers(address.replace("127.0.0.1", "localhost"))
    assert ask(address, TOKEN) == "open"


def test_where_nothing_listens_nothing_is_refused() -> None:
    refuse_strangers("http://127.0.0.1:9")


def test_another_machine_proves_itself_by_its_certificate_or_is_named() -> None:
    refuse_strangers("https://head.example:8265")
    refuse_strangers("http://head.example:8265", named=True)
    with pytest.raises(UnreachableError, match=r"without https nothing proves.*kubectl port-forward.*token_file"):
        refuse_strangers("http://head.example:8265")


def test_a_name_in_clusters_yaml_proves_nothing_here(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_ports.os, "getuid", lambda: 12345)
    with pytest.raises(UnreachableError, match="not a process of yours"):
        refuse_strangers(address, named=True)


def test_an_answer_that_leads_elsewhere_is_not_followed(address: str, heard: list[str | None]) -> None:
    class Leading(Listening):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{address}/api/jobs/")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Leading) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert ask(f"http://127.0.0.1:{server.server_port}", TOKEN) == "other"
        thread.join()
    assert heard == []
