"""Where a Ray cluster's dashboard listens, the token it wants, how it answers: a few HTTP questions, no Ray import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from tune_vfl.errors import UnreachableError, UsageError
from tune_vfl.machine.secrets import keep_private, token_file
from tune_vfl.machine.web import UNIX, WebServer

DEFAULT_ADDRESS = "http://127.0.0.1:8265"
Answer = Literal["open", "token", "wrong_token", "away", "other"]


def dashboard_address(given: str | None = None) -> str:
    """Return the address of the cluster's dashboard, which serves the Jobs API.

    Args:
        given: what the user typed; else ``RAY_API_SERVER_ADDRESS``, else ``RAY_ADDRESS`` if it is a URL, else loopback.

    Raises:
        UsageError: for anything but an http or https URL, or ``unix:///PATH/OF/SOCKET``. Ray itself would import the
            scheme as a module.
    """
    ray_address = os.environ.get("RAY_ADDRESS", "")
    fallback = ray_address if is_dashboard(ray_address) else DEFAULT_ADDRESS
    address = (given or os.environ.get("RAY_API_SERVER_ADDRESS") or fallback).rstrip("/")
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and "@" not in parts.netloc and (parts.port is None or parts.port > 0)
        if address.startswith(UNIX):
            usable = Path(address.removeprefix(UNIX)).expanduser().is_absolute()
    except (ValueError, RuntimeError):  # the latter for the home of a user that there is not
        usable = False
    if not (usable and is_dashboard(address)):
        raise UsageError(
            f"--address {address!r}: expected the dashboard's URL, such as {DEFAULT_ADDRESS} or "
            "unix:///home/me/.ray/head.sock"
        )
    return address


def is_dashboard(address: str) -> bool:
    """Say whether a Ray address names a dashboard, and not the port of a head."""
    return address.startswith(("http://", "https://", UNIX))


def find_token(file: Path | None = None) -> str | None:
    """Return the cluster's token, from the places where Ray looks for it.

    ``RAY_AUTH_TOKEN``, else the file at ``RAY_AUTH_TOKEN_PATH``, else ``~/.ray/auth_token``. A file of ours that others
    could read is made ours alone.

    Args:
        file: the cluster's own, which comes before all of them.

    Raises:
        UsageError: when the file, or the one that ``RAY_AUTH_TOKEN_PATH`` names, cannot be read or is empty,
            and when what was found cannot be a token.
    """
    if file is None and (token := os.environ.get("RAY_AUTH_TOKEN", "").strip()):
        return _whole(token, "RAY_AUTH_TOKEN")
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
    return _whole(token, str(path)) or None


def _whole(token: str, where: str) -> str:
    if any(not "!" <= letter <= "~" for letter in token):  # a header cannot carry it
        raise UsageError(f"{where}: expected a token of ASCII letters and digits, got one with blanks or other signs")
    return token


def ask(server: WebServer, timeout: float = 5.0) -> Answer:
    """Ask a dashboard for its jobs and say how it answers.

    Args:
        server: the dashboard, with the token that is sent along.
        timeout: seconds.

    Returns:
        ``open`` when it answers, ``token`` when it wants one, ``wrong_token`` when it refuses this one, ``away`` when
        nothing answers, ``other`` when something that is no Ray dashboard does.

    Raises:
        UnreachableError: when what answers there may be somebody else's, and is not told the token.
    """
    try:
        reply = server.request("/api/jobs/", timeout=timeout, most=1)
    except OSError:
        return "away"
    if (reply.status, reply.body) == (200, b"["):
        return "open"
    refusals: dict[int, Answer] = {401: "token", 403: "wrong_token"}
    return refusals.get(reply.status, "other")


def require_answer(server: WebServer) -> None:
    """Make sure that the Jobs API answers us, or say what to do.

    Raises:
        UnreachableError: with what was found and the next step.
    """
    answer, address = ask(server), server.address
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
