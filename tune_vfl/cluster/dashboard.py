"""Where a Ray cluster's dashboard listens, the token it wants, how it answers: a few HTTP questions, no Ray import."""

from __future__ import annotations

import ipaddress
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tune_vfl.errors import UnreachableError, UsageError
from tune_vfl.machine.secrets import keep_private, token_file

DEFAULT_ADDRESS = "http://127.0.0.1:8265"
Answer = Literal["open", "token", "wrong_token", "away", "other"]


def dashboard_address(given: str | None = None) -> str:
    """Return the URL of the cluster's dashboard, which serves the Jobs API.

    Args:
        given: what the user typed; else ``RAY_API_SERVER_ADDRESS``, else ``RAY_ADDRESS`` if it is a URL, else loopback.

    Raises:
        UsageError: for anything but an http or https URL. Ray itself would import the scheme as a module.
    """
    ray_address = os.environ.get("RAY_ADDRESS", "")
    fallback = ray_address if ray_address.startswith(("http://", "https://")) else DEFAULT_ADDRESS
    address = (given or os.environ.get("RAY_API_SERVER_ADDRESS") or fallback).rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"--address {address!r}: expected the dashboard's URL, such as {DEFAULT_ADDRESS}")
    return address


def is_loopback(address: str) -> bool:
    """Say whether a URL stays on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_token(file: Path | None = None) -> str | None:
    """Return the cluster's token, from the places where Ray looks for it.

    ``RAY_AUTH_TOKEN``, else the file at ``RAY_AUTH_TOKEN_PATH``, else ``~/.ray/auth_token``. A file of ours that others
    could read is made ours alone.

    Args:
        file: the cluster's own, which comes before all of them.

    Raises:
        UsageError: when the file, or the one that ``RAY_AUTH_TOKEN_PATH`` names, cannot be read or is empty.
    """
    if file is None and (token := os.environ.get("RAY_AUTH_TOKEN", "").strip()):
        return token
    named = file is not None or bool(os.environ.get("RAY_AUTH_TOKEN_PATH"))
    path = file or token_file()
    where = "token_file" if file is not None else "RAY_AUTH_TOKEN_PATH"
    try:
        token = path.read_text(encoding="utf-8").strip()
        keep_private(path)
    except (OSError, UnicodeDecodeError) as error:
        if named:
            raise UsageError(f"{where}: {path} cannot be read ({error})") from error
        return None
    if named and not token:
        raise UsageError(f"{where}: {path} is empty; write the cluster's token into it")
    return token or None


def bearer(token: str | None) -> dict[str, str]:
    """Return the header that carries the token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def ask(address: str, token: str | None = None, timeout: float = 5.0) -> Answer:
    """Ask a dashboard for its jobs and say how it answers.

    Args:
        address: from :func:`dashboard_address`.
        token: sent along when given.
        timeout: seconds.

    Returns:
        ``open`` when it answers, ``token`` when it wants one, ``wrong_token`` when it refuses this one, ``away`` when
        nothing answers, ``other`` when something that is no Ray dashboard does.
    """
    try:
        with _opened(f"{address}/api/jobs/", token, timeout) as reply:
            return "open" if reply.status == 200 and reply.read(1)[:1] == b"[" else "other"
    except urllib.error.HTTPError as error:
        refusals: dict[int, Answer] = {401: "token", 403: "wrong_token"}
        return refusals.get(error.code, "other")
    except (OSError, ValueError):
        return "away"


def fetch(url: str, token: str | None = None, timeout: float = 10.0) -> bytes | None:
    """Return what a dashboard answers; None when it does not, or refuses."""
    try:
        with _opened(url, token, timeout) as reply:
            return bytes(reply.read())
    except (OSError, ValueError):
        return None


def _opened(url: str, token: str | None, timeout: float) -> Any:
    request = urllib.request.Request(url, headers=bearer(token))  # noqa: S310 - http(s), see dashboard_address
    proxies = urllib.request.ProxyHandler({}) if is_loopback(url) else _NoOp()
    direct = urllib.request.build_opener(proxies, _Stays())
    return direct.open(request, timeout=timeout)


class _NoOp(urllib.request.BaseHandler):
    """Leaves the default proxies in place."""


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no answer to another address: the token would go along."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request, so that the answer counts as an error."""


def require_answer(address: str, token: str | None) -> None:
    """Make sure that the Jobs API answers us, or say what to do.

    Raises:
        UnreachableError: with what was found and the next step.
    """
    answer = ask(address, token)
    where = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
    reasons = {
        "away": f"no Ray cluster answers at {address}; is it up, and is its dashboard forwarded "
        "(`ray dashboard cluster.yaml`)?",
        "token": f"the cluster at {address} wants a token and none was given; put it into {where}",
        "wrong_token": f"the cluster at {address} refuses the token; the right one belongs into {where}",
        "other": f"what answers at {address} is no Ray Jobs API; give the URL of the cluster's dashboard",
    }
    if answer in reasons:
        raise UnreachableError(reasons[answer])
