"""cluster/local.yaml, really brought up: two machines made of two loopback addresses, each with a home of its own.

The commands are those of docs/cluster.md, typed as they stand there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.test_jobs import free_ports

ROOT = Path(__file__).parents[2]
PATIENCE = 900  # seconds of the whole story, on a machine that is busy with other work
HEAD, WORKER = "127.0.0.1", "127.0.0.2"
# ssh looks for a key in the home that the machine's list of users names, which here is nobody's.
KEY = "$(test -f ~/ray_bootstrap_key.pem && echo -i ~/ray_bootstrap_key.pem)"
SSHD = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
NEEDED = {"sshd (Debian's openssh-server)": SSHD, "ssh": shutil.which("ssh"), "rsync": shutil.which("rsync")}
SPEC = {
    "study": "loans",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm"],
    "training": {"epochs": 1},
    "budget": {"trials": 4, "seeds": 1},
    "sampler": "random",
    "resources": {"cpu": 1, "concurrency": 2, "pack": 1},
}
# Minutes: two environments are installed, two nodes started, a study searched on them. By hand, and before a release.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(NEEDED.values()), reason=f"needs {', '.join(k for k, v in NEEDED.items() if not v)}"),
]


def story() -> list[str]:
    """The commands of docs/cluster.md for machines of one's own."""
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    section = text.partition("## Machines of your own\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


class Machines:
    """An sshd that stands for two machines, and a client's home with a key, a cluster file and a spec."""

    head, worker = HEAD, WORKER

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.folder, self.spec = folder, spec
        self.ssh, self.gcs, self.dashboard, self.forwarded, self.agent, self.agent2 = free_ports(6)
        self.client = folder / "c"
        self.homes = {self.head: folder / "h", self.worker: folder / "w"}
        for home in (self.client, folder / "r", *self.homes.values()):
            home.mkdir()
        for home in self.homes.values():
            self._environment(home / "tune-vfl-env")
        for name in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        for place in (folder / "bin", *(home / "tune-vfl-env" / "bin" for home in self.homes.values())):
            place.mkdir(exist_ok=True)
            (place / "ssh").write_text(f'#!/bin/sh\nexec {NEEDED["ssh"]} -p {self.ssh} {KEY} "$@"\n')
            (place / "ssh").chmod(0o755)
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.servers = self._serve()
        self.repository = folder / "r"
        for part in ("pyproject.toml", "README.md", "LICENSE", "tune_vfl", "trainables", "reports", "search_spaces"):
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, self.repository / part)
        (self.repository / "cluster").mkdir()
        (self.repository / "cluster" / "local.yaml").write_text(self._cluster())
        shutil.copy(ROOT / "cluster" / "wheels.sh", self.repository / "cluster")
        (self.repository / "study.yaml").write_text(yaml.safe_dump(self.spec))

    def _serve(self) -> list[subprocess.Popen[bytes]]:
        """Start what answers ssh at the two addresses."""
        config = self.folder / "sshd_config"
        config.write_text(self._sshd_config(self.homes))
        return [subprocess.Popen([str(SSHD), "-D", "-e", "-f", config], stderr=subprocess.DEVNULL)]

    def _environment(self, place: Path) -> None:
        """An environment that sees what is installed here, so that only tune-vfl itself is installed into it."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        site = next((place / "lib").glob("python*")) / "site-packages"
        (site / "here.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        ray = place / "bin" / "ray"
        ray.write_text(f"#!{place / 'bin' / 'python'}\nfrom ray.scripts.scripts import main\n\nmain()\n")
        ray.chmod(0o755)

    def _sshd_config(self, homes: dict[str, Path]) -> str:
        listening = [f"ListenAddress {address}" for address in homes]
        lines = [f"Port {self.ssh}", *listening, "UsePAM no", "StrictModes no"]
        lines += [f"HostKey {self.folder / 'host'}", f"AuthorizedKeysFile {self.folder / 'key.pub'}"]
        lines += ["PidFile none", "PermitRootLogin prohibit-password", "AllowTcpForwarding yes"]
        for address, home in homes.items():
            lines += [f"Match LocalAddress {address}", f"  SetEnv HOME={home} PIP_NO_INDEX=1 RAY_TMPDIR={home}"]
        return "\n".join(lines) + "\n"

    def _cluster(self) -> str:
        """cluster/local.yaml as its user fills it in: addresses, user, key; and what two nodes on one machine need."""
        text = (ROOT / "cluster" / "local.yaml").read_text(encoding="utf-8")
        for before, after in (("6379", self.gcs), ("8265", self.dashboard)):
            text = text.replace(before, str(after))
        one, two = text.split("worker_start_ray_commands")
        text = (
            one.replace("52365", str(self.agent)) + "worker_start_ray_commands" + two.replace("52365", str(self.agent2))
        )
        raw = yaml.safe_load(text)
        raw["provider"] |= {"head_ip": self.head, "worker_ips": [self.worker]}
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        raw["auth"] = {"ssh_user": user, "ssh_private_key": str(self.folder / "key")}
        for role, agent in (("head", self.agent), ("worker", self.agent2)):
            stop, start = raw[f"{role}_start_ray_commands"]
            start = start.replace("52365", str(agent))
            start = start.replace("ray start --block", "ray start --block --num-cpus=1 --object-store-memory=100000000")
            raw[f"{role}_start_ray_commands"] = [stop, start]
        return yaml.safe_dump(raw)

    def type(self, lines: list[str]) -> tuple[int, str]:
        """Type lines into one shell of the client's, which stops at the first that fails; its exit code and words."""
        # One machine has one port 8265 on its loopback, so the forwarded one is another than the head's.
        typed = "\n".join(lines).replace("--port 8265", f"--port {self.forwarded} --remote-port {self.dashboard}")
        outside = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "TUNE_VFL_", "SSH_"))}
        environment = outside | {"HOME": str(self.client), "RAY_TMPDIR": str(self.client), "PIP_NO_INDEX": "1"}
        environment |= {"PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "PIP_NO_BUILD_ISOLATION": "0"}
        environment |= {"TUNE_VFL_HOME": str(self.client / "tune-vfl-home")}
        with (self.folder / "transcript").open("w") as transcript:
            shell = subprocess.Popen(
                ["bash", "-exc", typed.replace(":8265", f":{self.forwarded}")],
                cwd=self.repository,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=transcript,
                stderr=transcript,
                start_new_session=True,
            )
            try:
                code = shell.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                code = -1
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGTERM)  # the forwarding
        return code, (self.folder / "transcript").read_text()

    def nodes(self) -> list[int]:
        """The processes that hold a node of this cluster."""
        pattern = f"[-]-temp-dir={self.folder}/./.tune-vfl-node/ray"
        found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def remove(self) -> None:
        for pid in self.nodes():
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + 60
        while self.nodes() and time.monotonic() < end:
            time.sleep(0.2)
        for server in self.servers:
            server.terminate()
            server.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def machines():
    found = Machines(Path(tempfile.mkdtemp(prefix="tv", dir="/tmp")), SPEC)  # Ray's sockets need a short path
    try:
        yield found
    finally:
        found.remove()


