"""A user's own data files in the home: copied once, found under one path, removed with the study."""

import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ledgers import open_ledger
from tune_vfl.data.own_files import content_digest, own_files
from tune_vfl.errors import SpecError, StudyError
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.service import cleaning, removal
from tune_vfl.service.data_copies import copied, place_of_copies, unused

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    for name in ("bank", "shop"):
        (tmp_path / f"{name}.csv").write_text(f"id,{name},y\n1,2,0\n")
    bank, shop = {"path": str(tmp_path / "bank.csv")}, {"path": str(tmp_path / "shop.csv"), "columns": ["shop"]}
    dataset = {"name": "csv", "label": "y", "id": "id", "parties": {"bank": bank, "shop": shop}}
    return {"study": "loans", "dataset": dataset, "defense": ["laplace", "kdk"]}


def begin(spec: dict[str, Any]) -> None:
    """Put a study of that data set into the ledger."""
    open_ledger(spec["study"], dataset=spec["dataset"]).close()


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
    assert len(list((place_of_copies() / "loans").iterdir())) == 2
    assert all(path.is_file() for path in own_files(first))


def test_a_name_that_is_no_name_of_a_study_makes_no_folder(raw: dict[str, Any], home: Path) -> None:
    with pytest.raises(SpecError), copied({**raw, "study": "../../loans"}):
        pytest.fail("refused before")
    assert not home.exists()


def test_removal_and_clean_take_what_no_study_names(raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with copied(raw) as first:
        begin(first)
    orphan = place_of_copies() / "gone" / "0123456789abcdef"
    orphan.mkdir(parents=True)
    (orphan / "t.csv").write_text("a,y\n")
    monkeypatch.setattr(cleaning, "leftovers", iter)
    assert [waste.path for waste in cleaning.clean(dry_run=True).waste if "data" in waste.kind] == [orphan]
    cleaning.clean()
    assert not orphan.parent.exists()
    assert unused("loans") == []
    (one,) = removal.look(["loans"])
    assert len(removal.remove(one).data) == 2
    assert not place_of_copies().exists()


def test_later_verbs_read_the_copy(raw: dict[str, Any], tmp_path: Path) -> None:
    with copied(raw) as first:
        begin(first)
    for name in ("bank", "shop"):
        (tmp_path / f"{name}.csv").unlink()
    assert len(own_files({"dataset": Ledger.open("loans").cell.dataset.model_dump()})) == 2
