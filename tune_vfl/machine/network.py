"""Checks of the network that cost seconds where a library would wait for minutes."""

from __future__ import annotations

import socket

from tune_vfl.errors import UnreachableError

SECONDS = 5.0


def listens(address: str) -> bool:
    """Return whether a server accepts connections at ``HOST:PORT``."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def require_loopback() -> None:
    """Check that this machine can connect to itself.

    Raises:
        UnreachableError: when it cannot, as in a sandbox without a network.
    """
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=SECONDS),
        ):
            pass
    except OSError as error:
        raise UnreachableError(
            f"this machine cannot connect to itself at 127.0.0.1 ({error.strerror or error}), where Ray speaks "
            "to each other: bring the loopback up (ip link set lo up), or leave the sandbox"
        ) from error


def require_ray_head(address: str) -> None:
    """Check that a Ray head may answer at an address, before Ray tries for a quarter of an hour.

    Args:
        address: ``HOST:PORT`` or ``ray://HOST:PORT``; others are not looked at.

    Raises:
        UnreachableError: when nothing listens there, or something else than a server of Ray's protocol.
    """
    place, advice = address.removeprefix("ray://"), "unset RAY_ADDRESS to search on this machine alone"
    if "://" in place or ":" not in place:
        return
    if not listens(place):
        raise UnreachableError(
            f"the cluster at RAY_ADDRESS={address} cannot be reached: nothing listens there; bring it up, or {advice}"
        )
    import grpc

    with grpc.insecure_channel(place, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=2 * SECONDS)
        except grpc.FutureTimeoutError as error:
            raise UnreachableError(
                f"what listens at RAY_ADDRESS={address} is no Ray head; correct it, or {advice}"
            ) from error
