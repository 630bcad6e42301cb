"""A token goes to its server and to nobody else: each connection is decided on before a byte is sent."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tune_vfl.errors import UnreachableError
from tune_vfl.machine import web
from tune_vfl.machine.web import WebServer, own_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "0123456789abcdef"  # noqa: S105 - of no server
NOT_OURS = "not a process of yours"
# What another account runs: it writes down what it hears, wants a token, and takes every one.
STRANGER = """
import os, socketserver, sys
place = sys.argv[1]
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
class Hear(socketserver.BaseRequestHandler):
    def handle(self):
        words = self.request.recv(65536)
        print(words, flush=True)
        status = "200 OK" if b"Authorization" in words else "401 Unauthorized"
        self.request.sendall(f"HTTP/1.1 {status}\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n[]".encode())
class Server(socketserver.ThreadingTCPServer if place.isdigit() else socketserver.ThreadingUnixStreamServer):
    allow_reuse_address = daemon_threads = True
with Server(("127.0.0.1", int(place)) if place.isdigit() else place, Hear) as server:
    sys.stderr.write(f"{server.server_address[1]}\\n")
    sys.stderr.flush()
    server.serve_forever()
"""


class Stranger:
    """A process of another account that listens; not as root it is one of ours, and we take ourselves for another."""

    def __init__(self, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._note, self._monkeypatch = note, monkeypatch
        self._note.touch()
        self._running: list[subprocess.Popen[str]] = []

    def listens(self, place: str | int = 0) -> str:
        """Listen at a port of 127.0.0.1, or a Unix socket; return the port."""
        self._monkeypatch.setattr(web, "ACCEPT_SECONDS", 0.3)
        if os.getuid():
            self._monkeypatch.setattr(web.os, "getuid", lambda: 12345)
        words = [sys.executable, "-c", STRANGER, str(place)]
        with self._note.open("a") as note:
            running = subprocess.Popen(words, stdout=note, stderr=subprocess.PIPE, text=True)
        self._running.append(running)
        assert running.stderr is not None
        return running.stderr.readline().strip()

    @property
    def heard(self) -> str:
        return self._note.read_text()

    def ends(self) -> None:
        for running in self._running:
            running.kill()
            running.communicate()


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    found = Stranger(tmp_path / "heard", monkeypatch)
    yield found
    found.ends()


class Listening(BaseHTTPRequestHandler):
    """Takes every token, and wants one."""

    heard: list[str | None]

    def do_GET(self) -> None:
        given = self.headers["Authorization"]
        self.heard.append(given)
        self.send_response(200 if given else 401)
        self.end_headers()
        self.wfile.write(b"[]")

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], place: socket.socket | Path | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[socketserver.BaseServer]:
    """Serve as this user, at a free port of 127.0.0.1, a socket that is bound already, or a Unix socket."""
    if isinstance(place, Path):
        server: socketserver.TCPServer = socketserver.ThreadingUnixStreamServer(str(place), handler)
    else:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler, bind_and_activate=False)
        server.allow_reuse_address = True
        if place is not None:
            server.socket.close()
            server.socket, server.server_address = place, place.getsockname()
        else:
            server.server_bind()
        server.server_activate()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # a client that does not believe it
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def port_of(server: socketserver.BaseServer) -> int:
    return int(server.server_address[1])


@pytest.fixture
def heard() -> list[str | None]:
    return []


@pytest.fixture
def handler(heard: list[str | None]) -> type[Listening]:
    return type("Told", (Listening,), {"heard": heard})


@pytest.fixture
def address(handler: type[Listening]) -> Iterator[str]:
    """What this user's own process serves."""
    with serving(handler) as server:
        yield f"http://127.0.0.1:{port_of(server)}"


