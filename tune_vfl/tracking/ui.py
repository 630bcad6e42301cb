"""Start the MLflow UI on the loopback address."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

from tune_vfl.errors import TuneVflError, UsageError
from tune_vfl.machine.places import resolve_uri
from tune_vfl.tracking import store


def command(uri: str, port: int) -> list[str]:
    """Return the command line that serves a tracking store on 127.0.0.1.

    Raises:
        UsageError: when ``uri`` is a server, which has a UI of its own.
    """
    if uri.startswith(("http://", "https://", "databricks")):
        raise UsageError(f"{uri} is a tracking server and has its own UI: open {uri} in a browser")
    # One worker is enough for one user and starts in a quarter of the time.
    options = ["--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "ui", *options]


def serve(uri: str | None = None, port: int = 5000) -> int:
    """Serve the MLflow UI on loopback until it is interrupted.

    Args:
        uri: the tracking URI; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.
        port: the port.

    Returns:
        The UI's exit code; 0 when it was interrupted.

    Raises:
        UsageError: when ``uri`` is a server.
        TuneVflError: when the port is taken.
        UnreachableError: when the database cannot be opened.
    """
    chosen = resolve_uri(uri)
    arguments = command(chosen, port)
    _check_free(port)
    store.client(chosen)
    return _run(arguments)


def _run(arguments: list[str]) -> int:
    """Run a server until it ends or this process is stopped; end its children too, which MLflow would leave behind."""
    # In a separate session the server and its children form one process group, which can be ended together.
    # MLflow's six job processes, a quarter of a gigabyte each, are not needed for one user.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **os.environ}
    server = subprocess.Popen(arguments, start_new_session=True, env=environment)  # noqa: S603 - the arguments are ours
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


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
