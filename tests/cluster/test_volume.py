"""The shell lines of cluster.yaml for the volume that stays: waited for, attached, formatted once and never again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GPU, CPU = (
    "L-3819A6DF",
    "L-34B43A08",
)  # All G and VT, and All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests
AWS = """#!/bin/sh
echo "$*" >> "$HOME/asked"
case "$*" in
  *attach-volume*) echo attached > "$HOME/state"; exit 0 ;;
  *"Volumes[].VolumeId"*) cat "$HOME/volumes" ;;
  *Tags*) cat "$HOME/tag" ;;
  *) next=$(cat "$HOME/state"); test "$next" = attached && echo "in-use\tme" && exit 0
     echo "$next"; test "$next" = "in-use\told" && echo "available\tNone" > "$HOME/state"; exit 0 ;;
esac
"""
STUBS = {
    "curl": 'case "$*" in *availability-zone) echo us-west-2a ;; *) echo me ;; esac',
    "mountpoint": 'test -e "$HOME/mounted"',
    "lsblk": 'cat "$HOME/filesystem"',
    "sudo": 'test "$1" = dd || echo "$1" >> "$HOME/did"; case "$1" in dd) exec "$@" ;; esac',
    "sleep": "exit 0",
}


class Head:
    """A made-up head: its home, the volume's disk as a file, and an aws command that answers from files."""

    def __init__(self, home: Path) -> None:
        self.home, self.disk = home, home / "disks" / "nvme-Amazon_Elastic_Block_Store_vol1"
        (home / "uv/bin").mkdir(parents=True)
        (home / "bin").mkdir()
        self.disk.parent.mkdir()
        self.disk.write_bytes(bytes(4096))
        for name, value in {"volumes": "vol-1", "tag": "yes", "filesystem": "", "state": "available\tNone"}.items():
            self.says(name, value)
        for path, text in {"uv/bin/aws": AWS, **{f"bin/{n}": f"#!/bin/sh\n{t}\n" for n, t in STUBS.items()}}.items():
            (home / path).write_text(text)
            (home / path).chmod(0o755)

    def says(self, name: str, value: str) -> None:
        (self.home / name).write_text(f"{value}\n")

    def mount(self) -> tuple[int, list[str], str]:
        """Run the lines; return the exit code, the commands run by sudo, and the text on stderr."""
        raw = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
        lines = raw["head_setup_commands"][-1].replace("/dev/disk/by-id", str(self.disk.parent))
        environment = os.environ | {"HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"}
        ran = subprocess.run(["bash", "-c", f"({lines})"], env=environment, capture_output=True, text=True, check=False)
        did = self.home / "did"
        return ran.returncode, did.read_text().split() if did.exists() else [], ran.stderr

    @property
    def attached(self) -> int:
        return (self.home / "asked").read_text().count("attach-volume")


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_a_new_volume_is_attached_formatted_and_mounted(head: Head) -> None:
    assert head.mount() == (0, ["mkfs.ext4", "mount", "chown"], "")
    assert head.attached == 1
    assert (head.home / "lasting").is_dir()
    assert (head.home / "asked").read_text().startswith("--region us-west-2 --output text ec2 describe-volumes")


def test_a_volume_that_a_former_head_lets_go_is_waited_for(head: Head) -> None:
    head.says("state", "in-use\told")
    head.says("filesystem", "ext4")
    assert head.mount() == (0, ["mount", "chown"], "")
    assert head.attached == 1


def test_a_volume_that_is_mounted_is_left_as_it_is(head: Head) -> None:
    (head.home / "mounted").touch()
    assert head.mount() == (0, [], "")


def test_a_volume_of_another_head_is_not_taken(head: Head) -> None:
    head.says("state", "in-use\tother")
    code, did, says = head.mount()
    assert (code, did, head.attached) == (1, [], 0)
    assert "vol-1 is in-use other; is another head up?" in says


@pytest.mark.parametrize("volumes", ["", "vol-1\tvol-2"])
def test_none_and_several_volumes_are_refused(head: Head, volumes: str) -> None:
    head.says("volumes", volumes)
    code, did, says = head.mount()
    assert (code, did) == (1, [])
    assert "expected one volume named tune-vfl-lasting in us-west-2a, got:" in says


@pytest.mark.parametrize("reason", ["not tagged as new", "not empty", "not readable"])
def test_only_a_volume_that_is_surely_new_is_formatted(head: Head, reason: str) -> None:
    if reason == "not tagged as new":
        head.says("tag", "")
    elif reason == "not empty":
        head.disk.write_bytes(bytes(4000) + b"a table of partitions that lsblk does not know")
    else:
        head.disk.unlink()
        head.disk.mkdir()
    code, did, says = head.mount()
    assert (code != 0, did) == (True, [])
    assert reason == "not readable" or "is not new; look at it by hand" in says


@pytest.mark.parametrize("quota", ["0.0", "32.0", ""])
def test_roles_and_the_volume_are_made_once_and_quotas_are_told(tmp_path: Path, quota: str) -> None:
    made = tmp_path / "made"
    (tmp_path / "aws").write_text(
        f"""#!/bin/sh
case "$2 $4" in
  "get-role AWSServiceRoleForEC2Spot") grep -q create-service-linked-role {made} ;;
  get-service-quota*) test -n "{quota}" && echo "{quota}" ;;
  get-*) grep -q "create-${{2#get-}}" {made} ;;
  describe-volumes*) grep -q create-volume {made} && echo vol-1; exit 0 ;;
  create-volume*) echo vol-1 ;;
esac
code=$?
for word in "$@"; do case "$word" in "{{"*) echo "$word" > {tmp_path}/"$2".json ;; esac; done
echo "$2" >> {made}
exit $code
"""
    )
    (tmp_path / "aws").chmod(0o755)
    made.touch()
    once = ["bash", str(ROOT / "cluster/aws-once.sh")]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for _ in range(2):
        ran = subprocess.run([*once, "us-west-2a", "50"], env=environment, capture_output=True, text=True, check=True)
        said = ran.stdout.splitlines()
        assert said[0] == "roles tune-vfl-head and AWSServiceRoleForEC2Spot; volume vol-1 in us-west-2a"
        has = f"of 8 vCPUs each: the account's quota {{}} in us-west-2 is {quota or 'unknown'}"
        has_each = [f"{kind} workers on spot, {has.format(code)}" for kind, code in (("GPU", GPU), ("CPU", CPU))]
        assert [line for line in said if " workers on spot, " in line] == has_each
        asks = [line for line in said if "request-service-quota-increase --region us-west-2 --service-code ec2" in line]
        assert len(asks) == (0 if quota == "32.0" else 2)
    calls = made.read_text().split()
    assert [c for c in calls if c.startswith("create-")] == [
        "create-role",
        "create-instance-profile",
        "create-service-linked-role",
        "create-volume",
    ]
    policy = json.loads((tmp_path / "put-role-policy.json").read_text())
    for statement in policy["Statement"]:
        free = {"ec2:Describe*", "ec2:RunInstances"}
        assert statement["Resource"] != "*" or "Condition" in statement or set(statement["Action"]) == free
    assert subprocess.run(once, env=environment, capture_output=True, check=False).returncode != 0