def test_ones_own_process_gets_the_token(address: str, heard: list[str | None]) -> None:
    for host in ("127.0.0.1", "localhost"):
        reply = WebServer(address.replace("127.0.0.1", host), TOKEN).request("/x")
        assert (reply.status, reply.body) == (200, b"[]")
    assert heard == [f"Bearer {TOKEN}"] * 2


def test_without_a_token_nobody_is_asked_who_it_is(stranger: Stranger) -> None:
    assert WebServer(f"http://127.0.0.1:{stranger.listens()}").request("/x").status == 401
    assert "GET /x" in stranger.heard


def test_another_users_listener_hears_nothing(stranger: Stranger) -> None:
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"):  # noqa: S104 - where to, not where from
        server = WebServer(f"http://{host}:{stranger.listens()}", TOKEN, named=True)
        with pytest.raises(UnreachableError, match=rf"(?s)not sent to .*{NOT_OURS}.*ssh -NL ~/\.ray/head\.sock"):
            server.request("/x", "POST", body=b"a spec")
    assert set(stranger.heard.split("\n")) <= {"b''", ""}


def test_a_listener_of_ones_own_at_all_ipv6_addresses_is_not_the_one_at_127_0_0_1(
    stranger: Stranger, handler: type[Listening], heard: list[str | None]
) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    port = stranger.listens()
    own = socket.socket(socket.AF_INET6)
    own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    own.bind(("::", int(port)))
    with serving(handler, own):
        with pytest.raises(UnreachableError, match=NOT_OURS):
            WebServer(f"http://127.0.0.1:{port}", TOKEN).request("/x")
        if not os.getuid():
            assert WebServer(f"http://[::1]:{port}", TOKEN).request("/x").status == 200
    assert "Bearer" not in stranger.heard


def test_one_listener_for_both_families_is_known_under_either(
    handler: type[Listening], heard: list[str | None]
) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with serving(handler, socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as server:
        for host in ("127.0.0.1", "[::1]"):
            assert WebServer(f"http://{host}:{port_of(server)}", TOKEN).request("/x").status == 200
    assert heard == [f"Bearer {TOKEN}"] * 2


def test_a_connection_that_nobody_has_accepted_yet_may_still_be_accepted_by_us(
    handler: type[Listening], heard: list[str | None]
) -> None:
    late = socket.create_server(("127.0.0.1", 0))
    found: list[int] = []
    asked = WebServer(f"http://127.0.0.1:{late.getsockname()[1]}", TOKEN)
    asking = threading.Thread(target=lambda: found.append(asked.request("/x").status))
    asking.start()
    while not any(s.raddr and s.raddr.port == late.getsockname()[1] for _, s in own_sockets()):
        pass
    with serving(handler, late):
        asking.join()
    assert (found, heard) == ([200], [f"Bearer {TOKEN}"])


def test_a_system_that_shows_each_process_by_itself_will_do(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    assert WebServer(address, TOKEN).request("/x").status == 200


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each connection lead to another machine, as it looks."""

    class Far(socket.socket):
        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.1", 80

    connect = socket.create_connection

    def far(address: tuple[str, int], timeout: float) -> socket.socket:
        line = Far(fileno=connect(address, timeout).detach())
        line.settimeout(timeout)
        return line

    monkeypatch.setattr(web.socket, "create_connection", far)


def test_another_machine_is_named_or_hears_nothing(
    address: str, heard: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with pytest.raises(UnreachableError, match=r"without https nothing proves.*kubectl port-forward.*token_file"):
        WebServer(address, TOKEN).request("/x")
    assert heard == []
    assert WebServer(address, TOKEN, named=True).request("/x").status == 200


def test_a_unix_socket_of_ones_own_gets_the_token(
    tmp_path: Path, handler: type[Listening], heard: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving(handler, tmp_path / "s"):
        for place in (tmp_path / "s", "~/s"):
            assert WebServer(f"unix://{place}", TOKEN).request("/x").status == 200
    assert heard == [f"Bearer {TOKEN}"] * 2


def test_a_unix_socket_of_another_user_hears_nothing(stranger: Stranger) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        stranger.listens(f"{folder}/s")
        with pytest.raises(UnreachableError, match="another user of this machine listens there"):
            WebServer(f"unix://{folder}/s", TOKEN).request("/x")
    assert "Bearer" not in stranger.heard


@pytest.mark.parametrize(("mode", "trusted"), [(0o700, True), (0o755, False)])
def test_where_a_socket_does_not_say_whose_it_is_its_folder_does(
    mode: int, trusted: bool, tmp_path: Path, handler: type[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    tmp_path.chmod(mode)
    asked = WebServer(f"unix://{tmp_path / 's'}", TOKEN)
    with serving(handler, tmp_path / "s"):
        if trusted:
            assert asked.request("/x").status == 200
        else:
            with pytest.raises(UnreachableError, match="a folder of your own"):
                asked.request("/x")


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_hears_nothing_of_what_goes_in_the_clear(
    variable: str, stranger: Stranger, address: str, heard: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid():
        pytest.skip("a stranger beside one's own server needs root")
    monkeypatch.setenv(variable, f"http://127.0.0.1:{stranger.listens()}")
    assert WebServer(address, TOKEN).request("/x").status == 200
    assert (heard, stranger.heard) == ([f"Bearer {TOKEN}"], "")


@pytest.fixture
def certified(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """What a server shows that has a certificate of its own for 127.0.0.1, and the file that vouches for it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = made.add_extension(x509.SubjectAlternativeName([here]), critical=True)
    pem, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    pem.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    how = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, *how))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    return context, str(pem)


