"""The exposure check of ``tune-vfl doctor``: ports of this user's Ray and MLflow that other machines can reach.

Each socket that listens beyond the loopback gets a request without a token, at the address that other machines see.
Two things are used that Ray does not document, as release 2.60 has them: the command lines of its processes, and the
health check of a head. Its documented questions to a head (``ray status``, ``ray.util.state``) send the user's token
along, which no stranger has. A Ray with other command lines is not found; one without that check counts as no head.
"""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tune_vfl.machine.web import WebServer, own_sockets
from tune_vfl.service.checks import Health

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["gcs", "dashboard", "ray", "mlflow"]
_SECONDS = 3.0
_HEAD = "--gcs-address="
_CLOSE = "stop it, or start it with RAY_AUTH_MODE=token and a token in ~/.ray/auth_token (see SECURITY.md)"


class Door(NamedTuple):
    """A socket that accepts connections.

    Attributes:
        kind: the kind of program.
        host: the bound address; an unspecified one is every address of the machine.
        port: the bound port.
        head: ``HOST:PORT`` of the Ray head that the program was started for; empty where its command line has none.
    """

    kind: Kind
    host: str
    port: int
    head: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the socket listens beyond the loopback."""
        address = ipaddress.ip_address(self.host)
        return not (getattr(address, "ipv4_mapped", None) or address).is_loopback


def examine_doors() -> list[Health]:
    """Check this user's Ray processes and MLflow servers on this machine."""
    found = sorted(set(doors()))
    outside = outward_address()
    if not found or outside is None:
        return [Health("open ports", "ok", "no Ray and no MLflow of yours runs here" if not found else "no network")]
    reachable = [door for door in found if door.is_open]
    checks = [_ray(outside, [d for d in reachable if d.kind != "mlflow"])]
    checks += [_mlflow(outside, door) for door in reachable if door.kind == "mlflow"]
    told = [check for check in checks if check is not None]
    return told or [Health("open ports", "ok", f"{len(found)} ports of your Ray and MLflow, all on loopback")]


def outward_address() -> str | None:
    """Return the address under which other machines see this one; None without a network. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address reserved for documentation
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _ray(outside: str, reachable: list[Door]) -> Health | None:
    if not reachable:
        return None
    ports = sorted({door.port for door in reachable})
    name = f"Ray at {outside}, ports {', '.join(map(str, ports[:8]))}{' ...' if len(ports) > 8 else ''}"
    answering = [d.port for d in reachable if d.kind in ("gcs", "dashboard") and _answers(outside, d)]
    if answering:
        listed = ", ".join(map(str, answering))
        return Health("open ports", "finding", f"{name}: {listed} answers other machines without a token", _CLOSE)
    return Health("open ports", "ok", f"{name}: reachable from other machines, want a token (load figures need none)")


def _mlflow(outside: str, door: Door) -> Health | None:
    if not _http(outside, door.port, "/"):
        return None
    advice = "whoever reaches it may read, change and delete every run: serve it with 'tune-vfl ui', on loopback"
    return Health("open ports", "finding", f"MLflow answers other machines at {outside}:{door.port}", advice)


def _answers(host: str, door: Door) -> bool:
    # A dashboard's process also has a port for metrics, which answers every path.
    return gcs_answers(host, door.port) if door.kind == "gcs" else _http(host, door.port, "/api/jobs/", b"[")


def gcs_answers(host: str, port: int) -> bool:
    """Return whether a Ray head answers a health check without a token."""
    return head_answer(host, port) == "open"


def head_answer(host: str, port: int) -> Literal["open", "token", "other"]:
    """Ask a Ray head for a health check, without a token.

    Returns:
        ``open`` when it answers, ``token`` when it wants one, ``other`` when no Ray head answers.
    """
    import grpc

    with grpc.insecure_channel(f"{host}:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        ask = channel.unary_unary("/ray.rpc.NodeInfoGcsService/CheckAlive")
        try:
            ask(b"", timeout=_SECONDS)
        except grpc.RpcError as error:
            return "token" if error.code() == grpc.StatusCode.UNAUTHENTICATED else "other"
    return "open"


def _http(host: str, port: int, path: str, start: bytes = b"") -> bool:
    try:
        reply = WebServer(f"http://{host}:{port}").request(path, timeout=_SECONDS, most=max(len(start), 1))
    except OSError:
        return False
    return reply.status == 200 and reply.body.startswith(start)


def doors() -> Iterator[Door]:
    """Yield the listening sockets of this user's Ray processes and MLflow servers."""
    import psutil

    for pid, held in own_sockets():
        try:
            words = psutil.Process(pid).cmdline() if held.status == psutil.CONN_LISTEN else []
        except psutil.Error:  # it has ended
            continue
        if kind := kind_of(words):
            heads = [word.removeprefix(_HEAD) for word in words if word.startswith(_HEAD)]
            yield Door(kind, held.laddr.ip, held.laddr.port, heads[0] if heads else "")


def kind_of(arguments: list[str]) -> Kind | None:
    """Return the kind of a process by its command line; None for another program."""
    line = " ".join(arguments)
    program = Path(line.split(" ")[0]).name
    if program == "gcs_server":
        return "gcs"
    if "ray/dashboard/dashboard.py" in line:
        return "dashboard"
    if program == "raylet" or program.startswith("ray::") or "/ray/dashboard/" in line or "/ray/_private/" in line:
        return "ray"
    if "mlflow" in line and any(word in line for word in ("mlflow ui", "mlflow server", "mlflow.server")):
        return "mlflow"
    return None
