"""The one way out for HTTP: a secret goes along only where the very connection shows whose its other end is."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import os
import socket
import ssl
import stat
import struct
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from tune_vfl.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

UNIX = "unix://"
ACCEPT_SECONDS = 5.0
"""How long a process of this user may take to accept a connection."""


class Reply(NamedTuple):
    """The answer of a server; a redirection is an answer like another, and is not followed.

    Attributes:
        status: the HTTP status.
        kind: the content type; empty where none is named.
        body: all of it, or as much as was asked for.
    """

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True)
class WebServer:
    """A server, and the token that it may be given.

    Each request has a connection of its own. With a token it is decided on before a byte is sent: https is believed by
    its certificate, a Unix socket and a port of this machine where a process of this user is at the other end, http to
    another machine where the user has named it. A proxy is used for https alone, which hides everything from it.

    Attributes:
        address: ``http://HOST:PORT``, ``https://HOST:PORT``, each also with a path, or ``unix:///PATH/OF/SOCKET``.
        token: sent as a bearer's; without one nothing is decided.
        named: whether its user has written down that this address may have this token. On this machine that proves
            nothing: any account can listen at a port.
    """

    address: str
    token: str | None = field(default=None, repr=False)
    named: bool = False

    def request(
        self,
        path: str,
        method: str = "GET",
        *,
        body: bytes | None = None,
        kind: str = "",
        timeout: float = 10.0,
        most: int | None = None,
    ) -> Reply:
        """Ask the server.

        Args:
            path: below the address, with its query.
            method: the HTTP method.
            body: sent along.
            kind: the content type of ``body``.
            timeout: seconds for each step.
            most: bytes of the answer that are read; None reads all.

        Raises:
            UnreachableError: when what answers there may be somebody else's; it was told nothing.
            OSError: when nothing answers, or not in HTTP, or the address is none.
        """
        headers = {"Content-Type": kind} if kind else {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            with closing(self._line(timeout)) as line:
                line.request(method, ("" if self.unix_socket else urlsplit(self.address).path) + path, body, headers)
                answer = line.getresponse()
                return Reply(answer.status, answer.getheader("Content-Type") or "", answer.read(most))
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"{self.address} is not believed: its certificate does not hold ({error.verify_message}). Use the name "
                "that the certificate has; SSL_CERT_FILE names another authority's certificate"
            ) from error
        except (http.client.InvalidURL, ValueError) as error:  # a blank in it, or more letters than a host has
            raise ConnectionError(f"{self.address} cannot be asked ({error})") from error
        except http.client.HTTPException as error:
            raise ConnectionError(f"what answers at {self.address} does not speak HTTP") from error

    @property
    def unix_socket(self) -> Path | None:
        """The Unix socket, where the address is one."""
        if not self.address.startswith(UNIX):
            return None
        return Path(self.address.removeprefix(UNIX)).expanduser().resolve()

    def _line(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        if parts.scheme != "https":
            return _Plain(self, timeout)
        host, port, context = parts.hostname or "", parts.port or 443, ssl.create_default_context()
        proxy = urlsplit("//" + getproxies().get("https", "").rpartition("//")[2])
        if not proxy.hostname or is_loopback(self.address) or proxy_bypass(host):
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        line = http.client.HTTPSConnection(proxy.hostname, proxy.port or 80, timeout=timeout, context=context)
        known = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
        credentials = {"Proxy-Authorization": f"Basic {base64.b64encode(known).decode()}"} if proxy.username else {}
        line.set_tunnel(host, port, credentials)
        return line


class _Plain(http.client.HTTPConnection):
    """A connection in the clear, which exists only once its other end may hear what is to be said."""

    def __init__(self, server: WebServer, timeout: float) -> None:
        parts = urlsplit(server.address)
        super().__init__(parts.hostname or "localhost", parts.port or 80, timeout=timeout)
        self._server = server

    def connect(self) -> None:
        """Connect, and decide.

        Raises:
            UnreachableError: when the other end may be somebody else's.
        """
        place = self._server.unix_socket
        if place is None:
            line = socket.create_connection((self.host, self.port), self.timeout)
        else:
            line = socket.socket(socket.AF_UNIX)
            line.settimeout(self.timeout)
        try:
            if place is not None:
                line.connect(str(place))
            if self._server.token:
                _refuse_strangers(self._server, line, place)
        except BaseException:
            line.close()
            raise
        self.sock = line


def _refuse_strangers(server: WebServer, line: socket.socket, place: Path | None) -> None:
    """Raise an UnreachableError unless the other end of a connection in the clear may have the server's token."""
    if place is not None:
        if not _is_own_socket(line, place):
            raise UnreachableError(
                f"the token is not sent to {server.address}: another user of this machine listens there; "
                "make the socket yourself, in a folder of your own"
            )
        return
    whose = other_end(line)
    if whose == "elsewhere" and not server.named:
        raise UnreachableError(
            f"the token is not sent to {server.address}: without https nothing proves that it is the cluster. Forward "
            "the dashboard to this machine (`ssh -L`, `ray dashboard`, `kubectl port-forward`), or give the address a "
            "token_file in clusters.yaml"
        )
    if whose == "stranger":
        raise UnreachableError(
            f"the token is not sent to {server.address}: what listens there is not a process of yours, and may be "
            "another user's. Forward the dashboard yourself to a free port, or to a Unix socket, which nobody can take "
            "(`ssh -NL ~/.ray/head.sock:127.0.0.1:8265 HEAD`, --cluster unix://~/.ray/head.sock)"
        )


