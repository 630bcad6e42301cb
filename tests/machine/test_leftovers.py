"""Temporary files are taken for left behind only where no process can use them any more."""

import os
import tempfile
from pathlib import Path

import pytest

from tune_vfl.machine import leftovers as module
from tune_vfl.machine.leftovers import size_of, temporary_leftovers
from tune_vfl.machine.ray_folder import RayFolder


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short temporary folder of this test's own; the oldest other Python was started at second 1000."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    place = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(module, "_oldest_python", lambda: 1000.0)
    return place


def made(place: Path, changed: float) -> Path:
    place.mkdir()
    (place / "file").write_bytes(b"x" * 10)
    os.utime(place, (changed, changed))
    return place


def found(temporary: Path) -> list[str]:
    return [place.name for place in temporary_leftovers() if place.parent == temporary]


def test_what_is_older_than_every_python_is_left_behind(temporary: Path) -> None:
    made(temporary / "tune-vfl-old", 900)
    made(temporary / "tune-vfl-new", 1100)
    made(temporary / "of-others", 900)
    (temporary / "tune-vfl-link").symlink_to(temporary / "of-others")
    assert found(temporary) == ["tune-vfl-old"]
    assert size_of(temporary / "tune-vfl-old") == 10
    assert size_of(temporary / "tune-vfl-old" / "file") == 10


def test_a_lock_says_whether_a_folder_is_used(temporary: Path) -> None:
    folder = RayFolder()
    os.utime(folder.path.parent, (900, 900))
    assert found(temporary) == []
    orphan = made(temporary / "tune-vfl-orphan", 5000)
    (orphan / "in-use").touch()
    assert found(temporary) == ["tune-vfl-orphan"]
    folder.remove()


def test_of_another_user_nothing_is_taken(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(temporary / "tune-vfl-old", 900)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert found(temporary) == []
