"""A door of this process to a dashboard: Ray's own clients speak to it, and never hold the cluster's token."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Literal, cast

from tune_vfl.errors import TuneVflError, UnreachableError
from tune_vfl.machine.environment import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.job_submission import JobSubmissionClient

    from tune_vfl.machine.web import WebServer

_SECONDS = 300.0
_MOST_STATES = 10_000  # Ray's limit of one answer
# Ray looks into these before it looks at the address it is given.
_OVERRIDES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")


class Relay(socketserver.ThreadingTCPServer):
    """Passes on what comes with its own password: the cluster's token takes that one's place, request by request.

    Ray's client sends its headers wherever its address leads, on every request, and asks nobody.

    Args:
        server: the dashboard.

    Attributes:
        server: the dashboard.
        password: in the place of the token; drawn anew for each relay.
        failure: why the last request got no answer.
    """

    daemon_threads = True

    def __init__(self, server: WebServer) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.server, self.password = server, secrets.token_urlsafe(32)
        self.failure: UnreachableError | None = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """The URL of the relay."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def client(self) -> JobSubmissionClient:
        """Return Ray's client of jobs, which speaks to this relay alone.

        Raises:
            UnreachableError: when the cluster does not answer, or may not be given the token.
        """
        from ray.job_submission import JobSubmissionClient

        for handler in logging.getLogger("ray").handlers:
            handler.setLevel(logging.WARNING)  # Ray reports each upload
        with self.calls(), environment(dict.fromkeys(_OVERRIDES)):
            return JobSubmissionClient(self.address, headers=self._headers())

    def states(self, kind: Literal["nodes", "placement_groups"]) -> list[Any]:
        """Return what Ray's state API lists of a kind, as its ``NodeState`` or ``PlacementGroupState``.

        Nothing is listed where the cluster answers that it cannot.

        Raises:
            UnreachableError: when the cluster does not answer, or may not be given the token.
        """
        from ray.util.state import StateApiClient
        from ray.util.state.common import ListApiOptions, StateResource
        from ray.util.state.exception import RayStateApiException

        with self.calls(), environment(dict.fromkeys(_OVERRIDES)):
            client, options = StateApiClient(self.address, headers=self._headers()), ListApiOptions(limit=_MOST_STATES)
            try:
                return list(client.list(StateResource(kind), options, raise_on_missing_output=False))
            # Ray's client takes any JSON for an answer of its API.
            except (RayStateApiException, TypeError, ValueError, LookupError, RecursionError) as error:
                if self.failure is not None:
                    raise self.failure from error
        return []

    def _headers(self) -> dict[str, str]:
        # With a header of ours Ray adds no token that it finds by itself.
        return {"Authorization": f"Bearer {self.password}"}

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Let the client reach the relay, past all proxies, and turn what it raises into our errors.

        Raises:
            UnreachableError: when the cluster does not answer, or not as one does, refuses the token, or may not be
                given it.
            TuneVflError: when it refuses what is asked.
        """
        from ray.exceptions import AuthenticationError

        self.failure = None
        direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        direct = direct if direct == "*" else f"{direct},127.0.0.1"
        # A password in ~/.netrc would take the place of the relay's.
        try:
            with environment({"no_proxy": direct, "NO_PROXY": direct, "NETRC": os.devnull}):
                yield
        except AuthenticationError as error:
            raise UnreachableError(
                f"the cluster at {self.server.address} refuses the token; has it changed?"
            ) from error
        # Ray's client trusts what it is answered.
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            raise UnreachableError(
                f"what answers at {self.server.address} is no Ray Jobs API ({type(error).__name__}); give the URL of "
                "the cluster's dashboard"
            ) from error
        except OSError as error:
            if self.failure is None:
                raise
            raise self.failure from error
        except RuntimeError as error:
            said = " ".join(str(error).split())[:500]
            raise TuneVflError(f"the cluster at {self.server.address} refused: {said}") from error

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()


class _Passing(BaseHTTPRequestHandler):
    """One request, after which its connection is closed."""

    timeout = _SECONDS

    def _pass_on(self) -> None:
        relay = cast(Relay, self.server)
        given, wanted = self.headers.get("Authorization", ""), f"Bearer {relay.password}"
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            self.send_error(401)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.headers.get("Content-Type", "")
        try:
            reply = relay.server.request(self.path, self.command, body=body or None, kind=kind, timeout=_SECONDS)
        except UnreachableError as error:
            relay.failure = error
        except OSError as error:
            what = f"the cluster at {relay.server.address} does not answer any more ({type(error).__name__})"
            relay.failure = UnreachableError(what)
        else:
            # Where a redirection leads is not passed on, so that the client stays.
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - http.server calls them so

    def log_message(self, *_: object) -> None:
        """Say nothing: stderr is for the person."""
