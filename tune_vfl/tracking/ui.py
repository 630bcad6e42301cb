"""The MLflow UI on the loopback address, for one user: every request wants a password that is drawn at each start."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path

from tune_vfl.errors import TuneVflError, UsageError
from tune_vfl.machine import children
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.places import resolve_uri, sqlite_path, sqlite_uri
from tune_vfl.machine.web import WebServer
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


def command(port: int) -> list[str]:
    """Return the command line of a server on 127.0.0.1; the store is not on it, since every account can read it."""
    # One worker is enough for one user and starts in a quarter of the time. Artifacts are read where the runs have
    # them; the server takes no uploads.
    options = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", *options, "--app-name", "basic-auth", "--no-serve-artifacts"]


def store_of(uri: str) -> str:
    """Return the tracking store as a server that starts in another folder finds it.

    Raises:
        UsageError: when ``uri`` is a server, which has a UI of its own.
    """
    if uri.startswith(("http://", "https://", "databricks")):
        shown = hide_password(uri)
        raise UsageError(f"{shown} is a tracking server and has its own UI: open {shown} in a browser")
    path = sqlite_path(uri)
    return sqlite_uri(path.absolute()) if path is not None else uri if ":" in uri else Path(uri).absolute().as_uri()


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
    chosen = store_of(resolve_uri(uri))
    _check_free(port)
    store.client(chosen)
    password = os.environ.get("MLFLOW_AUTH_ADMIN_PASSWORD") or secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="tune-vfl-ui-") as folder:  # of this user alone
        settings = Path(folder) / "auth.ini"
        settings.write_text(_INI.format(users=sqlite_uri(Path(folder) / "users.db"), user=USER), encoding="utf-8")
        # A browser lets the pages of every other port of this machine read MLflow's answers with this user's password:
        # they do not know where.
        prefix = f"/{secrets.token_urlsafe(16)}"
        variables = {
            # MLflow's six job processes, a quarter of a gigabyte each, are not needed for one user.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": os.environ.get("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"),
            "MLFLOW_ENABLE_ASSISTANT_SANDBOX": "true",  # the assistant runs commands in a container or none at all
            "MLFLOW_BACKEND_STORE_URI": chosen,
            "MLFLOW_STATIC_PREFIX": prefix,
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_urlsafe(24),
            "MLFLOW_BASIC_AUTH_FAIL_CLOSED": "true",
        }
        place = f"127.0.0.1:{port}{prefix}"

        def begun(server: children.Child) -> None:
            if _listens(server, f"http://{place}/health"):
                ready(f"http://{USER}:{password}@{place}/")

        return _run(command(port), variables, begun)


def _run(arguments: list[str], variables: Mapping[str, str], begun: Callable[[children.Child], None]) -> int:
    """Run a server until it ends or this process is stopped; end its children too, which MLflow would leave behind."""
    # In a separate session the server and its children form one process group, which can be ended together.
    server = children.start(arguments, variables, secrets=True, start_new_session=True)
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


def _listens(server: children.Child, url: str) -> bool:
    """Wait until the server answers; return whether it does, False where it ended."""
    end = time.monotonic() + PATIENCE_SECONDS
    while server.poll() is None:
        with contextlib.suppress(OSError):
            if WebServer(url).request("", timeout=5, most=1).status == HTTPStatus.OK:
                return True
        if time.monotonic() > end:
            raise TuneVflError(f"MLflow does not answer at {url} after {PATIENCE_SECONDS:.0f} s")
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
