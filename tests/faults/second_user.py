"""A second account of the machine tries the ways in: what it reads, writes, reaches and hears of the first one's.

``python -m tests.faults.second_user`` prints a line of JSON an attempt. It needs root, adds an account for the time
that it runs, and starts an MLflow UI and a Ray head as documented.
"""

import base64
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.helpers.planted import SPEC, plant
from tests.helpers.ports import free_port
from tune_vfl.service.open_doors import gcs_answers

ROOT = Path(__file__).parents[2]
ACCOUNT = "tune-vfl-other"
SECRET = "the-first-ones-secret"  # noqa: S105 - of nothing
Attempt = tuple[bool, str]
REFUSED = (401, 403, 404)


@contextmanager
def second_account() -> Iterator[pwd.struct_passwd]:
    """Add an account, and remove it at the end."""
    subprocess.run(["useradd", "-M", "-s", "/bin/false", ACCOUNT], check=True)
    try:
        yield pwd.getpwnam(ACCOUNT)
    finally:
        subprocess.run(["userdel", ACCOUNT], check=True)


class Other:
    """The second account."""

    def __init__(self, account: pwd.struct_passwd) -> None:
        self.account = account

    def tries(self, attempt: Callable[[], Attempt]) -> Attempt:
        """Run an attempt in a process of that account; one that raises has failed."""
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                self.become()
                done: Attempt = attempt()
            except BaseException as error:  # whatever it is, the attempt has failed
                done = False, f"{type(error).__name__}: {error}"
            os.write(writing, json.dumps(done).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            worked, said = json.loads(answers.read() or b'[false, "no answer"]')
        os.waitpid(child, 0)
        return bool(worked), str(said)

    def become(self) -> None:
        """Give up root for good."""
        os.setgroups([])
        os.setgid(self.account.pw_gid)
        os.setuid(self.account.pw_uid)

    @contextmanager
    def listening(self, note: Path, port: int = 0) -> Iterator[int]:
        """Listen on loopback as that account, answer like a dashboard that takes every token, and note what comes."""
        note.touch()
        note.chmod(0o666)
        port = port or free_port()
        if (child := os.fork()) == 0:
            self.become()
            with socket.create_server(("127.0.0.1", port)) as mine:
                while True:
                    met, _ = mine.accept()
                    with met, note.open("ab") as file:
                        file.write(met.recv(65536))
                        met.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
        wait_for(port)
        try:
            yield port
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class First:
    """The account whose things they are: root, with a home as ``useradd`` makes them, and the usual umask."""

    def __init__(self, work: Path) -> None:
        self.at = work / "first"
        self.at.mkdir(mode=0o755)
        self.home = self.at / "tune-vfl-home"
        self.temporary = work / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        self._started: list[subprocess.Popen[bytes]] = []
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TUNE_VFL_DATA") if name in os.environ}
        ours = {"HOME": self.at, "TUNE_VFL_HOME": self.home, "TMPDIR": self.temporary, "TUNE_VFL_HOSTS": "db.example"}
        ours |= dict.fromkeys(("SECRET", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD"), SECRET)
        self.environment = {**kept, **{name: str(value) for name, value in ours.items()}, "RAY_AUTH_MODE": "token"}
        self._as_usual: dict[str, Any] = {"env": self.environment, "cwd": self.at, "umask": 0o022}

    def runs(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end."""
        return self.python("-m", "tune_vfl", *map(str, words))

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python to its end."""
        return subprocess.run(
            [sys.executable, *words],
            **self._as_usual,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def starts(self, *words: object) -> None:
        """Start a program that stays."""
        log = (self.at / f"{Path(str(words[0])).name}.log").open("wb")
        started = subprocess.Popen(
            list(map(str, words)),
            **self._as_usual,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._started.append(started)

    def ends(self) -> None:
        """End what was started, and what that has started."""
        for started in self._started:
            with suppress(psutil.Error):
                for process in [*psutil.Process(started.pid).children(recursive=True), psutil.Process(started.pid)]:
                    with suppress(psutil.Error):
                        process.kill()
            started.wait()


def wait_for(port: int, seconds: float = 120.0) -> None:
    """Wait until something listens at a port of this machine."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens at port {port}")


def asked(url: str, body: object = None, credentials: str = "", token: str = "") -> int:
    """Return how a server answers."""
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode())  # noqa: S310 - http
    request.add_header("Content-Type", "application/json")
    if credentials:
        request.add_header("Authorization", f"Basic {base64.b64encode(credentials.encode()).decode()}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def answers(*statuses: int) -> Attempt:
    """An attempt at a server works where one answer is no refusal."""
    return any(status not in REFUSED for status in statuses), f"HTTP {', '.join(map(str, statuses))}"


def opened(*paths: Path) -> Attempt:
    """An attempt at files works where one can be read or written."""
    done = []
    for path in paths:
        for mode in ("rb", "ab"):
            with suppress(OSError), path.open(mode):
                done.append(f"{path.name} ({mode})")
    return bool(done), f"opened {', '.join(done)}" if done else "nothing opens"


def below(folder: Path) -> Attempt:
    """An attempt at a folder works where anything in it can be seen."""
    seen = [str(Path(place, name)) for place, _, names in os.walk(folder) for name in names]
    return bool(seen), f"{len(seen)} files seen"


def planted(folder: Path, name: str) -> Attempt:
    """An attempt to plant a file works where that is there afterwards."""
    (folder / name).write_bytes(b"planted")
    return True, f"planted {name}"


def attempts(first: First, other: Other, work: Path) -> Iterator[tuple[str, Attempt]]:
    """Yield each way in, and whether it leads in."""
    sample = ROOT / "tests" / "samples" / "0.1.0" / "half.study"
    name = json.loads(first.runs("study", "unpack", sample, "--json").stdout)["study"]
    first.runs("report", name)
    first.python("-c", "from tune_vfl.kernels import compiled; compiled.load()")
    ui, gcs, dashboard = free_port(), free_port(), free_port()
    first.starts(sys.executable, "-m", "tune_vfl", "ui", "--port", ui)
    ray = Path(sys.executable).with_name("ray")
    subprocess.run([ray, "get-auth-token", "--generate"], env=first.environment, check=True, capture_output=True)
    (first.at / "ray").mkdir(mode=0o700)  # as in cluster.yaml: Ray opens its own folder to every user
    listening = ("--port", gcs, "--dashboard-host=127.0.0.1", "--dashboard-port", dashboard, "--num-cpus=1")
    first.starts(ray, "start", "--head", "--block", f"--temp-dir={first.at / 'ray' / 'r'}", *listening)
    for port in (ui, gcs, dashboard):
        wait_for(port)
    listed = first.runs("jobs", "list", "--address", f"http://127.0.0.1:{dashboard}")
    assert listed.returncode == 0, listed.stderr
    mlflow, jobs = f"http://127.0.0.1:{ui}/ajax-api", f"http://127.0.0.1:{dashboard}/api/jobs/"
    runs = f"{mlflow}/2.0/mlflow/experiments/search?max_results=5"
    guesses = ("admin:password1234", "admin:admin", "root:", "tune-vfl:tune-vfl")
    command = {"message": "run id", "context": {}}
    entry = {"entrypoint": "id"}
    ways: dict[str, Callable[[], Attempt]] = {
        "ui without a password": lambda: answers(asked(runs)),
        "ui with guessed passwords": lambda: answers(*(asked(runs, credentials=guess) for guess in guesses)),
        "MLflow's assistant, which runs commands": lambda: answers(
            asked(f"{mlflow}/3.0/mlflow/assistant/message", command), asked(f"{mlflow}/3.0/mlflow/assistant/config")
        ),
        "files of the home": lambda: below(first.home),
        "the ledger": lambda: opened(first.home / "ledger.db", first.home / "ledger.db-wal"),
        "MLflow's database": lambda: opened(first.home / "mlflow.db", first.home / "mlflow.db-wal"),
        "Ray's dashboard: jobs listed": lambda: answers(asked(jobs), asked(jobs, token="0" * 64)),
        "Ray's dashboard: a job submitted": lambda: answers(asked(jobs, entry), asked(jobs, entry, token="0" * 64)),
        "the token's file": lambda: opened(first.at / ".ray" / "auth_token"),
        "Ray's folder, with its sockets": lambda: below(first.at / "ray"),
        "a library in the kernels' cache": lambda: planted(first.at / ".cache" / "tune-vfl" / "kernels", "x.so"),
    }
    for way, attempt in ways.items():
        yield way, other.tries(attempt)
    # A port asks nobody for an account: asked from here, where gRPC finds its modules.
    yield "Ray's GCS without a token", (gcs_answers("127.0.0.1", gcs), "a health check")
    yield "a folder planted in TMPDIR", planted_folder(first, other, work)
    yield from listeners(first, other, work)
    yield "modules planted in the working folder", planted_modules(first, other, work)
    yield "a home planted in the working folder", planted_home(first, other, work)
    bomb = work / "bomb.study"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("trials.jsonl", "w") as into:
        for _ in range(70):
            into.write(bytes(2**20))
    done = first.runs("study", "unpack", bomb)
    refused = "larger than" in done.stderr
    yield "a packed study that swells", (not refused, done.stderr.strip().splitlines()[0])


def listeners(first: First, other: Other, work: Path) -> Iterator[tuple[str, Attempt]]:
    """Yield each way to listen where the first account speaks, and whether a token or a secret was heard."""
    with other.listening(work / "heard-by-dashboard") as port:
        done = first.runs("jobs", "list", "--address", f"http://127.0.0.1:{port}")
        yield "a listener where the dashboard is expected", heard(work / "heard-by-dashboard", done)
    ends = work / "spec.yaml"
    ends.write_text(SPEC + "tracking: null\n")
    yield (
        "the port of a forward that ended: jobs logs",
        forward_that_ends(first, other, work / "heard-by-logs", "jobs", "logs", "job", "--follow"),
    )
    yield (
        "the port of a forward that ended: submit",
        forward_that_ends(first, other, work / "heard-by-submit", "submit", ends, "--wait"),
    )
    yield "127.0.0.1 beside a server of one's own at [::]", beside_all_of_ipv6(first, other, work / "heard-beside")
    for number, (way, line) in enumerate(SENT.items()):
        with other.listening(work / f"heard-by-spec-{number}") as port:
            spec = work / f"spec-{number}.yaml"
            spec.write_text(SPEC + line.format(port=port))
            done = first.runs("search", spec)
            yield way, heard(work / f"heard-by-spec-{number}", done)


SENT = {
    "a spec with ${env:SECRET} in a URL": "tracking: http://x:${{env:SECRET}}@127.0.0.1:{port}/x\n",
    "a spec with ${env:SECRET} for one's own host, and another one in the query": (
        "storage: postgresql://x:${{env:SECRET}}@db.example/x?%68ost=127.0.0.1&%70ort={port}\n"
    ),
    "a spec's tracking server, while MLFLOW_TRACKING_TOKEN is exported": "tracking: http://127.0.0.1:{port}\n",
    "a spec's database, while PGPASSWORD is exported": "storage: postgresql://x@127.0.0.1:{port}/y\n",
}


def planted_modules(first: First, other: Other, work: Path) -> Attempt:
    """Plant modules and programs in a folder that everybody can write, in which the first account works."""
    folder, mark = work / "shared", work / "marks"
    folder.mkdir()
    folder.chmod(0o1777)
    mark.touch()
    mark.chmod(0o666)

    def tries() -> Attempt:
        plant(folder, mark)
        return True, ""

    assert other.tries(tries)[0]
    (work / "plain.yaml").write_text(SPEC)
    command = Path(sys.executable).with_name("tune-vfl")
    how: dict[str, Any] = {"env": {**first.environment, "PATH": f":.:{first.environment['PATH']}"}, "cwd": folder}
    ended = []
    for verb in (("search", str(work / "plain.yaml")), ("doctor",)):
        ran = subprocess.run([command, *verb], **how, capture_output=True, text=True, check=False, timeout=300)
        ended.append(ran.returncode)
    port = free_port()
    silent = subprocess.DEVNULL
    ui = subprocess.Popen([command, "ui", "--port", str(port)], **how, stdout=silent, stderr=silent)
    try:
        wait_for(port)
    finally:
        ui.terminate()
        ui.wait()
    ran = mark.read_text()
    return bool(ran) or ended[0] != 0, f"ran {ran or 'nothing'}; search and doctor ended {ended}"


def planted_home(first: First, other: Other, work: Path) -> Attempt:
    """Plant ``./tune-vfl-home`` where the first account stands, who names no home."""
    folder = work / "standing"
    folder.mkdir()
    folder.chmod(0o1777)

    def plant() -> Attempt:
        (folder / "tune-vfl-home").mkdir(mode=0o777)
        return True, ""

    assert other.tries(plant)[0]
    environment = {name: value for name, value in first.environment.items() if name != "TUNE_VFL_HOME"}
    words = [sys.executable, "-m", "tune_vfl", "studies"]
    ran = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return ran.returncode != 2, ran.stderr.strip()


FORWARD = """
import json, ray, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
job = {"type": "SUBMISSION", "submission_id": "job", "job_id": None, "status": "RUNNING", "entrypoint": "x"}
paths = {"/api/version": {"version": "4", "ray_version": ray.__version__, "ray_commit": ""}, "/api/jobs/": []}
paths["/api/jobs/job/logs"] = {"logs": "begun\\n\\n"}
class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        given = self.headers["Authorization"]
        if "jobs" in sys.argv:
            paths["/api/jobs/"] = [job]
        known = self.path in paths or "/api/packages/" in self.path
        self.say(401 if not given else 200 if known else 404, paths.get(self.path, {}))
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        paths["/api/jobs/"] = [job]
        self.say(200, {"job_id": "job", "submission_id": "job"})
    def say(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""
TAKEN_SECONDS = 30.0


def forward_that_ends(first: First, other: Other, note: Path, *verb: object) -> Attempt:
    """Follow a job through a forward of one's own that ends, after which the second account has its port."""
    port = free_port()
    first.starts(sys.executable, "-c", FORWARD, port, verb[0])
    forward = first._started[-1]
    wait_for(port)
    log = first.at / f"{verb[0]}.out"
    first.starts(sys.executable, "-m", "tune_vfl", *verb, "--cluster", f"http://127.0.0.1:{port}")
    following, log = first._started[-1], first.at / f"{Path(sys.executable).name}.log"
    until = time.monotonic() + 120
    while b"begun" not in log.read_bytes() and time.monotonic() < until:
        time.sleep(0.1)
    forward.kill()
    forward.wait()
    with other.listening(note, port):
        time.sleep(TAKEN_SECONDS)
        waits = following.poll() is None
        following.kill()
        following.wait()
    said = "waits" if waits else f"ended {following.returncode}"
    return (
        b"Bearer" in note.read_bytes() or b"begun" not in log.read_bytes(),
        f"heard {len(note.read_bytes())} bytes; the verb {said}",
    )


def beside_all_of_ipv6(first: First, other: Other, note: Path) -> Attempt:
    """Listen at 127.0.0.1 with the port at which a server of the first account has all IPv6 addresses."""
    with other.listening(note) as port:
        listen = "socket.create_server(('::', int(sys.argv[1])), family=socket.AF_INET6)"
        first.starts(sys.executable, "-c", f"import socket, sys, time; s = {listen}; time.sleep(600)", port)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("::1", port), timeout=1):
                break
            time.sleep(0.1)
        return heard(note, first.runs("jobs", "list", "--address", f"http://127.0.0.1:{port}"))


def planted_folder(first: First, other: Other, work: Path) -> Attempt:
    """Plant folders whose removal would remove, or whose use would reveal, something else."""
    kept = work / "kept"
    kept.mkdir()
    (kept / "file").touch()

    def plant() -> Attempt:
        (first.temporary / "tune-vfl-aaaaaaaa").mkdir()
        (first.temporary / "tune-vfl-aaaaaaaa" / "in-use").touch()
        (first.temporary / "tune-vfl-bbbbbbbb").symlink_to(kept)
        return True, ""

    assert other.tries(plant)[0]
    code = """if True:
        from tune_vfl.machine.ray_folder import RayFolder
        path = RayFolder().path
        path.chmod(0o777)  # as Ray does
        (path / "socket").touch()
        print(path, flush=True)
    """
    made = subprocess.run(
        [sys.executable, "-c", code], env=first.environment, capture_output=True, text=True, check=False
    )
    if made.returncode:
        return True, "no folder of its own: Ray's default, which belongs to whom came first"
    seen = other.tries(lambda: below(Path(made.stdout.strip())))
    whole = (kept / "file").exists()
    return seen[
        0
    ] or not whole, f"{seen[1]} in the Ray folder; what the link leads to {'stays' if whole else 'is gone'}"


def heard(note: Path, done: subprocess.CompletedProcess[str]) -> Attempt:
    """A listener has won where it heard the token or the secret."""
    words = note.read_bytes()
    secret = base64.b64encode(f"x:{SECRET}".encode())
    said = " ".join(done.stderr.strip().splitlines()[-2:])
    won = b"Bearer" in words or SECRET.encode() in words or secret in words
    return won, f"heard {len(words)} bytes; exit {done.returncode}: {said}"


def main() -> None:
    """Try all ways and print how each ended."""
    work = Path(tempfile.mkdtemp(prefix="second-user-", dir="/tmp"))
    work.chmod(0o755)
    try:
        with second_account() as account:
            first = First(work)
            try:
                for way, (worked, said) in attempts(first, Other(account), work):
                    sys.stdout.write(json.dumps({"way": way, "leads in": worked, "said": said[:300]}) + "\n")
                    sys.stdout.flush()
            finally:
                first.ends()
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
