"""A user's own data files in the home: copied once, found under one path, removed with the study."""

import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.helpers.ledgers import open_ledger, reopened
from tune_vfl.data.own_files import content_digest, own_files, relocated
from tune_vfl.errors import SpecError, StudyError
from tune_vfl.ledger.packing import pack, unpack
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.places import home as home_folder
from tune_vfl.service import cleaning, removal
from tune_vfl.service.backup import back_up
from tune_vfl.service.data_copies import copied, of_no_study, place_of_copies

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    for name in ("bank", "shop"):
        (tmp_path / f"{name}.csv").write_text(f"id,{name},y\n1,2,0\n")
    bank, shop = {"path": str(tmp_path / "bank.csv")}, {"path": str(tmp_path / "shop.csv"), "columns": ["shop"]}
    dataset = {"name": "csv", "label": "y", "id": "id", "parties": {"bank": bank, "shop": shop}}
    return {"study": "loans", "dataset": dataset, "defense": ["laplace", "kdk"]}


def begin(spec: Mapping[str, Any]) -> None:
    """Put a study of that data set into the ledger, or find it there."""
    open_ledger(spec["study"], dataset=spec["dataset"]).close()


def as_copied_by_0_1_0(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the files to where 0.1.0 did, at a path that says nothing of the ledger."""
    places = {}
    for path in own_files(raw):
        copy = place_of_copies() / raw["study"] / content_digest(path) / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        places[path] = str(copy)
    return relocated(raw, places)


@pytest.fixture
def unused_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is old enough to have made a copy for a study to come."""
    monkeypatch.setattr(cleaning, "leftovers", iter)


def test_the_same_content_is_copied_to_one_path_that_no_other_user_reads(raw: dict[str, Any], tmp_path: Path) -> None:
    with copied(raw) as first:
        parties = first["dataset"]["parties"]
        assert (parties["shop"]["columns"], first["defense"]) == (["shop"], raw["defense"])
        begin(first)
    copies = own_files(first)
    assert [path.name for path in copies] == ["bank.csv", "shop.csv"]
    assert all(path.parent.name == content_digest(path) for path in copies)
    assert {stat.S_IMODE(path.stat().st_mode) for path in copies} == {0o600}
    folders = {folder for path in copies for folder in path.parents if place_of_copies() in (folder, *folder.parents)}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "bank.csv").rename(tmp_path / "elsewhere" / "bank.csv")
    raw["dataset"]["parties"]["bank"]["path"] = str(moved)
    with copied(raw) as again:
        assert again == first


def test_a_copy_that_no_study_names_goes_when_the_search_is_refused(raw: dict[str, Any], tmp_path: Path) -> None:
    with copied(raw) as first:
        begin(first)
    (tmp_path / "bank.csv").write_text("id,bank,y\n1,3,0\n")
    with suppress(StudyError), copied(raw) as other:
        assert other != first
        assert all(path.is_file() for path in own_files(other))
        raise StudyError("exists with another spec")
    assert len(list((place_of_copies() / storage_at().identity() / "loans").iterdir())) == 2
    assert all(path.is_file() for path in own_files(first))


def test_a_name_that_is_no_name_of_a_study_makes_no_folder(raw: dict[str, Any], home: Path) -> None:
    with pytest.raises(SpecError), copied({**raw, "study": "../../loans"}):
        pytest.fail("refused before")
    assert not home.exists()


@pytest.mark.usefixtures("unused_by_all")
def test_removal_and_clean_take_what_no_study_names(raw: dict[str, Any]) -> None:
    with copied(raw) as first:
        begin(first)
    orphan = place_of_copies() / storage_at().identity() / "gone" / "0123456789abcdef" / "t.csv"
    orphan.parent.mkdir(parents=True)
    orphan.write_text("a,y\n")
    assert [waste.path for waste in cleaning.clean(dry_run=True).waste if "data" in waste.kind] == [orphan]
    cleaning.clean()
    assert not orphan.parent.parent.exists()
    assert of_no_study(storage_at()) == ([], [])
    (one,) = removal.look(["loans"])
    assert len(removal.remove(one).data) == 2
    assert not place_of_copies().exists()


def test_later_verbs_read_the_copy(raw: dict[str, Any], tmp_path: Path) -> None:
    with copied(raw) as first:
        begin(first)
    for name in ("bank", "shop"):
        (tmp_path / f"{name}.csv").unlink()
    assert len(own_files({"dataset": reopened("loans").cell.dataset.model_dump()})) == 2