def other_end(line: socket.socket) -> Literal["own", "stranger", "elsewhere"]:
    """Say whose the other end of a TCP connection is: a process's of this user, another one's here, another machine's.

    A connection that no process accepts within :data:`ACCEPT_SECONDS` counts as a stranger's.
    """
    here, there = _end(line.getsockname()), _end(line.getpeername())
    if not there[0].is_loopback and here[0] != there[0]:
        return "elsewhere"
    until = time.monotonic() + ACCEPT_SECONDS
    while time.monotonic() < until:
        if any(held.raddr and (_end(held.laddr), _end(held.raddr)) == (there, here) for _, held in own_sockets()):
            return "own"
        time.sleep(0.05)
    return "stranger"


def _is_own_socket(line: socket.socket, place: Path) -> bool:
    if credentials := getattr(socket, "SO_PEERCRED", None):
        _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, credentials, struct.calcsize("3i")))
        return bool(user == os.getuid())
    folder = place.parent.stat()
    return folder.st_uid == os.getuid() and not folder.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _end(address: Any) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Return one end of a TCP connection; a mapped address is the IPv4 address that it stands for."""
    given = ipaddress.ip_address(address[0])
    return getattr(given, "ipv4_mapped", None) or given, int(address[1])


def is_loopback(address: str) -> bool:
    """Say whether a URL, by its words alone, stays on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or address.startswith(UNIX)


def own_sockets() -> Iterator[tuple[int, Any]]:
    """Yield each TCP socket that a process of this user holds: the process's id, and what psutil says of the socket."""
    import psutil

    try:
        held = [(found.pid, found) for found in psutil.net_connections("tcp") if found.pid]
    except psutil.AccessDenied:  # a system that shows each process by itself only
        held = [(process.pid, found) for process in psutil.process_iter() for found in _sockets_of(process)]
    for pid, found in held:
        try:
            ours = psutil.Process(pid).uids().real == os.getuid()
        except psutil.Error:  # it has ended
            continue
        if ours:
            yield pid, found


def _sockets_of(process: Any) -> list[Any]:
    import psutil

    try:
        return list(process.net_connections("tcp"))
    except psutil.Error:  # it has ended, or is another user's
        return []
