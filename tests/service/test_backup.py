"""A backup is the whole ledger at one moment, for its user alone, and never takes the place of a file."""

import sqlite3
import stat
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.helpers.ledgers import open_ledger
from tests.helpers.mounts import among_own_mounts
from tune_vfl.errors import StudyError, TuneVflError, UsageError
from tune_vfl.ledger.lease import holders
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.outcome import Outcome
from tune_vfl.service.backup import back_up


@pytest.fixture
def running(home: Path):
    """A study with one trial told and one in flight, its driver still there."""
    ledger = open_ledger()
    ledger.tell(ledger.begin({"scale": 1e-3}), Outcome.failed("error", "x"))
    ledger.begin({"scale": 1e-2})
    yield ledger
    ledger.close()


def test_a_copy_is_whole_while_its_ledger_is_written(running, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "copies" / "monday.db"
    with storage_at().lease("study"), storage_at().transaction():
        code, out, _ = run("study", "backup", file, "--json")
    assert code == 0
    assert f'"studies": 1, "bytes": {file.stat().st_size}' in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["monday.db"], "nothing stands beside it"
    running.tell(1, Outcome.failed("oom", "full"))
    held = open_study("study", str(file)).record().studies[0]
    assert (len(held.trials), held.running) == (1, 0), "it is the moment of the copy, and nothing runs there"
    assert holders(storage_at(str(file))) == [], "nobody runs it there"


def test_a_file_that_is_there_stays(running, tmp_path: Path) -> None:
    file = tmp_path / "monday.db"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"monday\.db is there already"):
        back_up(file)
    assert file.read_text() == "mine"


def test_without_a_ledger_there_is_nothing_to_copy_and_nothing_is_made(home: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="there is no ledger"):
        back_up(tmp_path / "monday.db")
    assert not home.exists()


def test_of_a_server_the_command_is_said_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pg_dump --format=custom --file=\S+ 'postgresql://me@db/tune'"):
        back_up(tmp_path / "monday.dump", "postgresql://me:secret@db/tune")


def test_a_damaged_ledger_leaves_no_copy(running, home: Path, tmp_path: Path) -> None:
    running.close()
    with sqlite3.connect(home / "ledger.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trials'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with (home / "ledger.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\0" * 200)
    with pytest.raises(TuneVflError, match="is damaged"):
        back_up(tmp_path / "monday.db")
    assert not list(tmp_path.glob("*monday*"))


@pytest.mark.parametrize("verb", [["study", "backup"], ["optuna", "study"], ["study", "pack", "study", "-o"]])
def test_a_full_disk_of_the_copy_is_named_and_nothing_is_left_on_it(running, tmp_path: Path, verb: list[str]) -> None:
    (tmp_path / "small").mkdir()
    lines = "mount -t tmpfs -o size=8k none small && head -c 8192 /dev/zero > small/full && cd small"
    said = among_own_mounts(f"{lines} && $0 -m tune_vfl {' '.join(verb)} x; echo $?; ls -A", tmp_path)
    assert "x: cannot be written" in said
    assert "disk is full" in said or "No space left" in said
    assert said.endswith("\n2\nfull\n")
