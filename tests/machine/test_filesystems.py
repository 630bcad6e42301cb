"""The file system of a path, from the system's table of mounts."""

from pathlib import Path

import pytest

from tune_vfl.ledger import storage as module
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.filesystems import network_file_system
from tune_vfl.service.ledger_health import examine_ledger

LINES = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
60 27 0:50 / {0}/homes rw,relatime shared:1 - nfs4 files.example:/homes rw,vers=4.2
61 60 254:1 / {0}/homes/local rw,relatime - xfs /dev/vdb rw
62 27 0:51 / {0}/my\\040share rw - cifs //files/share rw
63 27 0:52 / {0}/over rw - ext4 /dev/vdc rw
64 63 0:53 / {0}/over rw - 9p host rw,trans=virtio
65 27 0:54 / {0}/mounted rw - fuse.sshfs me@there: rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    table = tmp_path / "mountinfo"
    table.write_text(LINES.format(tmp_path))
    return table


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("homes/me/tune-vfl-home", "nfs4"),
        ("homes/local/me", None),
        ("my share/x", "cifs"),
        ("over/x", "9p"),
        ("mounted", "fuse.sshfs"),
        ("mounted-not", None),
        ("elsewhere", None),
    ],
)
def test_the_innermost_mount_counts(place: str, kind: str | None, mounts: Path, tmp_path: Path) -> None:
    assert network_file_system(tmp_path / place, mounts) == kind


def test_a_link_is_followed(mounts: Path, tmp_path: Path) -> None:
    (tmp_path / "homes").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "homes")
    assert network_file_system(tmp_path / "link" / "ledger.db", mounts) == "nfs4"


def test_without_a_table_nothing_is_known(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "none") is None


def test_a_ledger_there_is_said_once_and_found_by_doctor(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "network_file_system", lambda _path: "nfs4")
    for _ in range(2):
        with storage_at().lease("study"):
            pass
    said = capsys.readouterr().err
    assert said.count("lies on nfs4: sqlite's write-ahead log works among the processes of one machine only") == 1
    check = examine_ledger()
    assert (check.status, check.detail.endswith("it lies on nfs4")) == ("finding", True)
