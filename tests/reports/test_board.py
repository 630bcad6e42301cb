"""The board: its entries are read, planned again from their commands, and shown as they are; others are refused."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from reports.board import csv_of, shelves
from reports.board_grid import grid_of
from reports.board_page import markdown
from reports.board_sets import held_against, source_of, spelled
from tune_vfl.analysis.constraints import RUNGS
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.exporting import exported
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.config import save_config
from tune_vfl.driver.planning import plan_study, read_study
from tune_vfl.errors import DataError, ParcelError, StudyError
from tune_vfl.ledger.packing import unpack
from tune_vfl.records.board import MOST_BYTES, Entry
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.packed import Packed
from tune_vfl.service.board import add, conditions_in, entries_in, write
from tune_vfl.spec.cell import MEASURE
from tune_vfl.spec.raw import apply_settings, read_yaml

if TYPE_CHECKING:
    from tests.conftest import Run

ROOT = Path(__file__).parents[2]
BOARD, DOCS = ROOT / "board", ROOT / "docs"
FILES = sorted(BOARD.glob("*/*.json.gz"))
SOME = BOARD / "breast_cancer" / "laplace.json.gz"
BYTES_AN_ENTRY = 5_000  # the mean, which may only fall: lower it with what is taken away


def again(command: str) -> dict[str, object]:
    """Return the raw spec that a command's search reads."""
    words = shlex.split(command)
    assert words[:2] == ["tune-vfl", "search"]
    assert not Path(words[2]).is_absolute()
    assert words[3::2] == ["--set"] * len(words[3::2])
    return apply_settings(read_yaml(ROOT / words[2]), words[4::2])


def assert_kept(before: object, now: object) -> None:
    """Assert that reading and writing an entry loses and changes nothing that it holds."""
    if isinstance(before, dict):
        assert isinstance(now, dict)
        for name, value in before.items():
            assert_kept(value, now[name])
    elif isinstance(before, list):
        assert isinstance(now, list)
        for one, other in zip(before, now, strict=True):
            assert_kept(one, other)
    else:
        assert now == before


@pytest.mark.parametrize("name", sorted({path.parent.name for path in FILES}))
def test_each_entrys_command_plans_what_was_measured(name: str) -> None:
    files = sorted((BOARD / name).glob("*.json.gz"))
    for path in files:
        entry = Entry.read(path)
        study = entry.record
        text = gzip.decompress(path.read_bytes()).decode()
        assert path.name == f"{study.cell.defense}.json.gz"
        assert_kept(json.loads(text), json.loads(entry.text()))
        assert study.ok, "an entry has a result"
        try:
            planned = plan_study(read_study(again(entry.command)))
        except DataError as error:
            pytest.skip(f"{name} needs public data: {error}")
        if entry.measure == MEASURE:  # those of an earlier one lack what is kept since
            assert entry.text() == text
            different = planned.difference(entry.packed.studies[0].planned)
            assert different == [], (
                f"{path}: search it again, `{entry.command}`, and add it, or remove it; where every entry differs, "
                "trials are measured otherwise than before: raise MEASURE in tune_vfl/spec/cell.py"
            )


def test_the_board_is_small() -> None:
    sizes = [path.stat().st_size for path in BOARD.rglob("*") if path.is_file()]
    assert sum(sizes) < 2_000_000
    assert sum(path.stat().st_size for path in FILES) <= BYTES_AN_ENTRY * len(FILES)


def test_the_pages_show_the_entries_as_they_are() -> None:
    found = list(shelves(entries_in(BOARD)))
    listed = pd.read_csv(DOCS / "board.csv")
    counted = [(shelf.name, row.point.defense) for shelf in found for row in shelf.every]
    assert list(zip(listed["conditions"], listed["defense"], strict=True)) == counted
    points = [row.point.objectives for shelf in found for row in shelf.every]
    assert listed[["utility", "leakage"]].to_numpy() == pytest.approx(pd.DataFrame(points).to_numpy())
    text = (DOCS / "board.md").read_text(encoding="utf-8")
    assert [path for path in FILES if f"](../board/{path.parent.name}/{path.name})" not in text] == []
    assert csv_of(found).count("\n") > len(FILES)


def test_a_failed_check_is_said_once_of_a_data_set() -> None:
    """Defenses that more attacks fit fail the check of floors with more of them."""
    text = markdown(list(shelves(entries_in(BOARD))))
    parts = {part.partition("\n")[0]: part for part in text.split("\n## ")}
    assert parts["breast_cancer"].count("Floors close to 1") == 1
    assert "unmix by" in parts["breast_cancer"]


