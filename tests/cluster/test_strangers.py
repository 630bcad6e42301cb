"""The token of a cluster goes to its dashboard, and to nothing else that answers at its address, or is told of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import ray

from tests.machine.test_web import NOT_OURS, TOKEN, Listening, Stranger, handler, heard, port_of, serving, stranger
from tune_vfl.cluster.admission import packs_by_job
from tune_vfl.cluster.dashboard import ask, dashboard_address, find_token
from tune_vfl.cluster.jobs import Jobs, Where
from tune_vfl.cluster.profiles import find_profile, profiles_file
from tune_vfl.cluster.relay import Relay
from tune_vfl.errors import UnreachableError, UsageError
from tune_vfl.machine.web import WebServer
from tune_vfl.service.ray_cluster import examine_cluster

if TYPE_CHECKING:
    from tests.conftest import Run

__all__ = ["handler", "heard", "stranger"]  # fixtures


JOB = {"type": "SUBMISSION", "submission_id": "job", "status": "RUNNING", "entrypoint": "x"}


class Dashboard(Listening, BaseHTTPRequestHandler):
    """Answers as a Ray dashboard does that runs one job; ``odd`` has other answers, by path."""

    is_open = False
    elsewhere = ""
    odd: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        given = self.headers["Authorization"]
        if not (given or self.is_open):
            super().do_GET()
            return
        self.heard.append(given)
        answers: dict[str, Any] = {
            "/api/version": {"version": "4", "ray_version": ray.__version__, "ray_commit": ""},
            "/api/jobs/": [JOB],
            "/api/jobs/job/logs": {"logs": "begun\nstill going\n"},
        }
        status = 200 if self.path in answers else 404
        body = (self.odd.get(self.path) or json.dumps(answers.get(self.path, {}))).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.elsewhere}/api/jobs/")
        self.end_headers()


@pytest.fixture
def dashboard(heard: list[str | None], monkeypatch: pytest.MonkeyPatch) -> type[Dashboard]:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    for name in ("RAY_AUTH_MODE", "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return type("Told", (Dashboard,), {"heard": heard})


@pytest.mark.parametrize("verb", [("jobs", "list"), ("pull", "x"), ("jobs", "stop", "x"), ("submit",)])
def test_another_users_listener_hears_no_token(
    verb: tuple[str, ...], stranger: Stranger, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    address = f"http://127.0.0.1:{stranger.listens()}"
    spec = tmp_path / "s.yaml"
    spec.write_text("{study: s, dataset: wine, defense: laplace, attacks: [pmc]}")
    code, out, err = run(*verb, *([spec] if verb == ("submit",) else []), "--cluster", address)
    assert (code, out) == (4, "")
    assert f"the token is not sent to {address}" in err
    assert NOT_OURS in err
    (check,) = examine_cluster(address)
    assert (check.status, "is not sent" in check.detail) == ("finding", True)
    assert "Bearer" not in stranger.heard


def test_a_name_in_clusters_yaml_proves_nothing_here(
    stranger: Stranger, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "token").write_text(TOKEN)
    profiles_file().parent.mkdir()
    address = f"http://127.0.0.1:{stranger.listens()}"
    profiles_file().write_text(f"lab: {{address: '{address}', token_file: {tmp_path / 'token'}}}")
    code, _, err = run("jobs", "list", "--cluster", "lab")
    assert (code, NOT_OURS in err) == (4, True)
    assert "Bearer" not in stranger.heard


def test_what_takes_the_port_of_a_forward_that_ended_hears_nothing(
    stranger: Stranger, dashboard: type[Dashboard], heard: list[str | None]
) -> None:
    """While a job is followed; each later look is decided anew, and waits as for any cluster that is away."""
    forward = serving(dashboard)
    server = forward.__enter__()
    jobs, shown = Jobs(WebServer(f"http://127.0.0.1:{port_of(server)}", TOKEN)), []

    def show(line: str) -> None:
        shown.append(line)
        forward.__exit__(None, None, None)
        stranger.listens(port_of(server))

    with pytest.raises(UnreachableError, match=NOT_OURS):
        jobs.follow("job", show, every=0.01, patience=2)
    assert (shown, set(heard)) == (["begun"], {f"Bearer {TOKEN}"})
    assert set(stranger.heard.split("\n")) <= {"b''", ""}
    with pytest.raises(UnreachableError, match=NOT_OURS):
        jobs.run("search", [], "s", Where(), files={"spec.yaml": "study: s"})
    with pytest.raises(UnreachableError, match=NOT_OURS):
        packs_by_job(Relay(WebServer(jobs.address, TOKEN)))
    assert set(stranger.heard.split("\n")) <= {"b''", ""}


def test_a_unix_socket_serves_all_verbs(
    tmp_path: Path, dashboard: type[Dashboard], run: Run, monkeypatch: pytest.MonkeyPatch, heard: list[str | None]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    profiles_file().parent.mkdir()
    profiles_file().write_text("lab: {address: 'unix://~/s'}")
    assert find_profile("lab").address == "unix://~/s"
    with serving(dashboard, tmp_path / "s"):
        for cluster in ("lab", f"unix://{tmp_path}/s"):
            code, out, _ = run("jobs", "list", "--cluster", cluster, "--json")
            assert (code, [job["id"] for job in json.loads(out)["jobs"]]) == (0, ["job"])
        assert run("jobs", "logs", "job", "--cluster", "lab")[1] == "begun\nstill going\n"
        (check,) = examine_cluster(f"unix://{tmp_path}/s")
        assert (check.status, "takes ours" in check.detail) == ("ok", True)
    assert {given for given in heard if given} == {f"Bearer {TOKEN}"}
    assert run("jobs", "list", "--cluster", "lab")[0] == 4


def test_only_whole_paths_are_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "unix:///run/me/head.sock")
    assert dashboard_address() == "unix:///run/me/head.sock"
    for address in ("unix://head.sock", "unix://", "unix://~no-such-user-here/s", "http://me:word@h:1"):
        with pytest.raises(UsageError, match="unix:///home/me"):
            dashboard_address(address)


def test_the_relay_wants_its_own_password(dashboard: type[Dashboard], heard: list[str | None]) -> None:
    with serving(dashboard) as server:
        relay = Relay(WebServer(f"http://127.0.0.1:{port_of(server)}", TOKEN))
        for given in (None, "guessed", TOKEN, "ünsent"):
            assert WebServer(relay.address, given).request("/api/jobs/").status == 401
        assert heard == []
        assert WebServer(relay.address, relay.password).request("/api/jobs/").body.startswith(b"[{")
        relay.close()
        with pytest.raises(ConnectionRefusedError):
            WebServer(relay.address).request("/api/jobs/")
    assert heard == [f"Bearer {TOKEN}"]


def test_a_cluster_that_leads_elsewhere_is_not_followed(stranger: Stranger, dashboard: type[Dashboard]) -> None:
    if os.getuid():
        pytest.skip("a stranger beside one's own server needs root")
    dashboard.elsewhere = stranger.listens()
    with serving(dashboard) as server:
        jobs = Jobs(WebServer(f"http://127.0.0.1:{port_of(server)}", TOKEN))
        with pytest.raises(Exception, match="307"):
            jobs.run("studies", [], "", Where())
    assert stranger.heard == ""


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_proxy_hears_nothing_of_what_stays_on_this_machine(
    variable: str, stranger: Stranger, dashboard: type[Dashboard], monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid():
        pytest.skip("a stranger beside one's own server needs root")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, f"http://127.0.0.1:{stranger.listens()}")
    with serving(dashboard) as server:
        jobs = Jobs(WebServer(f"http://127.0.0.1:{port_of(server)}", TOKEN))
        assert [job.id for job in jobs.list()] == ["job"]
    assert stranger.heard == ""
    assert "no_proxy" not in os.environ


def test_a_password_of_netrc_does_not_take_the_token_s_place(
    dashboard: type[Dashboard], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, heard: list[str | None]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("default login me password other\n")
    with serving(dashboard) as server:
        jobs = Jobs(WebServer(f"http://127.0.0.1:{port_of(server)}", TOKEN))
        assert [job.id for job in jobs.list()] == ["job"]
    assert set(heard) == {f"Bearer {TOKEN}"}


RAYS_OWN = """
import sys
from tune_vfl.cluster.jobs import Jobs
from tune_vfl.machine.web import WebServer
Jobs(WebServer(sys.argv[1], sys.argv[2] or None)).list()
"""


@pytest.mark.parametrize("token", [TOKEN, ""])
def test_the_token_that_ray_finds_by_itself_stays_here(
    token: str, dashboard: type[Dashboard], heard: list[str | None]
) -> None:
    """Ray reads its mode of authentication once in a process, so this one is new."""

    dashboard.is_open = True
    with serving(dashboard) as server:
        words = [sys.executable, "-c", RAYS_OWN, f"http://127.0.0.1:{port_of(server)}", token]
        environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64}
        subprocess.run(words, env=environment, check=True, capture_output=True)
    assert set(heard) == {f"Bearer {token}" if token else None}


@pytest.mark.parametrize("token", ["one\ntwo", "wörd", "a b"])
def test_what_no_header_can_carry_is_no_token(token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    with pytest.raises(UsageError, match="RAY_AUTH_TOKEN: expected a token"):
        find_token()
    (tmp_path / "t").write_text(token, encoding="utf-8")
    with pytest.raises(UsageError, match=r"expected a token") as found:
        find_token(tmp_path / "t")
    assert token not in str(found.value)


def test_a_dashboard_is_known_by_its_list_of_jobs(dashboard: type[Dashboard]) -> None:
    with serving(dashboard) as server:
        address = f"http://127.0.0.1:{port_of(server)}"
        assert (ask(WebServer(address, TOKEN)), ask(WebServer(f"{address}/elsewhere", TOKEN))) == ("open", "other")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert ask(WebServer(f"http://127.0.0.1:{silent.getsockname()[1]}"), timeout=0.1) == "away"


ODD = {
    "numbers for jobs": ("/api/jobs/", "[1, 2]"),
    "lists without an end": ("/api/jobs/", "[" * 200_000),
    "half an answer": ("/api/jobs/", "[{"),
    "a job without an id": ("/api/jobs/", "[{}]"),
    "a list for a version": ("/api/version", "[1, 2]"),
    "another version": ("/api/version", "{}"),
    "a text for a version": ("/api/version", '"4"'),
    "nothing for a log": ("/api/jobs/job/logs", "{}"),
    "a list for a log": ("/api/jobs/job/logs", "[]"),
}


@pytest.mark.parametrize("case", ODD)
def test_an_answer_that_no_dashboard_gives_is_said_to_be_none(case: str, dashboard: type[Dashboard], run: Run) -> None:
    path, answer = ODD[case]
    with serving(type("Odd", (dashboard,), {"odd": {path: answer}})) as server:
        verb = ("logs", "job") if "log" in case else ("list",)
        code, out, err = run("jobs", *verb, "--cluster", f"http://127.0.0.1:{port_of(server)}")
    assert (code, out) == (4, "")
    assert "is no Ray Jobs API" in err


def test_a_job_at_a_moment_that_no_calendar_has_is_listed(dashboard: type[Dashboard], run: Run) -> None:
    jobs = json.dumps([{**JOB, "start_time": 10**30, "end_time": -(10**30)}])
    with serving(type("Late", (dashboard,), {"odd": {"/api/jobs/": jobs}})) as server:
        code, out, _ = run("jobs", "list", "--cluster", f"http://127.0.0.1:{port_of(server)}")
    assert (code, "RUNNING" in out) == (0, True)


@pytest.mark.parametrize("host", ["exa mple", "h" * 300])
def test_an_address_that_no_machine_has_is_named(host: str, dashboard: type[Dashboard], run: Run) -> None:
    code, out, err = run("jobs", "list", "--cluster", f"http://{host}")
    assert (code, out) == (4, "")
    assert f"no Ray cluster answers at http://{host}" in err
