"""What parties' files share: a file that is a part of another, and a file most of whose rows find no partner."""

from pathlib import Path

import pandas as pd
import pytest

from tests.data.test_precision import read


def notes_of(folder: Path, ids: dict[str, range], kind: str = "csv") -> tuple[str, ...]:
    """Join files of these ids, the last of which has the label."""
    parties = {}
    for name, own in ids.items():
        frame = pd.DataFrame({"i": [*own], name: [k * 7 % 31 for k in own]})
        frame = frame.assign(y=frame["i"] % 2) if name == [*ids][-1] else frame
        path = folder / f"{name}.{kind}"
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
        parties[name] = {"path": str(path)}
    return read({"id": "i", "label": "y", "parties": parties}).notes


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_is_a_part_of_another_is_named_with_what_the_other_has_more(tmp_path: Path, kind: str) -> None:
    notes = notes_of(tmp_path, {"shop": range(80), "bank": range(100)}, kind)
    said = (
        f"shop.{kind} (shop): its 80 ids are a part of those of bank.{kind} (bank), which has 20 more; training is on"
    )
    assert [note for note in notes if "a part of those of" in note] == [f"{said} rows of all files"]
    assert not any(note.startswith("most rows") for note in notes)


def test_a_label_party_that_is_a_part_of_several(tmp_path: Path) -> None:
    notes = notes_of(tmp_path, {"a": range(100), "b": range(50, 200), "bank": range(60, 90)})
    assert (
        "bank.csv (bank): its 30 ids are a part of those of a.csv (a), which has 70 more, b.csv (b), which has 120 "
        "more; training is on rows of all files"
    ) in notes


def test_where_most_rows_are_lost_the_file_that_lacks_them_is_asked_about(tmp_path: Path) -> None:
    notes = notes_of(tmp_path, {"a": range(1000), "b": range(10, 990), "bank": range(600, 1600)})
    asked = [note for note in notes if note.startswith("most rows of")]
    assert asked == [
        (
            "most rows of a.csv (a) are lost, 610 of 1,000: bank.csv (bank) lacks 600 of their ids; is it a sample, a "
            "part or an export of another day?"
        ),
        (
            "most rows of b.csv (b) are lost, 590 of 980: bank.csv (bank) lacks 590 of their ids; is it a sample, a "
            "part or an export of another day?"
        ),
        (
            "most rows of bank.csv (bank) are lost, 610 of 1,000: b.csv (b) lacks 610 of their ids; is it a sample, a "
            "part or an export of another day?"
        ),
    ]


def test_equal_files_and_a_few_rows_that_are_lost_are_not_asked_about(tmp_path: Path) -> None:
    assert not any(" ids are a part" in note for note in notes_of(tmp_path, {"a": range(60), "bank": range(60)}))
    notes = notes_of(tmp_path, {"a": range(60), "bank": range(5, 65)})
    assert [note for note in notes if "partner" in note] == [
        "a.csv: 5 of 60 rows have no partner in every file and are left out",
        "bank.csv: 5 of 60 rows have no partner in every file and are left out",
    ]
    assert not any("ids" in note for note in notes)
