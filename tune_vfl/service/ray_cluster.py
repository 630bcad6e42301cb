"""The cluster check of ``tune-vfl doctor``: whether a Ray dashboard (HTTP) and GCS (gRPC) answer without a token."""

from __future__ import annotations

import ipaddress
import socket

from tune_vfl.cluster.dashboard import ask, dashboard_address, find_token, is_dashboard
from tune_vfl.errors import UnreachableError
from tune_vfl.machine.network import listens
from tune_vfl.machine.web import WebServer, other_end
from tune_vfl.service.checks import Health
from tune_vfl.service.open_doors import doors, head_answer

OPEN_ADVICE = (
    "anyone who reaches it can run code there: start every node with RAY_AUTH_MODE=token and the same token "
    "(see docs/cluster.md)"
)


def examine_cluster(address: str) -> list[Health]:
    """Check the cluster at a ``RAY_ADDRESS``: its dashboard's URL, ``ray://HOST:PORT``, ``HOST:PORT`` or ``auto``.

    Raises:
        UsageError: for the URL of a dashboard that is none.
    """
    if is_dashboard(address):
        return [_dashboard(dashboard_address(address))]
    if address.startswith("ray://"):
        return [_port(address.removeprefix("ray://"))]
    return _own_heads() if address == "auto" else _head(address)


def _dashboard(url: str) -> Health:
    answer = ask(WebServer(url))
    if answer == "away":
        return Health("dashboard", "unreachable", f"nothing answers at {url}", "ray dashboard cluster.yaml forwards it")
    if answer == "open":
        return Health("dashboard", "finding", f"{url} answers without a token", OPEN_ADVICE)
    if answer == "other":
        return Health("dashboard", "finding", f"what answers at {url} is no Ray dashboard", "give the dashboard's URL")
    try:
        token = find_token()
        ours = ask(WebServer(url, token))
    except UnreachableError as error:
        return Health("dashboard", "finding", str(error), "see docs/cluster.md")
    if ours == "open":
        return Health("dashboard", "ok", f"{url} wants a token and takes ours")
    advice = "put the cluster's token into RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
    return Health(
        "dashboard", "finding", f"{url} wants a token and {'refuses ours' if token else 'we have none'}", advice
    )


def _port(address: str) -> Health:
    if not listens(address):
        return Health(
            "cluster", "unreachable", f"nothing listens at {address}", "is the cluster up? (ray up cluster.yaml)"
        )
    return Health("cluster", "ok", f"something listens at {address}; its token cannot be checked through Ray Client")


def _own_heads() -> list[Health]:
    """Check each Ray head of this user; where Ray itself would look, any account may have written an address."""
    heads = sorted({(door.host, door.port) for door in doors() if door.kind == "gcs"})
    if not heads:
        detail = "RAY_ADDRESS=auto, and no Ray head of yours runs on this machine"
        return [Health("cluster", "unreachable", detail, "ray start --head")]
    return [check for host, port in heads for check in _head(_reached(host, port))]


def _head(address: str) -> list[Health]:
    """Check a Ray head without its token, and with it its dashboard, where both are this user's.

    gRPC goes over the network as it is, and proves of nobody who that is.
    """
    if not listens(address):
        advice = "is the cluster up? Unset RAY_ADDRESS to search on this machine alone"
        return [Health("cluster", "unreachable", f"nothing listens at {address}", advice)]
    host, _, port = address.rpartition(":")
    answer = head_answer(host, int(port))
    if answer == "open":
        return [Health("cluster", "finding", f"{address} answers without a token", OPEN_ADVICE)]
    if answer == "other":
        return [Health("cluster", "unreachable", f"what listens at {address} is no Ray head", "check RAY_ADDRESS")]
    wants = f"{address} wants a token"
    with socket.create_connection((host.strip("[]"), int(port))) as line:
        whose = other_end(line)
    if whose == "stranger":
        advice = "an address of another account: searches would send it your token; unset RAY_ADDRESS"
        return [Health("cluster", "finding", f"{wants}, and is not a process of yours", advice)]
    url = _dashboard_of(int(port)) if whose == "own" else None
    if url is None:
        return [Health("cluster", "ok", f"{wants}; for whether it takes ours set RAY_ADDRESS to its dashboard's URL")]
    dashboard = _dashboard(url)
    taken = Health("cluster", "ok", f"{wants}, and its dashboard takes ours")
    return [taken, dashboard] if dashboard.status == "ok" else [dashboard]


def _dashboard_of(head: int) -> str | None:
    """Return the URL of the dashboard that this user's processes serve for the head at a port."""
    for door in doors():
        if door.kind == "dashboard" and door.head.endswith(f":{head}"):
            url = f"http://{_reached(door.host, door.port)}"
            # The same process listens for those who collect its figures.
            if ask(WebServer(url)) in ("open", "token"):
                return url
    return None


def _reached(host: str, port: int) -> str:
    """Return ``HOST:PORT`` at which this machine reaches what listens there."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return f"127.0.0.1:{port}"
    return f"[{host}]:{port}" if address.version == 6 else f"{host}:{port}"
