"""Ray's folder is short, of this user alone, and gone with its process; other folders stay."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tune_vfl.errors import UnreachableError
from tune_vfl.machine.ray_folder import LONGEST, RayFolder


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short temporary folder of this test's own."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    place = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_it_is_of_this_user_alone_and_is_removed(temporary: Path) -> None:
    folder = RayFolder()
    assert folder.path.parent.parent == temporary
    folder.path.chmod(0o777)  # as Ray does
    assert folder.path.parent.stat().st_mode & 0o777 == 0o700
    (folder.path / "session").mkdir()
    folder.remove()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_another_uses_is_not(temporary: Path) -> None:
    code = (
        f"import os, tempfile; tempfile.tempdir = {str(temporary)!r}; from tune_vfl.machine.ray_folder import RayFolder"
    )
    killed = [sys.executable, "-c", f"{code}; folder = RayFolder(); os.kill(os.getpid(), 9)"]
    assert subprocess.run(killed, check=False).returncode == -9
    (orphan,) = temporary.iterdir()
    (temporary / "tune-vfl-link").symlink_to(temporary.parent)
    (temporary / "else").mkdir()
    used, mine = RayFolder(), RayFolder()
    assert not orphan.exists()
    assert {p.name for p in temporary.iterdir()} == {
        used.path.parent.name,
        mine.path.parent.name,
        "tune-vfl-link",
        "else",
    }
    used.remove()
    mine.remove()


@pytest.mark.parametrize("length", [53, 110])
def test_a_long_temporary_folder_is_not_used(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/".ljust(length, "j"))
    folder = RayFolder()
    assert folder.path.parent.parent == Path("/tmp")
    assert len(os.fsencode(folder.path)) <= LONGEST
    folder.remove()


def test_a_folder_that_is_named_is_used_as_it_is(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(temporary))
    folder = RayFolder()
    folder.remove()
    assert folder.path == temporary
    assert temporary.exists()
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/".ljust(60, "x"))
    with pytest.raises(UnreachableError, match="RAY_TMPDIR is 60 bytes long"):
        RayFolder()


@pytest.mark.parametrize("named", [False, True])
def test_a_full_disk_is_said_before_ray_starts(named: bool, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray waits half a minute for a file of its own that it could not write, and says so."""
    if named:
        monkeypatch.setenv("RAY_TMPDIR", str(temporary))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 2**20))
    with pytest.raises(UnreachableError, match=rf"{temporary} has 3 MiB free, and Ray needs 16 .*RAY_TMPDIR"):
        RayFolder()
    assert list(temporary.iterdir()) == []
