"""Packed studies of the schema before today's are read, checked as today's are."""

import json
import zipfile
from pathlib import Path

import pytest

from tune_vfl.cli.main import main
from tune_vfl.errors import ParcelError
from tune_vfl.records.packed_file import read_packed

FILE = Path(__file__).parent / "packed-1.study"
"""A study of measure 3 by 9feba95a, the last commit that wrote this schema."""


def test_it_holds_what_it_held() -> None:
    packed = read_packed(FILE)
    with zipfile.ZipFile(FILE) as archive:
        head = json.loads(archive.read("study.json"))
        trials = [json.loads(line) for line in archive.read("trials.jsonl").splitlines()]
    (study,) = packed.studies
    assert (study.name, study.trials, study.measure) == ("sample", head["budget"], head["study"].get("measure", 1))
    assert study.baseline is not None
    assert study.baseline.utility is not None
    assert study.baseline.utility.mean == head["baseline"]["utility"]["mean"]
    said = [t["outcome"].get("utility", {}).get("values") for t in trials]
    assert [t.result and t.result.utility and list(t.result.utility.values) for t in packed.trials] == said
    assert [t.params for t in packed.trials] == [t["params"] for t in trials]
    assert all(t.finished is not None and t.finished >= t.asked for t in packed.trials)


@pytest.mark.usefixtures("home")
def test_it_is_unpacked_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "unpack", str(FILE)]) == 0
    capsys.readouterr()
    assert main(["status", "sample", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["study"] == "sample"
    assert shown["front"]


@pytest.mark.parametrize("without", ["study", "budget"])
def test_one_that_lacks_something_is_refused(tmp_path: Path, without: str) -> None:
    cut = tmp_path / "cut.study"
    with zipfile.ZipFile(FILE) as archive, zipfile.ZipFile(cut, "w") as written:
        head = json.loads(archive.read("study.json"))
        written.writestr("study.json", json.dumps({k: v for k, v in head.items() if k != without}))
        written.writestr("trials.jsonl", archive.read("trials.jsonl"))
    with pytest.raises(ParcelError, match="is not a packed study"):
        read_packed(cut)
