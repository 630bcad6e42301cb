"""What is wrong with the network is said within seconds, by its own name."""

import shutil
import socket
import subprocess
import sys
import time

import pytest

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.network import listens, require_loopback, require_ray_head


def test_a_cluster_that_is_gone_is_said_at_once() -> None:
    begun = time.monotonic()
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9"):
        with pytest.raises(UnreachableError, match="nothing listens there"):
            require_ray_head(address)
    assert time.monotonic() - begun < 30


def test_another_server_is_told_from_a_ray_head() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert listens(address)
        with pytest.raises(UnreachableError, match="is no Ray head"):
            require_ray_head(address)


@pytest.mark.parametrize("address", ["auto", "http://127.0.0.1:9", "local"])
def test_other_addresses_are_left_to_ray(address: str) -> None:
    require_ray_head(address)


@pytest.mark.parametrize("address", ["", "host", "host:port", "no.such.host.invalid:1"])
def test_nothing_listens_at_what_is_no_address(address: str) -> None:
    assert not listens(address)


def test_a_machine_without_a_loopback_is_told() -> None:
    require_loopback()
    code = "from tune_vfl.machine.network import require_loopback as f; f()"
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    ran = subprocess.run(
        ["unshare", "-r", "-n", sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if "unshare failed" in ran.stderr or "Operation not permitted" in ran.stderr:
        pytest.skip("this user may make no network namespace")
    assert "cannot connect to itself at 127.0.0.1" in ran.stderr
