"""Ports of this machine that nothing listens at."""

import socket


def free_port() -> int:
    """Return a port of the loopback that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
