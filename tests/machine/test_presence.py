"""What cannot be looked at is said in words, and is not taken for nothing."""

import os
from pathlib import Path

import pytest

from tests.conftest import Run
from tune_vfl.errors import UnreachableError
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.places import sqlite_uri
from tune_vfl.machine.presence import is_file, listed
from tune_vfl.service import cleaning
from tune_vfl.tracking.store import is_begun, is_damaged

LONG = "a" * 5000


@pytest.fixture(name="circle")
def _circle(tmp_path: Path) -> Path:
    """A link that leads to itself: no account can look behind it."""
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    return circle


def test_files_folders_and_nothing(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "nowhere").symlink_to("nothing")
    names = ("a", "link", "nowhere", "nothing", "a/below a file", ".")
    assert [name for name in names if is_file(tmp_path / name)] == ["a", "link"]
    assert [path.name for path in listed(tmp_path)] == ["a", "b", "link", "nowhere"]
    assert [listed(tmp_path / name) for name in ("a", "a/x", "nothing", "nowhere")] == [[]] * 4


@pytest.mark.parametrize("look", [is_file, listed])
def test_what_cannot_be_looked_at_is_said(circle: Path, look: object) -> None:
    for path, why in ((circle / "x", "Too many levels"), (circle.parent / LONG, "File name too long")):
        with pytest.raises(UnreachableError, match=rf"cannot be looked at \({why}.*free or change the place"):
            look(path)  # type: ignore[operator]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may look everywhere")
def test_a_locked_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        for look in (is_file, listed):
            with pytest.raises(UnreachableError, match="Permission denied"):
                look(tmp_path / "x")
    finally:
        tmp_path.chmod(0o700)


def test_databases_that_cannot_be_looked_at_are_not_away(home: Path, circle: Path) -> None:
    for look in (is_begun, is_damaged):
        with pytest.raises(UnreachableError, match="cannot be looked at"):
            look(sqlite_uri(circle / "mlflow.db"))
    place = storage_at(str(circle / "ledger.db"))
    for ask in (place.exists, place.version, place.identity):
        with pytest.raises(UnreachableError, match="cannot be looked at"):
            ask()
    place.close()


@pytest.mark.parametrize("verb", ["studies", "clean"])
def test_a_home_that_cannot_be_looked_at_ends_with_4(
    circle: Path, run: Run, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.delenv("TUNE_VFL_STORAGE", raising=False)
    monkeypatch.setattr(cleaning, "temporary_leftovers", list)
    for home in (circle / "home", circle.parent / LONG):
        monkeypatch.setenv("TUNE_VFL_HOME", str(home))
        code, _, said = run(verb)
        assert (code, "unexpected" in said, "cannot be looked at" in said) == (4, False, True), said


def test_a_ledger_with_a_name_too_long_ends_with_4(home: Path, run: Run, tmp_path: Path) -> None:
    code, _, said = run("studies", "--storage", LONG)
    assert (code, "File name too long" in said, "unexpected" in said) == (4, True, False)
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"study: s\ndataset: wine\ndefense: laplace\nbudget: {{trials: 1}}\nstorage: {LONG}\n")
    code, _, said = run("search", spec)
    assert (code, "File name too long" in said, "unexpected" in said) == (4, True, False)
