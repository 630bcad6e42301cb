"""The shell lines of cluster/local.yaml: a node takes the place of the one before it, and of no other Ray.

A made-up ``ray`` stands for the real one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RAY = """#!/bin/sh
echo "$@"
echo "Ray runtime started."
exec sleep 60 "$@"
"""
SLEEP = "#!/usr/bin/env python3\nimport time\ntime.sleep(60)\n"


class Machine:
    """A home with a made-up ``ray``, and the lines that a role runs there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "tune-vfl-env/bin").mkdir(parents=True)
        self.install("ray", RAY)
        self.install("sleep-long", SLEEP)

    def install(self, name: str, text: str) -> None:
        place = self.home / "tune-vfl-env/bin" / name
        place.write_text(text.replace("exec sleep 60", f"exec {place.parent}/sleep-long"))
        place.chmod(0o755)

    def run(self, lines: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"HOME": str(self.home), "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}
        environment["RAY_HEAD_IP"] = "192.0.2.9"
        # As Ray types it: in parentheses, by an interactive shell, which is no part of the test.
        return subprocess.run(
            ["bash", "-c", f"({lines})"], env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    def start(self, role: str) -> list[subprocess.CompletedProcess[str]]:
        raw = yaml.safe_load((ROOT / "cluster/local.yaml").read_text(encoding="utf-8"))
        return [self.run(lines) for lines in raw[f"{role}_start_ray_commands"]]

    def stop(self) -> subprocess.CompletedProcess[str]:
        """Take the cluster down as docs/cluster.md says."""
        (line,) = [s for s in (ROOT / "docs/cluster.md").read_text(encoding="utf-8").splitlines() if "pkill" in s]
        return self.run(line.partition("local.yaml '")[2].rstrip("'"))

    @property
    def nodes(self) -> set[int]:
        found = self.run('pgrep -u "$(id -u)" -f "[-]-temp-dir=$HOME/.tune-vfl-node/ray"').stdout
        return {int(pid) for pid in found.split()}

    @property
    def log(self) -> str:
        return (self.home / ".tune-vfl-node/log").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    yield found
    found.stop()


@pytest.mark.parametrize("role", ["head", "worker"])
def test_a_node_is_replaced_and_stopped_and_others_stay(machine: Machine, tmp_path: Path, role: str) -> None:
    (tmp_path / "other").mkdir()
    other = Machine(tmp_path / "other")
    try:
        assert [r.returncode for r in other.start("worker")] == [0, 0]
        stays = other.nodes
        assert [r.returncode for r in machine.start(role)] == [0, 0]
        (first,) = machine.nodes
        address = {
            "head": '--head --node-ip-address=192.0.2.2 --port=6379 --resources={"tune_vfl_driver": 8}',
            "worker": "--address=192.0.2.9:6379",
        }
        assert f"start --block --temp-dir={tmp_path}/.tune-vfl-node/ray {address[role]}" in machine.log
        assert (tmp_path / ".tune-vfl-node").stat().st_mode & 0o777 == 0o700
        assert [r.returncode for r in machine.start(role)] == [0, 0]
        (second,) = machine.nodes
        assert second != first
        assert machine.stop().returncode == 0
        ends = time.monotonic() + 30
        while machine.nodes and time.monotonic() < ends:
            time.sleep(0.2)
        assert machine.nodes == set()
        assert other.nodes == stays
    finally:
        other.stop()


@pytest.mark.parametrize("role", ["head", "worker"])
def test_a_node_that_does_not_come_up_says_why(machine: Machine, role: str) -> None:
    machine.install("ray", "#!/bin/sh\necho no room here\nexit 1\n")
    _, started = machine.start(role)
    assert started.returncode == 1
    assert started.stderr.endswith("log ends with:\nno room here\n")