def test_the_best_of_the_grid_is_what_a_decision_on_all_defenses_would_choose() -> None:
    """Intervals share what noise all studies have, so that a decision on one defense alone may differ at a bound."""
    found = list(shelves(entries_in(BOARD)))
    grid, chosen_somewhere = grid_of(found), 0
    for at, shelf in enumerate(found):
        studies = shelf.data.found.parts
        cells = [row.cells[at] for row in grid]
        for rung, cap in enumerate(RUNGS):
            asked = CampaignRecord(shelf.name, studies, 0, spec={"constraints": {"leakage": cap}})
            chosen = decide(joint_of(asked, shelf.data.found.dataset))
            kept = [cell.kept[rung] for cell in cells if cell.trusted]
            if chosen.verdict == "deploy":
                assert chosen.setting is not None
                assert chosen.setting.kept == max(kept)
                chosen_somewhere += 1
            elif chosen.verdict == "none_qualifies":
                assert max(kept, default=0.0) == 0
    assert chosen_somewhere > 3


def test_the_grid_has_a_row_for_each_defense_and_those_first_that_keep_something_on_the_most_data_sets() -> None:
    rows = grid_of(list(shelves(entries_in(BOARD))))
    assert {row.defense for row in rows} == {path.name.removesuffix(".json.gz") for path in FILES}
    kept = [sum(cell.kept[-1] > 0 for cell in row.cells) for row in rows]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1] == 0, "the board has defenses that keep something, and others that keep nothing"
    shares = [share for row in rows for cell in row.cells for share in cell.kept]
    assert 0 <= min(shares) < max(shares) <= 1.05
    assert all(list(cell.kept) == sorted(cell.kept) for row in rows for cell in row.cells), (
        "if more may leak, no less is kept"
    )


def test_a_setting_that_was_exported_from_a_board_s_study_finds_its_data_set(tmp_path: Path) -> None:
    """What the page compares is in the file as it is in the page, field by field."""
    for shelf in shelves(entries_in(BOARD)):
        study = shelf.data.found.parts[0]
        trial = next(trial for trial in study.trials if trial.outcome.outcome == "ok")
        file = save_config(exported(study, trial, "trial"), tmp_path / "own.json")
        own, held = json.loads(file.read_text(encoding="utf-8")), json.loads(json.dumps(held_against(shelf)))
        assert {name: own[name] for name in ("dataset", "model", "training")} == {
            name: held[name] for name in ("dataset", "model", "training")
        }
        assert set(held["attacks"]) <= {attack["name"] for attack in own["attacks"]}
        assert (own["rows"], own["threat"]["labels_per_class"]) == (held["rows"], held["known"])
        if held["alone"] is not None:
            kept = (own["measured"]["utility"] - held["alone"]) / held["gain"]
            point = next(point for point in shelf.data.found.points if point.trial == trial)
            assert kept == pytest.approx(point.gain_kept)


def test_data_sets_are_spelled_and_their_sources_named() -> None:
    for shelf in shelves(entries_in(BOARD)):
        assert spelled(shelf.name)[0].isupper()
        assert source_of(shelf.data.found.dataset)[0]
    assert spelled("a_mixture") == "a mixture"
    assert source_of("nowhere") == ("", "")
    assert source_of("bank")[1] == "https://archive.ics.uci.edu/dataset/222/bank+marketing"


def test_under_more_attacks_the_same_trainings_are_scored() -> None:
    """Attacks that both portfolios run find the same; ``pmc`` has more variants in ``thorough``."""
    rows = [row for shelf in shelves(entries_in(BOARD)) for row in shelf.every]
    pairs = [(row.point.trial.outcome, row.thorough.trial.outcome) for row in rows if row.thorough is not None]
    assert len(pairs) > 80
    differ = set()
    for few, more in pairs:
        assert few.utility == more.utility
        assert set(few.attacks) < {*more.attacks, *more.not_needed}, "more attacks leave a dear one out more often"
        differ |= {name for name, score in few.attacks.items() if score != more.attacks.get(name, score)}
    assert differ <= {"pmc"}


def test_of_each_defense_a_published_setting_is_shown_first() -> None:
    (shelf,) = (s for s in shelves(entries_in(BOARD)) if s.name == "breast_cancer")
    rows = [row for row in shelf.rows if row.point.defense == "marvell"]
    assert rows[0].source is not None
    assert rows[0].own == max(rows[0].point.trial.outcome.attacks[a].advantage for a in ("norm", "direction"))
    assert {row.point.params["budget"] for row in shelf.every if row.point.defense == "marvell" and row.source} == {
        0.25,
        1.0,
        4.0,
    }


@pytest.fixture
def mine(tmp_path: Path, home: Path) -> Path:
    """A board with the conditions on one data set, and a ledger with a study that was searched under them."""
    board = tmp_path / "board"
    board.mkdir()
    (board / "breast_cancer.yaml").write_bytes((BOARD / "breast_cancer.yaml").read_bytes())
    unpack(Entry.read(SOME).packed)
    return board