def kept_by_clean(run: Run, *options: object) -> str:
    """Clean, and return what it says; the copies stay."""
    files = sorted(path for path in place_of_copies().rglob("*") if path.is_file())
    assert files
    code, out, err = run("clean", *options)
    assert (code, "data of no study" in out) == (0, False)
    assert sorted(path for path in place_of_copies().rglob("*") if path.is_file()) == files
    return err


@pytest.mark.usefixtures("unused_by_all")
@pytest.mark.parametrize("makes_copies", [None, as_copied_by_0_1_0], ids=["this release", "0.1.0"])
@pytest.mark.parametrize("there", [False, True], ids=["no ledger", "another ledger"])
def test_the_copies_of_another_ledgers_studies_stay(
    raw: dict[str, Any], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, makes_copies: Any, there: bool
) -> None:
    """As with TUNE_VFL_STORAGE forgotten."""
    with monkeypatch.context() as server:
        server.setenv("TUNE_VFL_STORAGE", str(tmp_path / "server.db"))
        if makes_copies is None:
            with copied(raw) as spec:
                begin(spec)
        else:
            spec = makes_copies(raw)
            begin(spec)
    if there:
        begin({**raw, "study": "another"})
    said = kept_by_clean(run)
    assert "2 folders of copied data: studies of another ledger than" in said
    assert f"rm -r {own_files(spec)[0].parent}" in said
    assert kept_by_clean(run, "--storage", tmp_path / "server.db") == ""


@pytest.mark.usefixtures("unused_by_all")
def test_the_copies_of_a_study_that_a_backup_lacks_are_not_the_backups_to_remove(
    raw: dict[str, Any], tmp_path: Path, run: Run
) -> None:
    open_ledger("first").close()
    back_up(tmp_path / "before.db")
    with copied(raw) as spec:
        begin(spec)
    assert "2 folders of copied data" in kept_by_clean(run, "--storage", tmp_path / "before.db")


@pytest.mark.usefixtures("unused_by_all")
def test_the_copies_of_a_home_that_was_moved_stay(
    raw: dict[str, Any], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with copied(raw) as spec:
        begin(spec)
    home_folder().rename(tmp_path / "moved")
    monkeypatch.setenv("TUNE_VFL_HOME", str(tmp_path / "moved"))
    assert kept_by_clean(run) == ""


def test_a_study_of_the_first_release_is_the_same_when_its_spec_comes_again(raw: dict[str, Any]) -> None:
    before = as_copied_by_0_1_0(raw)
    begin(before)
    for lost in (False, True):
        if lost:
            own_files(before)[0].unlink()
        with copied(raw) as again:
            assert again == before
            begin(again)
    assert all(path.is_file() for path in own_files(before))
    assert not (place_of_copies() / storage_at().identity()).exists()


def test_removal_takes_the_copies_that_the_study_names_and_no_other(raw: dict[str, Any], tmp_path: Path) -> None:
    before = as_copied_by_0_1_0(raw)
    begin(before)
    unnamed = place_of_copies() / "loans" / "0123456789abcdef" / "t.csv"
    unnamed.parent.mkdir()
    unnamed.write_text("a,y\n")
    unpack(pack("loans").named("again"))
    (first, second) = (removal.look([name])[0] for name in ("loans", "again"))
    assert removal.remove(first).data == [], "another study names them"
    assert all(path.is_file() for path in own_files(before))
    assert removal.remove(second).data == list(second.files)
    assert [path for path in place_of_copies().rglob("*") if path.is_file()] == [unnamed]
    assert all((tmp_path / name).is_file() for name in ("bank.csv", "shop.csv"))


def test_of_a_users_own_files_removal_takes_none(raw: dict[str, Any], tmp_path: Path) -> None:
    begin(raw)
    (one,) = removal.look(["loans"])
    assert len(one.files) == 2
    assert removal.remove(one).data == []
    assert all((tmp_path / name).is_file() for name in ("bank.csv", "shop.csv"))


def test_of_several_files_only_what_was_made_here_goes(raw: dict[str, Any], tmp_path: Path) -> None:
    """Another process may have made the rest, for a study that is about to begin."""
    with copied(raw) as first:
        (tmp_path / "bank.csv").write_text("id,bank,y\n1,3,0\n")
        with suppress(StudyError), copied(raw) as other:
            (changed,) = {*own_files(other)} - {*own_files(first)}
            raise StudyError("refused")
        assert all(path.is_file() for path in own_files(first))
        begin(first)
    assert all(path.is_file() for path in own_files(first))
    assert not changed.exists()