def test_https_is_believed_by_its_certificate(
    certified: tuple[ssl.SSLContext, str],
    handler: type[Listening],
    heard: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context, pem = certified
    with serving(handler, tls=context) as server:
        asked = WebServer(f"https://127.0.0.1:{port_of(server)}", TOKEN)
        with pytest.raises(UnreachableError, match=r"its certificate does not hold .*SSL_CERT_FILE"):
            asked.request("/x")
        assert heard == []
        monkeypatch.setenv("SSL_CERT_FILE", pem)
        # On this machine no proxy is asked; nothing listens there.
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        assert asked.request("/x").status == 200
    assert heard == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_may_carry_https_and_hears_where_to(
    scheme: str, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"{scheme}me:p%40ss@127.0.0.1:{stranger.listens()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with suppress(OSError):  # it leads nowhere
        WebServer("https://head.example", TOKEN).request("/x")
    assert "CONNECT head.example:443" in stranger.heard
    assert "Basic bWU6cEBzcw==" in stranger.heard
    assert TOKEN not in stranger.heard


def test_an_answer_that_leads_elsewhere_is_not_followed(address: str, heard: list[str | None]) -> None:
    class Leading(Listening):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{address}/x")
            self.end_headers()

    with serving(Leading) as server:
        assert WebServer(f"http://127.0.0.1:{port_of(server)}", TOKEN).request("/x").status == 302
    assert heard == []


def test_what_speaks_no_http_does_not_answer() -> None:
    class Other(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.sendall(b"SSH-2.0-OpenSSH_9\r\n")
                self.request.recv(1000)

    with serving(Other) as server, pytest.raises(ConnectionError, match="does not speak HTTP"):
        WebServer(f"http://127.0.0.1:{port_of(server)}").request("/x")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["exa mple", "h" * 300, "a..b", "h\0st"])
def test_an_address_that_no_machine_has_does_not_answer(
    scheme: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(ConnectionError, match="cannot be asked"):
        WebServer(f"{scheme}://{host}").request("/x")


def test_a_proxy_that_is_none_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:99999")
    with pytest.raises(ConnectionError, match="cannot be asked"):
        WebServer("https://cluster.invalid").request("/x")


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(WebServer("http://127.0.0.1:1", TOKEN))
