"""Submitting to a cluster: a Ray head on loopback with a token, and the answers of a cluster that is not there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tune_vfl.cli.main import main
from tune_vfl.cluster.admission import packs_by_job
from tune_vfl.cluster.dashboard import ask, dashboard_address, find_token
from tune_vfl.cluster.jobs import answers_in
from tune_vfl.cluster.relay import Relay
from tune_vfl.errors import UnreachableError, UsageError
from tune_vfl.machine.web import WebServer, is_loopback

SPEC = {
    "study": "tiny-job",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm"],
    "training": {"epochs": 1},
    "budget": {"trials": 3, "seeds": 1},
    "sampler": "random",
    "resources": {"concurrency": 1},
}
RAY_VARIABLES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@pytest.fixture(autouse=True)
def clean(tmp_path, home, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in RAY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(SPEC), encoding="utf-8")
    return str(path)


def free_ports(count: int) -> list[int]:
    # Above the 10002-19999 that Ray keeps for its workers.
    held = []
    for port in range(21000 + os.getpid() % 5000, 32000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                held.append(port)
        if len(held) == count:
            return held
    raise RuntimeError("no free ports")


@pytest.fixture(scope="module")
def head():
    """A Ray head on loopback that wants a token: its dashboard's URL, its address and the token."""
    gcs, dashboard, client, agent = free_ports(4)
    token = secrets.token_hex(16)
    folder = tempfile.mkdtemp(prefix="tv-", dir="/tmp")  # Ray's sockets need a short path
    environment = {k: v for k, v in os.environ.items() if k not in RAY_VARIABLES}
    environment |= {"HOME": folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "OMP_NUM_THREADS": "1"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--num-cpus=2"]
    command += ["--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1", f"--temp-dir={folder}/ray"]
    command += [f"--port={gcs}", f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}"]
    command += [f"--dashboard-agent-listen-port={agent}", f"--object-store-memory={100 * 2**20}"]
    url = f"http://127.0.0.1:{dashboard}"
    with Path(folder, "log").open("w") as log:
        ray = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(240):
            if ask(WebServer(url, token), timeout=1) == "open":
                break
            assert ray.poll() is None, Path(folder, "log").read_text()
            import time

            time.sleep(0.25)
        else:
            pytest.fail("the Ray head did not come up:\n" + Path(folder, "log").read_text())
        yield url, f"127.0.0.1:{gcs}", token
    finally:
        ray.terminate()  # with --block it takes its own processes down with it, and no other Ray's
        try:
            ray.wait(30)
        except subprocess.TimeoutExpired:
            ray.kill()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_dashboard_says_who_has_room_and_who_waits(head):
    """Three packs on two CPUs, as Tune asks for their room."""
    url, gcs, token = head
    code = """if True:
        import sys, ray
        from ray.util.placement_group import placement_group
        ray.init(address=sys.argv[1], log_to_driver=False)
        groups = [placement_group([{"CPU": 1}]) for _ in range(3)]
        ray.get(groups[0].ready())
        print(ray.get_runtime_context().get_job_id(), flush=True)
        sys.stdin.read()
    """
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    command = [sys.executable, "-c", code, gcs]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        job = driver.stdout.readline().strip()
        found = packs_by_job(Relay(WebServer(url, token)))
        driver.communicate("")
    running, waiting = found[job]
    assert running + waiting == 3
    assert waiting >= 1
    with pytest.raises(UnreachableError, match="refuses the token"):
        packs_by_job(Relay(WebServer(url, "wrong")))


def test_submit_wait_and_read_the_front_back(head, tmp_path, monkeypatch, capsys):
    url, _, token = head
    rows = [f"{k % 13},{k % 11},{int(k % 5 > 1)}" for k in range(300)]
    (tmp_path / "loans.csv").write_text("\n".join(["a,b,y", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    dataset = {"name": "csv", "path": "loans.csv", "label": "y", "parties": {"passive": ["a"], "active": ["b"]}}
    spec = str(tmp_path / "spec.yaml")
    Path(spec).write_text(yaml.safe_dump({**SPEC, "dataset": dataset}), encoding="utf-8")
    # Ray's client prefers these to the address that it is given; ours must win.
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")
    assert main(["submit", spec, "--address", url]) == 4
    assert "wants a token" in capsys.readouterr().err
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    assert main(["submit", spec, "--address", url]) == 4
    assert "refuses the token" in capsys.readouterr().err
    (tmp_path / "token").write_text(token + "\n")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))

    there = tmp_path / "there"
    code = main(["submit", spec, "--address", url, "--home", str(there), "--wait", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    study = json.loads(out)
    assert study["study"] == "tiny-job"
    assert study["trials"]["ok"] == 3
    assert study["front"]
    assert token not in out + err
    (copy,) = (there / "data").glob("*/tiny-job/*/loans.csv")
    assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == ((tmp_path / "loans.csv").read_bytes(), 0o600)
    (tmp_path / "loans.csv").unlink()
    # What was read back is what the ledger on the cluster holds.
    monkeypatch.setenv("TUNE_VFL_HOME", str(there))
    assert main(["frontier", "tiny-job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == study["front"]

    assert main(["jobs", "list", "--address", url, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["status"], job["study"]) == ("SUCCEEDED", "tiny-job")
    assert main(["jobs", "logs", job["id"], "--address", url]) == 0
    assert answers_in(capsys.readouterr().out) == [study]
    assert main(["jobs", "stop", job["id"], "--address", url]) == 0
    assert "already ended" in capsys.readouterr().out
    assert main(["jobs", "logs", "no-such-job", "--address", url]) == 2
    assert job["id"] in capsys.readouterr().err
    _resume_and_pull(url, there, tmp_path, monkeypatch, capsys)


def _resume_and_pull(url, there, tmp_path, monkeypatch, capsys):
    """The job's study goes on there with more trials and its own copy of the data, and is read here like any other."""
    (old,) = _jobs(url, capsys)
    assert main(["jobs", "resume", old["id"], "--trials", "4", "--cluster", url, "--wait", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert more["trials"]["ok"] == 4
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "here"))
    assert main(["pull", "tiny-job", "--cluster", url, "--home", str(there), "--json"]) == 0
    pulled = json.loads(capsys.readouterr().out)
    assert (pulled["did"], pulled["trials"]["ok"]) == ("new", 4)
    assert main(["jobs", "studies", "--cluster", url, "--home", str(there), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["studies"]
    assert (listed["study"], listed["state"], listed["owed"]) == ("tiny-job", "finished", 0)
    assert [job["does"] for job in _jobs(url, capsys)] == ["studies", "study pack", "resume", "search"]
    assert main(["frontier", "tiny-job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == more["front"]


def _jobs(url, capsys):
    assert main(["jobs", "list", "--cluster", url, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["jobs"]


def test_a_spec_on_the_cluster_is_read_by_its_user_alone(head, tmp_path, monkeypatch):
    url, _, token = head
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    from tune_vfl.cluster.jobs import Jobs, Where

    jobs = Jobs(WebServer(url, token))
    seen = tmp_path / "tune-vfl"
    seen.write_text("#!/bin/sh\nstat -c 'mode %a' spec.yaml\n")
    seen.chmod(0o755)
    monkeypatch.setattr(Where, "variables", f"PATH={tmp_path}:$PATH")
    job = jobs.wait(jobs.run("search", [], "s", Where(), files={"spec.yaml": "study: s"}))
    assert "mode 600" in jobs.logs(job.id)


def test_a_job_that_fails_is_told(head, spec, monkeypatch, capsys, tmp_path):
    url, _, token = head
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    (tmp_path / "blocked").write_text("a file where the home should be")
    code = main(["submit", spec, "--address", url, "--home", str(tmp_path / "blocked"), "--wait"])
    out, err = capsys.readouterr()
    assert code == 1
    assert out == ""
    assert "FAILED" in err


def test_doctor_looks_at_the_cluster(head, monkeypatch):
    from tune_vfl.service.ray_cluster import examine_cluster

    url, address, token = head
    assert [c.status for c in examine_cluster(url)] == ["finding"]  # we have no token
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    assert [(c.name, c.status) for c in examine_cluster(address)] == [("cluster", "ok"), ("dashboard", "ok")]
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    assert examine_cluster(address)[0].status == "finding"
    assert examine_cluster("127.0.0.1:9")[0].status == "unreachable"


class _Open(BaseHTTPRequestHandler):
    """A dashboard that answers everybody."""

    def do_GET(self):
        body = b"[]" if self.path == "/api/jobs/" else b"<html>"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay quiet."""


@pytest.fixture
def open_dashboard():
    server = HTTPServer(("127.0.0.1", 0), _Open)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_open_cluster_is_a_finding(open_dashboard, monkeypatch):
    from tune_vfl.service import health

    assert ask(WebServer(open_dashboard)) == "open"
    monkeypatch.setenv("RAY_ADDRESS", open_dashboard)
    (check,) = health.cluster()
    assert check.status == "finding"
    assert "without a token" in check.detail
    assert "RAY_AUTH_MODE=token" in check.advice


def test_what_is_no_dashboard_is_told_apart(open_dashboard):
    assert ask(WebServer(f"{open_dashboard}/elsewhere")) == "other"
    assert ask(WebServer("http://127.0.0.1:9")) == "away"


def test_no_cluster_exits_4(spec, capsys):
    for arguments in (["submit", spec], ["jobs", "list"], ["jobs", "logs", "x"], ["jobs", "stop", "x"]):
        assert main([*arguments, "--address", "http://127.0.0.1:9"]) == 4
        out, err = capsys.readouterr()
        assert out == ""
        assert "127.0.0.1:9" in err


def test_a_password_is_refused_before_any_cluster_is_asked(spec, capsys):
    assert main(["submit", spec, "--set", "storage=postgresql://u:pw@h/d", "--cluster", "http://127.0.0.1:9"]) == 2
    err = capsys.readouterr().err
    assert "storage: holds a password" in err
    assert "pw" not in err.replace(".pgpass", "")


@pytest.mark.parametrize(
    "address", ["os://x", "ftp://h:1", "127.0.0.1:8265", "http://", "http://h:port", "http://h:99999"]
)
def test_only_urls_are_addresses(address, spec, capsys):
    # Ray imports an address's scheme as a module.
    assert main(["submit", spec, "--address", address]) == 2
    assert "http://127.0.0.1:8265" in capsys.readouterr().err


def test_where_the_address_comes_from(monkeypatch):
    assert dashboard_address() == "http://127.0.0.1:8265"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert dashboard_address() == "http://127.0.0.1:8265"
    monkeypatch.setenv("RAY_ADDRESS", "https://a:1/")
    assert dashboard_address() == "https://a:1"
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://b:2")
    assert dashboard_address() == "http://b:2"
    assert dashboard_address("http://c:3/") == "http://c:3"


def test_where_the_token_comes_from(tmp_path, monkeypatch):
    assert find_token() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("from-home\n")
    assert find_token() == "from-home"
    (tmp_path / "t").write_text(" from-file \n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "t"))
    assert find_token() == "from-file"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "from-variable")
    assert find_token() == "from-variable"
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    for broken in (tmp_path / "missing", tmp_path):
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(broken))
        with pytest.raises(UsageError, match="RAY_AUTH_TOKEN_PATH"):
            find_token()


def test_loopback():
    assert all(is_loopback(f"http://{h}:1") for h in ("127.0.0.1", "127.1.2.3", "localhost", "[::1]"))
    assert not any(is_loopback(f"http://{h}:1") for h in ("10.0.0.1", "example.org", "localhost.example.org"))


def test_studies_are_found_among_other_output():
    study = {"schema": "tune-vfl/study/1", "study": "x", "trials": {}, "front": []}
    line = json.dumps(study)
    log = f'noise\n{{"schema": "other"}}\n{line}\nmore "tune-vfl/study/1" noise\n{{"schema": "tune-vfl/study/1", cut\n'
    log += line
    assert answers_in(log) == [study, study]
    assert answers_in("") == []
