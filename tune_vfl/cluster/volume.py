"""The disk that a cluster leaves behind: attached to its head on AWS, formatted the first time, and mounted.

python -m tune_vfl.cluster.volume vol-0123456789abcdef0 ~/lasting
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.errors import TuneVflError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""How long a former head may take to let the volume go."""

_METADATA = "http://169.254.169.254/latest"


def main(arguments: list[str]) -> int:
    """Attach and mount; return the exit code."""
    try:
        if len(arguments) != 2 or not re.fullmatch(r"vol-[0-9a-f]+", arguments[0]):
            raise UsageError("expected the id of an EBS volume, such as vol-0123456789abcdef0, and a folder")
        volume, place = arguments[0], Path(arguments[1]).expanduser()
        if not place.is_mount():
            instance, region = _here()
            attach(_ec2(region), volume, instance)
            mount(_device(volume), place, _run)
    except TuneVflError as error:
        sys.stderr.write(f"tune-vfl: {error}\n")
        return error.exit_code
    return 0


def attach(ec2: Any, volume: str, instance: str, pause: float = 5.0) -> None:
    """Attach a volume to a machine, once no other machine has it any more.

    Args:
        ec2: a client of EC2.
        volume: its id.
        instance: the machine's id.
        pause: seconds between two looks.

    Raises:
        TuneVflError: when another machine keeps it.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        (found,) = ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
        holders = [a["InstanceId"] for a in found["Attachments"]]
        if holders == [instance] and found["State"] == "in-use":
            return
        if found["State"] == "available":
            ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        elif holders != [instance] and time.monotonic() > end:
            raise TuneVflError(f"volume {volume} is attached to {', '.join(holders)}; is another head up?")
        time.sleep(pause)


def mount(device: Path, place: Path, run: Callable[..., int]) -> None:
    """Mount a disk for this user; one without a file system gets one first.

    Args:
        device: the disk.
        place: the folder, made where it is missing.
        run: runs a command, given word by word, and returns its exit code.

    Raises:
        TuneVflError: when a command fails.
    """
    place.mkdir(parents=True, exist_ok=True)
    disk = str(device)
    # blkid ends with 2 where it finds nothing on the disk; whatever else it says, the disk is not formatted.
    steps = [["mkfs.ext4", "-q", disk]] if run("sudo", "blkid", "-p", disk) == 2 else []
    steps += [["mount", disk, str(place)], ["chown", f"{os.getuid()}:{os.getgid()}", str(place)]]
    for step in steps:
        if run("sudo", *step) != 0:
            raise TuneVflError(f"'sudo {' '.join(step)}' failed; look at the disk by hand")


def _run(*arguments: str) -> int:
    return subprocess.run(arguments, check=False).returncode  # noqa: S603 - commands of this file


def _device(volume: str) -> Path:
    # The system names the disk after the volume.
    device = Path("/dev/disk/by-id") / f"nvme-Amazon_Elastic_Block_Store_{volume.replace('-', '')}"
    end = time.monotonic() + 60
    while not device.exists():
        if time.monotonic() > end:
            raise TuneVflError(f"volume {volume} is attached, but {device} does not appear; use a Nitro instance")
        time.sleep(1)
    return device


def _here() -> tuple[str, str]:
    """Return this machine's id and region, as it is told by a service that only answers to it."""
    import urllib.request

    def ask(path: str, headers: dict[str, str], method: str = "GET") -> str:
        request = urllib.request.Request(f"{_METADATA}/{path}", method=method, headers=headers)  # noqa: S310 - http
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: S310
                return str(reply.read().decode())
        except OSError as error:
            raise TuneVflError(f"this is no machine of AWS: its metadata do not answer ({error})") from error

    given = ask("api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}, "PUT")
    known = {"X-aws-ec2-metadata-token": given}
    return ask("meta-data/instance-id", known), ask("meta-data/placement/region", known)


def _ec2(region: str) -> Any:
    import boto3

    return boto3.client("ec2", region_name=region)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
