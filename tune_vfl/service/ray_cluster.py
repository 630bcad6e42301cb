"""The cluster check of ``tune-vfl doctor``: whether a Ray dashboard (HTTP) and GCS (gRPC) answer without a token."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tune_vfl.cluster.dashboard import ask, find_token
from tune_vfl.cluster.own_ports import refuse_strangers
from tune_vfl.errors import UnreachableError
from tune_vfl.machine.network import listens
from tune_vfl.service.checks import Check
from tune_vfl.service.open_doors import gcs_answers

OPEN_ADVICE = (
    "anyone who reaches it can run code there: start every node with RAY_AUTH_MODE=token and the same token "
    "(see docs/cluster.md)"
)
# Run in a subprocess: Ray reads the mode of authentication once per process.
_PROBE = """
import json, sys
from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient
try:
    print(json.dumps({"dashboard": JobSubmissionClient(sys.argv[1]).get_address()}))
except AuthenticationError:
    print(json.dumps({"refused": True}))
"""


def examine_cluster(address: str) -> list[Check]:
    """Check the cluster at a ``RAY_ADDRESS``: ``http://HOST:PORT``, ``ray://HOST:PORT``, ``HOST:PORT`` or ``auto``."""
    if address.startswith(("http://", "https://")):
        return [_dashboard(address.rstrip("/"))]
    if address.startswith("ray://"):
        return [_port(address.removeprefix("ray://"))]
    return _head(address)


def _dashboard(url: str) -> Check:
    answer = ask(url)
    if answer == "away":
        return Check("dashboard", "unreachable", f"nothing answers at {url}", "ray dashboard cluster.yaml forwards it")
    if answer == "open":
        return Check("dashboard", "finding", f"{url} answers without a token", OPEN_ADVICE)
    if answer == "other":
        return Check("dashboard", "finding", f"what answers at {url} is no Ray dashboard", "give the dashboard's URL")
    try:
        refuse_strangers(url)
    except UnreachableError as error:
        return Check("dashboard", "finding", str(error), "see docs/cluster.md")
    ours = ask(url, find_token()) if find_token() else "token"
    if ours == "open":
        return Check("dashboard", "ok", f"{url} wants a token and takes ours")
    advice = "put the cluster's token into RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
    return Check(
        "dashboard", "finding", f"{url} wants a token and {'refuses ours' if find_token() else 'we have none'}", advice
    )


def _port(address: str) -> Check:
    if not listens(address):
        return Check(
            "cluster", "unreachable", f"nothing listens at {address}", "is the cluster up? (ray up cluster.yaml)"
        )
    return Check("cluster", "ok", f"something listens at {address}; its token cannot be checked through Ray Client")


def _head(address: str) -> list[Check]:
    """Check a Ray head, and its dashboard where our token is taken."""
    if address != "auto":
        if not listens(address):
            advice = "is the cluster up? Unset RAY_ADDRESS to search on this machine alone"
            return [Check("cluster", "unreachable", f"nothing listens at {address}", advice)]
        host, _, port = address.rpartition(":")
        if gcs_answers(host, int(port)):
            return [Check("cluster", "finding", f"{address} answers without a token", OPEN_ADVICE)]
    seen = _seen(address)
    if "dashboard" in seen:
        taken = Check("cluster", "ok", f"{address} wants a token and takes ours" if address != "auto" else "it is up")
        return [taken, _dashboard(str(seen["dashboard"]))]
    if seen.get("refused"):
        advice = (
            "set RAY_AUTH_MODE=token and put the token into RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
        )
        return [Check("cluster", "finding", f"{address} wants a token and refuses ours", advice)]
    if address == "auto":
        return [
            Check("cluster", "unreachable", "RAY_ADDRESS=auto, and no Ray runs on this machine", "ray start --head")
        ]
    return [Check("cluster", "unreachable", f"what listens at {address} is no Ray head", "check RAY_ADDRESS")]


def _seen(address: str) -> dict[str, object]:
    """Return the dashboard's URL if the head takes our token, or that it refuses it; empty where no head answers."""
    # Ray prefers an address of the environment to the one that it is given.
    own = {"RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"}
    environment = {k: v for k, v in os.environ.items() if k not in own and not k.startswith("RAY_AUTH_")}
    token = find_token()
    environment["RAY_AUTH_MODE"] = "token" if token else "disabled"
    if token:
        environment["RAY_AUTH_TOKEN"] = token
    try:
        ran = subprocess.run(  # noqa: S603 - our own words and an address
            [sys.executable, "-c", _PROBE, address],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env=environment,
        )
        seen = json.loads(ran.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, json.JSONDecodeError):
        return {}
    return seen if isinstance(seen, dict) else {}