def test_a_study_of_the_ledger_becomes_an_entry(mine: Path, tmp_path: Path, run: Run) -> None:
    name = Entry.read(SOME).record.name
    code, out, err = run("board", "add", name, "--board", mine, "--json")
    assert code == 0, err
    (file,) = json.loads(out)["entries"]
    made, known = Entry.read(Path(file)), Entry.read(SOME)
    assert (made.packed, made.paper_attacks) == (known.packed, known.paper_attacks)
    assert made.command == known.command, "whose paths do not name a folder of this machine"
    written = write(mine, tmp_path / "docs")
    assert {path.name for path in written} == {"board.md", "board.csv", "board-page.html", "board-breast_cancer.svg"}
    shown = (tmp_path / "docs" / "board-page.html").read_text(encoding="utf-8")
    assert "http" not in shown, "it needs nothing but itself"
    assert "How much label leakage 1 defense leaves, and at what cost" in shown


def test_conditions_of_the_same_data_that_do_not_fit_the_defense_are_passed_over(mine: Path) -> None:
    text = (mine / "breast_cancer.yaml").read_text(encoding="utf-8")
    other = mine / "a_mixture.yaml"
    other.write_text(text.replace("attacks: default", "attacks: [unmix]"), encoding="utf-8")
    (file,) = add(Entry.read(SOME).record.name, mine)
    assert file.parent == mine / "breast_cancer"
    (mine / "breast_cancer.yaml").unlink()
    with pytest.raises(StudyError, match=r"a_mixture\.yaml: attack 'unmix'"):
        add(Entry.read(SOME).record.name, mine)


def test_another_training_is_refused_and_nothing_is_written(mine: Path) -> None:
    conditions = mine / "breast_cancer.yaml"
    conditions.write_text(conditions.read_text(encoding="utf-8") + "training: {epochs: 5}\n", encoding="utf-8")
    with pytest.raises(StudyError, match=r"other conditions.*training\.epochs: 5 -> 30"):
        add(Entry.read(SOME).record.name, mine)
    text = conditions.read_text(encoding="utf-8").replace("attacks: default", "attacks: [norm]")
    conditions.write_text(text.replace("seeds: 3", "seeds: 2"), encoding="utf-8")
    with pytest.raises(StudyError, match=r"\.\.\.; .*and \d+ more") as refused:
        add(Entry.read(SOME).record.name, mine)
    assert len(str(refused.value)) < 800
    assert sorted(mine.iterdir()) == [conditions]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [("start", [{"scale": 0.01}], "start: settings of the study's own"), ("stop", {"front": 3}, "stop: the study has")],
)
def test_a_study_with_a_start_or_a_stop_of_its_own_is_refused(mine: Path, field: str, value: object, says: str) -> None:
    rows = Entry.read(SOME).packed.named("mine").plain()
    rows["studies"][0]["spec"][field] = value
    unpack(Packed.checked(rows, "mine"))
    with pytest.raises(StudyError, match=f"'mine' was searched under other conditions.*{says}"):
        add("mine", mine)
    assert not (mine / "breast_cancer").exists()


def test_an_entry_of_an_earlier_measure_is_marked_and_compared_with_nothing(mine: Path) -> None:
    raw = json.loads(gzip.decompress(SOME.read_bytes()))
    newest = raw["packed"]["studies"][0]["measure"]
    raw["packed"]["studies"][0]["measure"] = newest - 1
    folder = mine / "breast_cancer"
    folder.mkdir()
    (folder / "laplace.json").write_text(json.dumps(raw), encoding="utf-8")  # as those of 0.1.0
    (folder / "kdk.json.gz").write_bytes((SOME.parent / "kdk.json.gz").read_bytes())
    (shelf,) = shelves(entries_in(mine))
    assert {row.point.defense for row in shelf.every} == {"kdk"}
    write(mine, mine.parent)
    assert f"Stale, and not compared: laplace (measure {newest - 1}" in (mine.parent / "board.md").read_text("utf-8")
    (folder / "kdk.json.gz").unlink()
    write(mine, mine.parent)
    assert f"Stale: measured under measure {newest - 1}, and" in (mine.parent / "board.md").read_text("utf-8")


def test_a_file_that_is_no_entry_is_named(mine: Path) -> None:
    folder = mine / "breast_cancer"
    folder.mkdir()
    (folder / "mine.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ParcelError, match=r"mine\.json: is not an entry of the board: program"):
        entries_in(mine)
    (folder / "mine.json").unlink()
    for name, content, says in (
        ("cut", SOME.read_bytes()[:1000], "cannot be read"),
        ("text", b"{}", "cannot be read"),
        ("large", gzip.compress(bytes(MOST_BYTES + 1)), "holds more than 16777216 bytes"),
    ):
        (folder / f"{name}.json.gz").write_bytes(content)
        with pytest.raises(ParcelError, match=rf"{name}\.json\.gz: .*{says}"):
            entries_in(mine)
        (folder / f"{name}.json.gz").unlink()
    assert list(conditions_in(mine)) == [mine / "breast_cancer.yaml"]
