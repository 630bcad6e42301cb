"""The MLflow UI on loopback."""

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
    """Return the command that shows a tracking store on 127.0.0.1.

    Raises:
        UsageError: when ``uri`` is a server, which has a UI of its own.
    """
    if uri.startswith(("http://", "https://", "databricks")):
        raise UsageError(f"{uri} is a tracking server and has its own UI: open {uri} in a browser")
    # One worker is enough for one person and starts four times sooner.
    options = ["--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "ui", *options]


def serve(uri: str | None = None, port: int = 5000) -> int:
    """Show the MLflow UI on loopback until it is interrupted.

    Args:
        uri: the tracking URI; None for ``MLFLOW_TRACKING_URI`` or the embedded MLflow.
        port: where to listen.

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
    """Run a server until it or we are ended. Its own children are ended with it: MLflow leaves them behind."""
    # A session of its own makes it a group that can be ended as a whole.
    server = subprocess.Popen(arguments, start_new_session=True)  # noqa: S603 - our own words
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
        # As the server itself does: a port that an ended server held moments ago counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise TuneVflError(
                f"port {port} on 127.0.0.1 is taken ({error.strerror}); choose another with --port"
            ) from error
