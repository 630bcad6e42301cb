"""A dashboard that may be given the cluster's token: proven by its certificate, or forwarded by this user's process."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tune_vfl.cluster.dashboard import is_loopback
from tune_vfl.errors import UnreachableError
from tune_vfl.machine.network import listens

if TYPE_CHECKING:
    from collections.abc import Iterator


def refuse_strangers(address: str, *, named: bool = False) -> None:
    """Refuse to send a token to what may not be the cluster.

    Another user of this machine may listen where a forwarded dashboard is expected, and another machine may answer in
    the place of the head: over http, neither proves what it is.

    Args:
        address: the dashboard's URL.
        named: whether ``clusters.yaml`` gives this address a token of its own, which says that it is the cluster's; on
            this machine that proves nothing.

    Raises:
        UnreachableError: with what to do instead.
    """
    parts = urlsplit(address)
    if parts.scheme == "https":
        return
    if not is_loopback(address):
        if named:
            return
        raise UnreachableError(
            f"the token is not sent to {address}: without https nothing proves that it is the cluster. Forward the "
            "dashboard to this machine (`ray dashboard`, ssh -L, kubectl port-forward), or give the address a "
            "token_file in clusters.yaml"
        )
    port = parts.port or 80
    for host in _addresses(parts.hostname or "", port):
        if listens(f"{host}:{port}") and not _is_ours(host, port):
            raise UnreachableError(
                f"the token is not sent to {address}: what listens at {host} port {port} is not a process of yours, "
                "and may be another user's; forward the dashboard yourself to a free port, and give that with --address"
            )


def _addresses(host: str, port: int) -> set[str]:
    """Return the addresses that a name of this machine may lead to."""
    return {str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}


def _is_ours(host: str, port: int) -> bool:
    mine = ipaddress.ip_address(host)
    for held in _own_listeners(port):
        address = ipaddress.ip_address(held)
        address = getattr(address, "ipv4_mapped", None) or address
        if address == mine or address.is_unspecified:
            return True
    return False


def _own_listeners(port: int) -> Iterator[str]:
    """Yield the addresses at which processes of this user listen."""
    import psutil

    for process in psutil.process_iter():
        try:
            sockets = process.net_connections("tcp") if process.uids().real == os.getuid() else []
        except psutil.Error:  # it has ended, or changed its user
            continue
        yield from (s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN and s.laddr.port == port)
