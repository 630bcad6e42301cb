"""A ledger that changes under a search: brought up by another program, removed, moved, replaced."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.helpers.earlier import as_0_1_0
from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, simulate, simulated_cell, simulated_spec
from tune_vfl.errors import StudyError
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.db_errors import LedgerGoneError, LedgerTroubleError
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.schema import SCHEMA
from tune_vfl.ledger.storage import storage_at
from tune_vfl.outcome import read_outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.service.backup import back_up
from tune_vfl.spaces.named import space_of

pytestmark = pytest.mark.usefixtures("home")


def study_in(place: LedgerStorage, lease: Lease | None = None) -> Ledger:
    spec = simulated_spec("study")
    cell = simulated_cell(spec)
    return Ledger.of_campaign(PlannedCampaign.of(PlannedStudy(spec, cell, space_of(spec, cell))), place, lease)[0]


def told(ledger: Ledger, scale: float) -> Any:
    outcome = simulate(Simulation(), ledger.cell, {"scale": scale})
    return ledger.tell(ledger.begin({"scale": scale}), read_outcome(outcome.model_dump(mode="json")))


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, home: Path) -> LedgerStorage:
    return storage_at(None if request.param == "sqlite" else request.getfixturevalue("postgres").fresh())


def newer(place: LedgerStorage) -> None:
    with place._writer.begin() as connection:
        connection.exec_driver_sql("UPDATE tune_vfl_ledger SET version = version + 1, program = '9.9'")


@pytest.mark.parametrize(
    ("becomes", "says"),
    [(newer, f"has schema {SCHEMA + 1}, written by tune-vfl 9.9.*kept"), (as_0_1_0, "is one of tune-vfl 0.1.0")],
)
def test_what_another_program_has_changed_is_not_written_any_more(
    place: LedgerStorage, becomes: Callable[[LedgerStorage], None], says: str
) -> None:
    with place.lease("study") as lease:
        ledger = study_in(place, lease)
        told(ledger, 0.01)
        becomes(storage_at(place.url))
        for write in (lambda: told(ledger, 0.02), lambda: ledger.set_cost(2.0)):
            with pytest.raises(StudyError, match=says) as refused:
                write()
        assert refused.value.exit_code == 2
    with place._reader.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM trials").scalar_one() == 1


def test_a_search_between_two_outcomes_learns_it_from_its_lease(
    place: LedgerStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tune_vfl.ledger.lease.LEASE_SECONDS", 0.15)
    with place.lease("study") as lease:
        newer(storage_at(place.url))
        heart = next(thread for thread in threading.enumerate() if thread.name == "tune-vfl-lease-study")
        heart.join(60)
        with pytest.raises(StudyError, match=r"written by tune-vfl 9\.9"):
            lease.check()


def test_the_rows_of_another_ledger_at_the_same_place_are_not_written(place: LedgerStorage) -> None:
    with place.lease("study") as lease:
        ledger = study_in(place, lease)
        with place._writer.begin() as connection:  # as from a backup, restored with all leases
            connection.exec_driver_sql("UPDATE tune_vfl_ledger SET identity = 'feedfacefeedface'")
        with pytest.raises(LedgerGoneError, match="is gone: another one is there now") as gone:
            told(ledger, 0.01)
        assert gone.value.exit_code == 4


def removed(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def home_moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced_by_its_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def replaced_by_its_backup(path: Path) -> None:
    back_up(path.with_name("backup"))
    removed(path)
    path.with_name("backup").replace(path)


def overwritten_by_its_backup(path: Path) -> None:
    back_up(path.with_name("backup"))
    for log in ("-wal", "-shm"):
        path.with_name(f"{path.name}{log}").unlink()
    path.write_bytes(path.with_name("backup").read_bytes())


def replaced_by_a_new_one(path: Path) -> None:
    removed(path)
    open_ledger("study").close()


def log_removed(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


CHANGES = (
    *(removed, home_moved, replaced_by_its_copy, replaced_by_its_backup, overwritten_by_its_backup),
    *(replaced_by_a_new_one, log_removed),
)


@pytest.fixture
def changed(request: pytest.FixtureRequest, home: Path) -> Iterator[tuple[Ledger, Lease]]:
    """A study under a search that has told a trial, and then the file is not what it was."""
    place = storage_at()
    with place.lease("study") as lease:
        ledger = study_in(place, lease)
        told(ledger, 0.01)
        request.param(home / "ledger.db")
        yield ledger, lease


@pytest.mark.parametrize("changed", CHANGES, indirect=True)
def test_nothing_is_written_into_a_file_that_nobody_will_find(changed: tuple[Ledger, Lease], home: Path) -> None:
    ledger, _ = changed
    before = sorted(path.name for path in home.iterdir()) if home.exists() else []
    for _ in range(2):
        with pytest.raises((LedgerGoneError, LedgerTroubleError), match=r"ledger\.db.*(is gone|is not there)") as gone:
            told(ledger, 0.02)
        assert gone.value.exit_code == 4
    assert (sorted(path.name for path in home.iterdir()) if home.exists() else []) == before, "nothing is made anew"


def test_what_is_only_read_is_never_made(home: Path, run: Run) -> None:
    ledger = open_ledger()
    ledger.close()
    removed(home / "ledger.db")
    with pytest.raises(LedgerTroubleError, match="it is not there, or cannot be opened"):
        ledger.record()
    assert run("status", "study")[0] == 2
    assert not (home / "ledger.db").exists()
