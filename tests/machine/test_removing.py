"""What is deleted is this user's, below the folder that was named; a link is never followed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tune_vfl.machine.removing import remove, remove_empty


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """A file that must stay, in a folder beside the one in which things are deleted."""
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    kept = tmp_path / "elsewhere" / "kept"
    kept.write_text("kept")
    yield kept
    assert kept.read_text() == "kept"


def a_file(root: Path, _kept: Path) -> Path:
    (root / "file").write_text("x")
    return root / "file"


def a_folder(root: Path, kept: Path) -> Path:
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "folder" / "deep" / "file").write_text("x")
    (root / "folder" / "link").symlink_to(kept.parent)
    return root / "folder"


def a_link(root: Path, kept: Path) -> Path:
    (root / "link").symlink_to(kept.parent)
    return root / "link"


def a_broken_link(root: Path, _kept: Path) -> Path:
    (root / "link").symlink_to(root / "nowhere")
    return root / "link"


def nothing(root: Path, _kept: Path) -> Path:
    return root / "nothing"


@pytest.mark.parametrize("make", [a_file, a_folder, a_link, a_broken_link, nothing])
def test_what_lies_below_goes_and_what_its_links_lead_to_stays(
    kept: Path, tmp_path: Path, make: Callable[[Path, Path], Path]
) -> None:
    path = make(tmp_path / "root", kept)
    remove(path, tmp_path / "root")
    assert not os.path.lexists(path)


def test_a_root_that_is_itself_reached_by_a_link_is_the_folder_that_it_leads_to(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(tmp_path / "root")
    path = a_file(tmp_path / "root", kept)
    remove(tmp_path / "named" / "file", tmp_path / "named")
    assert not path.exists()


def outside(_root: Path, kept: Path) -> Path:
    return kept


def through_a_link(root: Path, kept: Path) -> Path:
    return a_link(root, kept) / kept.name


def by_two_dots(root: Path, kept: Path) -> Path:
    return root / ".." / kept.parent.name / kept.name


def itself(root: Path, _kept: Path) -> Path:
    return root


def above(root: Path, _kept: Path) -> Path:
    return root / ".."


@pytest.mark.parametrize("make", [outside, through_a_link, by_two_dots, itself, above])
def test_what_does_not_lie_below_is_refused(kept: Path, tmp_path: Path, make: Callable[[Path, Path], Path]) -> None:
    with pytest.raises(PermissionError, match=r"does not lie below .*root, and stays"):
        remove(make(tmp_path / "root", kept), tmp_path / "root")


@pytest.mark.parametrize("make", [a_file, a_folder, a_link])
def test_of_another_user_nothing_is_deleted(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, Path], Path]
) -> None:
    path = make(tmp_path / "root", kept)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to another user, and so it stays"):
        remove(path, tmp_path / "root")
    assert os.path.lexists(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_folder_with_something_of_another_user_stays_whole(kept: Path, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "root", kept)
    os.chown(folder / "deep" / "file", 12345, -1)
    with pytest.raises(PermissionError, match=r"deep/file belongs to another user"):
        remove(folder, tmp_path / "root")
    assert (folder / "deep" / "file").exists()
    assert (folder / "link").is_symlink()


def test_empty_folders_go_up_to_the_one_that_was_named(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    remove_empty(tmp_path / "a" / "b" / "c", tmp_path)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]
    (tmp_path / "a" / "file").unlink()
    remove_empty(tmp_path / "a", tmp_path / "a")
    assert (tmp_path / "a").is_dir()
