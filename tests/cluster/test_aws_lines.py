"""The shell lines of cluster.yaml that set up and start a node, and what cluster/wheels.sh makes for all nodes.

Made-up programs stand for Ray, uv, apt-get and the like, and note how they were called.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "chmod", "grep", "mkdir", "nohup", "sed", "seq", "setsid", "sh", "timeout")
NOTE = 'echo "${0##*/} $*" >> "$HOME/did"\n'
STUBS = {
    "bin/sudo": 'while case "$1" in *=*) ;; *) false ;; esac; do shift; done; exec "$@"',
    "bin/sleep": "",
    "bin/apt-get": NOTE
    + 'case "$*" in update*) test ! -e "$HOME/locked" || { mv "$HOME/locked" "$HOME/free"; exit 100; } ;; esac',
    "bin/cloud-init": NOTE + "exit 2",  # it ended, with warnings
    "bin/curl": 'test -e "$HOME/ui"',
    "bin/python3": NOTE,
    "uv/bin/uv": NOTE,
    "uv/bin/pip": NOTE,
    "env/bin/python": "",
    "env/bin/ray": NOTE + 'test ! -e "$HOME/full" || { echo "no room here" >&2; exit 1; }',
    "env/bin/tune-vfl": 'echo "$* $TUNE_VFL_HOME $(umask)" >> "$HOME/ui"',
}


class Node:
    """A made-up machine: its home, and a PATH with nothing on it but made-up programs and the shell's own."""

    def __init__(self, home: Path) -> None:
        self.home, self.raw = home, yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
        for name in (
            *STUBS,
            ".ray/auth_token",
            ".bashrc",
            ".tune-vfl/wheels/tune-vfl.txt",
            ".tune-vfl/wheels/locked.txt",
        ):
            self.has(name, f"#!/bin/sh\n{STUBS.get(name, '')}\n")
        for tool in (*TOOLS, "mv"):
            (home / "bin" / tool).symlink_to(str(shutil.which(tool)))

    def has(self, name: str, text: str = "") -> None:
        (self.home / name).parent.mkdir(parents=True, exist_ok=True)
        (self.home / name).write_text(text)
        (self.home / name).chmod(0o755)

    def run(self, lines: str) -> subprocess.CompletedProcess[str]:
        """Run lines as Ray does: in parentheses, after its own variables."""
        environment = {"HOME": str(self.home), "PATH": str(self.home / "bin")}
        typed = f"export RAY_HEAD_IP=192.0.2.9; ({lines})"
        bash = str(shutil.which("bash"))
        return subprocess.run(
            [bash, "-c", typed], env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    def start(self, role: str) -> subprocess.CompletedProcess[str]:
        stop, start = self.raw[f"{role}_start_ray_commands"]
        assert stop == "~/env/bin/ray stop"
        return self.run(start)

    @property
    def did(self) -> list[str]:
        return (self.home / "did").read_text().splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("role", ["head", "worker"])
def test_a_ray_that_does_not_start_is_no_node_and_says_why(node: Node, role: str) -> None:
    node.has("full")
    started = node.start(role)
    assert started.returncode == 1
    assert started.stderr.endswith("no room here\n")
    assert not (node.home / "ui").exists()


@pytest.mark.parametrize("role", ["head", "worker"])
def test_ray_is_not_started_in_a_folder_that_others_may_read(node: Node, role: str) -> None:
    node.has("ray", "a file in the place of the folder")
    assert node.start(role).returncode != 0
    assert not (node.home / "did").exists()


def test_a_head_starts_mlflow_once(node: Node) -> None:
    for _ in range(2):
        assert node.start("head").returncode == 0
        ends = time.monotonic() + 30
        while not (node.home / "ui").exists() and time.monotonic() < ends:
            time.sleep(0.02)
    assert (node.home / "ui").read_text() == f"ui {node.home}/lasting/tune-vfl-home 0077\n"
    assert [line for line in node.did if line.startswith("ray start --head --port=6379 ")] == node.did
    assert f"--temp-dir={node.home}/ray/r --dashboard-host=127.0.0.1" in node.did[0]
    assert f"--autoscaling-config={node.home}/ray_bootstrap_config.yaml" in node.did[0]
    assert (node.home / "ray").stat().st_mode & 0o777 == 0o700
    assert (node.home / "mlflow.log").stat().st_mode & 0o777 == 0o600


def test_a_worker_joins_its_head_and_starts_nothing_else(node: Node) -> None:
    assert node.start("worker").returncode == 0
    assert [line.partition(" --temp")[0] for line in node.did] == [
        "ray start --address=192.0.2.9:6379 --object-manager-port=8076"
    ]
    assert not (node.home / "ui").exists()


@pytest.mark.parametrize("gpu", [False, True])
def test_a_new_machine_is_waited_for_and_gets_the_torch_that_it_can_use(node: Node, gpu: bool) -> None:
    node.has("locked", "another apt-get updates the lists")
    if gpu:
        node.has("bin/nvidia-smi", "#!/bin/sh\n")
    for line in node.raw["setup_commands"]:
        ran = node.run(line)
        assert ran.returncode == 0, (line, ran.stderr)
    assert node.did[:4] == [
        "cloud-init status --wait",
        "apt-get update -qq",
        "apt-get update -qq",
        "apt-get install -y -qq -o DPkg::Lock::Timeout=600 python3-venv g++",
    ]
    *before, package = node.did[4:]
    assert [line.partition("--index-url ")[2] for line in before] == (
        [] if gpu else ["https://download.pytorch.org/whl/cpu torch==2.13.0 torchvision==0.28.0"]
    )
    wheels = node.home / ".tune-vfl/wheels"
    assert package == (
        f"uv pip install -q --python {node.home}/env/bin/python -c {wheels}/locked.txt --reinstall-package tune-vfl "
        f"--find-links {wheels} -r {wheels}/tune-vfl.txt ray==2.60.0"
    )


@pytest.mark.parametrize("lacks", ["tune-vfl.txt", "locked.txt"])
def test_a_node_without_what_wheels_makes_says_so(node: Node, lacks: str) -> None:
    (check,) = [line for line in node.raw["setup_commands"] if "expected tune-vfl.txt" in line]
    assert node.run(check).returncode == 0
    (node.home / ".tune-vfl/wheels" / lacks).unlink()
    ran = node.run(check)
    assert (ran.returncode, "bash cluster/wheels.sh, and ray up again" in ran.stderr) == (1, True)


class Client:
    """A client's machine, where cluster/wheels.sh builds a package of a few bytes in place of this one."""

    def __init__(self, folder: Path) -> None:
        self.home, self.script = folder / "home", folder / "repository/cluster/wheels.sh"
        self.wheels = self.home / ".tune-vfl/wheels"
        for place in (self.home, self.script.parent, folder / "bin"):
            place.mkdir(parents=True)
        shutil.copy(ROOT / "cluster/wheels.sh", self.script)
        # pip's hash is the real one.
        build = 'case "$*" in *"pip wheel"*) mkdir ~/.tune-vfl/wheels; exec mv ~/*.whl ~/.tune-vfl/wheels ;; esac'
        programs = {"python": f'{build}\nexec {sys.executable} "$@"', "uv": 'cat >/dev/null; echo "$*" >> ~/uv'}
        for name, text in programs.items():
            (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / "bin" / name).chmod(0o755)
        self.path = f"{folder / 'bin'}:{os.environ['PATH']}"

    def make(self, version: str, content: str, *options: str) -> str:
        """Build a version and return what tune-vfl.txt says."""
        name = f"tune_vfl-{version}"
        self.wheels.mkdir(parents=True, exist_ok=True)
        made = self.home / f"{name}-py3-none-any.whl"
        with zipfile.ZipFile(made, "w") as wheel:
            wheel.writestr("tune_vfl.py", content)
            wheel.writestr(f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: tune-vfl\nVersion: {version}\n")
            wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{name}.dist-info/RECORD", "")
        environment = os.environ | {"HOME": str(self.home), "PATH": self.path}
        subprocess.run(["bash", str(self.script), *options], env=environment, check=True)
        return (self.wheels / "tune-vfl.txt").read_text()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "client")


def test_what_nodes_install_is_named_by_version_and_hash(client: Client) -> None:
    for version in ("0.1.0", "0.2.0.dev1"):
        named = client.make(version, "x = 1\n")
        (wheel,) = client.wheels.glob("*.whl")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        assert named == f"tune-vfl[postgres]=={version} --hash=sha256:{digest}\n"
    (locked, again) = (client.home / "uv").read_text().splitlines()
    assert locked == again
    assert "--extra postgres -c constraints.txt --generate-hashes --python-version 3.12.12" in locked
    client.make("0.1.0", "", "--no-lock")
    assert len((client.home / "uv").read_text().splitlines()) == 2


def test_after_an_upgrade_a_node_takes_the_new_build_and_no_other(client: Client, tmp_path: Path) -> None:
    """The lines of cluster/local.yaml, run by the real pip; Ray copies new files beside those of before."""
    node, kept = tmp_path / "node", tmp_path / "node/.tune-vfl/wheels"
    (node / "tune-vfl-env/bin").mkdir(parents=True)
    python = node / "tune-vfl-env/bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" --upgrade --target "$HOME/installed"\n')
    python.chmod(0o755)
    raw = yaml.safe_load((ROOT / "cluster/local.yaml").read_text(encoding="utf-8"))
    (line,) = [c for c in raw["setup_commands"] if "tune-vfl.txt" in c]

    def install() -> tuple[int, str]:
        shutil.copytree(client.wheels, kept, dirs_exist_ok=True)
        ran = subprocess.run(
            ["bash", "-c", f"({line})"],
            env=os.environ | {"HOME": str(node)},
            capture_output=True,
            text=True,
            check=False,
        )
        module = node / "installed/tune_vfl.py"
        return ran.returncode, module.read_text() if module.exists() else ran.stderr

    for version, content in (("0.9.0", "old"), ("0.10.0", "new"), ("0.9.0", "old again, and rebuilt")):
        client.make(version, content, "--no-lock")
        assert install() == (0, content)
    assert sorted(wheel.name.split("-")[1] for wheel in kept.glob("*.whl")) == ["0.10.0", "0.9.0"]
    (client.wheels / "tune-vfl.txt").write_text(f"tune-vfl==0.9.0 --hash=sha256:{'0' * 64}\n")
    assert install()[0] != 0, "another build under the same name"