def test_the_story_of_the_docs_from_ray_up_to_export(machines: Machines) -> None:
    lines = story()
    assert [word for line in lines for word in ("ray up", "submit", "pull", "export") if word in line]
    # The search is to find both machines.
    log = f"{machines.homes[WORKER]}/.tune-vfl-node/log"
    up = f"timeout 120 sh -c 'until grep -sq \"runtime started\" {log}; do sleep 1; done'"
    submit = next(i for i, line in enumerate(lines) if "submit" in line)
    strangers = [f"{who} tune-vfl jobs list || test $? = 4" for who in ("RAY_AUTH_TOKEN=wrong", "HOME=/nowhere")]
    code, told = machines.type([*lines[:submit], up, *strangers, *lines[submit:]])
    sys.stdout.write(told)  # the transcript, with -s
    assert code == 0, told
    assert "wants a token and takes ours" in told
    assert "could not be written" not in told, "what is installed from a wheel is whole"
    assert "refuses the token" in told
    assert "wants a token and none was given" in told
    best = json.loads((machines.repository / "best.json").read_text())
    assert best["study"] == "loans"
    assert (machines.client / "tune-vfl-home" / "reports" / "loans" / "index.html").is_file()
    # The head went at once, the worker goes when it has missed it for a minute.
    end = time.monotonic() + 180
    while machines.nodes() and time.monotonic() < end:
        time.sleep(1)
    assert machines.nodes() == []
