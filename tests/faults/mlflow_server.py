"""A real MLflow server behind a door that tests open, close and slow down."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.helpers.ports import free_port


class Server:
    """`mlflow server` on a free port of the loopback, its files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/server.db"]
        command += ["--artifacts-destination", str(folder / "artifacts")]
        self._log = (folder / "log").open("wb")
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # six processes that nobody asks
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, start_new_session=True, env=environment
        )
        end = time.monotonic() + 180
        while not self._answers():
            assert self._process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, "the server does not come up"
            time.sleep(0.3)

    def _answers(self) -> bool:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200
        except OSError:
            return False

    def client(self) -> Any:
        import mlflow

        return mlflow.MlflowClient(tracking_uri=f"http://127.0.0.1:{self.port}")

    def remove(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


class Door:
    """Passes connections on to a port, unless it is shut; ``delay`` is in seconds, before each connection."""

    def __init__(self, port: int) -> None:
        self.is_open, self.delay, self._port = True, 0.0, port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._serve, daemon=True).start()

    def shut(self) -> None:
        """Refuse what comes, and cut off what there is."""
        self.is_open = False
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def remove(self) -> None:
        self.shut()
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(caller,), daemon=True).start()

    def _pass_on(self, caller: socket.socket) -> None:
        time.sleep(self.delay)
        if not self.is_open:
            caller.close()
            return
        server = socket.create_connection(("127.0.0.1", self._port))
        self._open |= {caller, server}
        back = threading.Thread(target=_pump, args=(server, caller), daemon=True)
        back.start()
        _pump(caller, server)
        back.join()
        self._open -= {caller, server}
        caller.close()
        server.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
