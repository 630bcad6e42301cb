"""The MLflow UI on the loopback address, for one user: every request wants a password that is drawn at each start."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tune_vfl.errors import TuneVflError, UsageError
from tune_vfl.machine.places import resolve_uri, sqlite_uri
from tune_vfl.tracking import store

USER = "tune-vfl"
PATIENCE_SECONDS = 120.0
"""How long the server may take to listen."""

_INI = """[mlflow]
default_permission = NO_PERMISSIONS
database_uri = {users}
admin_username = {user}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""


def command(uri: str, port: int) -> list[str]:
    """Return the command line that serves a tracking store on 127.0.0.1.

    Raises:
        UsageError: when ``uri`` is a server, which has a UI of its own.
    """
    if uri.startswith(("http://", "https://", "databricks")):
        raise UsageError(f"{uri} is a tracking server and has its own UI: open {uri} in a browser")
    # One worker is enough for one user and starts in a quarter of the time. Artifacts are read where the runs have
    # them; the server takes no uploads.
    options = ["--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", *options, "--app-name", "basic-auth", "--no-serve-artifacts"]


def serve(uri: str | None = None, port: int = 5000, *, ready: Callable[[str], None] = print) -> int:
    """Serve the MLflow UI on loopback until it is interrupted.

    Without a password any account of this machine could read all runs, and run commands through MLflow's assistant.

    Args:
        uri: the tracking URI; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.
        port: the port.
        ready: called once the server listens, with the link that opens it: user and password are in it. The password
            is drawn, or that of ``MLFLOW_AUTH_ADMIN_PASSWORD``.

    Returns:
        The UI's exit code; 0 when it was interrupted.

    Raises:
        UsageError: when ``uri`` is a server.
        TuneVflError: when the port is taken, or the server does not listen.
        UnreachableError: when the database cannot be opened.
    """
    chosen = resolve_uri(uri)
    arguments = command(chosen, port)
    _check_free(port)
    store.client(chosen)
    password = os.environ.get("MLFLOW_AUTH_ADMIN_PASSWORD") or secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="tune-vfl-ui-") as folder:  # of this user alone
        settings = Path(folder) / "auth.ini"
        settings.write_text(_INI.format(users=sqlite_uri(Path(folder) / "users.db"), user=USER), encoding="utf-8")
        environment = {
            # MLflow's six job processes, a quarter of a gigabyte each, are not needed for one user.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            **os.environ,
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_urlsafe(24),
            "MLFLOW_BASIC_AUTH_FAIL_CLOSED": "true",
        }
        link = f"http://{USER}:{password}@127.0.0.1:{port}"

        def begun(server: subprocess.Popen[bytes]) -> None:
            if _listens(server, port):
                ready(link)

        return _run(arguments, environment, begun)


def _run(arguments: list[str], environment: Mapping[str, str], begun: Callable[[subprocess.Popen[bytes]], None]) -> int:
    """Run a server until it ends or this process is stopped; end its children too, which MLflow would leave behind."""
    # In a separate session the server and its children form one process group, which can be ended together.
    server = subprocess.Popen(arguments, start_new_session=True, env=environment)  # noqa: S603 - the arguments are ours
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        begun(server)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _listens(server: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server answers; return whether it does, False where it ended."""
    end, direct = time.monotonic() + PATIENCE_SECONDS, urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while server.poll() is None:
        with contextlib.suppress(OSError), direct.open(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
        if time.monotonic() > end:
            raise TuneVflError(f"MLflow does not listen on 127.0.0.1:{port} after {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.1)
    return False


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        # The server sets this option too: a port that another server held until a moment ago then counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise TuneVflError(
                f"port {port} on 127.0.0.1 is taken ({error.strerror}); choose another with --port"
            ) from error
