"""The lease: one driver a study, in a file and on a server, and who has lost it cannot write."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import update

from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.postgres import Postgres
from tests.helpers.simulated import Simulation, simulate, simulated_cell, simulated_spec
from tune_vfl.errors import StudyError
from tune_vfl.ledger import lease as module
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.lease import Holder, Lease, LeaseLostError, holders, lease_of
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.schema import leases
from tune_vfl.ledger.storage import storage_at
from tune_vfl.outcome import read_outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.confirmations import SeedRecord
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> LedgerStorage:
    if request.param == "sqlite":
        return storage_at(str(tmp_path / "ledger.db"))
    return storage_at(request.getfixturevalue("postgres").fresh())


def ledger_of(place: LedgerStorage, lease: Lease | None) -> Ledger:
    spec = simulated_spec("study", storage=place.url)
    cell = simulated_cell(spec)
    return Ledger.of_campaign(PlannedCampaign.of(PlannedStudy(spec, cell, space_of(spec, cell))), place, lease)[0]


def told(ledger: Ledger, number: int) -> Any:
    outcome = simulate(Simulation(), ledger.cell, {"scale": 0.01})
    return ledger.tell(number, read_outcome(outcome.model_dump(mode="json")))


HOLDER = """
import sys, time
from tune_vfl.ledger.storage import storage_at
with storage_at(sys.argv[1]).lease("study"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder() -> Iterator[Callable[[LedgerStorage], subprocess.Popen[str]]]:
    """Start a process that holds the study."""
    started: list[subprocess.Popen[str]] = []

    def start(place: LedgerStorage) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, place.url]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "held\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def row(place: LedgerStorage) -> Holder:
    return place.read(lambda connection: lease_of("study", connection))


def test_one_driver_a_study_and_the_refusal_says_who(place: LedgerStorage, holder: Any) -> None:
    other = holder(place)
    with pytest.raises(StudyError) as refused, place.lease("study"):
        pass
    said = str(refused.value)
    assert f"process {other.pid} on {os.uname().nodename} (since 20" in said
    assert "being run by another process" in said
    assert "--take-over" in said
    assert refused.value.exit_code == 2
    assert [(study, h.owner["pid"]) for study, h in holders(place)] == [("study", other.pid)]
    with place.lease("another study"):
        pass


def test_a_killed_driver_holds_nothing(place: LedgerStorage, holder: Any) -> None:
    other = holder(place)
    other.kill()
    other.wait()
    assert row(place).text, "it could not give it back"
    with place.lease("study") as lease:
        assert lease.taken_from is None
        assert row(place).epoch == 2
    assert holders(place) == []


def test_what_ended_gives_it_back(place: LedgerStorage) -> None:
    with place.lease("study"), pytest.raises(StudyError, match="another process"), place.lease("study"):
        pass
    with place.lease("study"):
        pass


@pytest.mark.parametrize("moved", ["host", "namespace"])
def test_of_another_machine_the_time_is_waited_for(place: LedgerStorage, moved: str) -> None:
    """Nothing can be known from here of a process elsewhere: only its silence counts."""
    with place.lease("study"):
        pass

    def rewrite(left: float) -> None:
        owner = {**module.this_owner("x"), "pid": 999_999_999, moved: "elsewhere"}
        with place.transaction() as connection:
            clock = place.clock(connection)
            connection.exec_driver_sql(
                f"UPDATE leases SET holder = '{json.dumps(owner)}', since = 'then', clock = '{clock.name}', "  # noqa: S608
                f"expires = {clock.now + left}"
            )

    rewrite(left=5000.0)
    with pytest.raises(StudyError, match=r"since then\), last heard of 0 s ago.* runs out \d{4} s from now"):
        place.lease("study").__enter__()
    with place.lease("study", take_over=True) as lease:
        assert lease.taken_from is not None
        assert "999999999" in str(lease.taken_from)
    rewrite(left=-1.0)
    with place.lease("study") as lease:
        assert lease.taken_from is None


def test_of_another_machine_on_the_same_file_nothing_runs_out(tmp_path: Any) -> None:
    """A shared home: the other machine's times say nothing here, before or after it was started anew."""
    place = storage_at(str(tmp_path / "ledger.db"))
    with place.lease("study"):
        pass
    owner = {**module.this_owner("x"), "host": "elsewhere", "boot": "another"}
    with place.transaction() as connection:
        held = update(leases).values(holder=json.dumps(owner), since="then", clock="another", expires=5.0)
        connection.execute(held)
    assert [study for study, _ in holders(place)] == ["study"]
    refused = r"held by another machine, which writes the same file: process \d+ on elsewhere .*--take-over.*PostgreSQL"
    with pytest.raises(StudyError, match=refused):
        place.lease("study").__enter__()
    with place.lease("study", take_over=True):
        pass
    with place.transaction() as connection:
        connection.execute(update(leases).values(holder=json.dumps(owner), clock="another", expires=0.0))
    with place.lease("study"):
        pass  # what it gave back is free


def test_a_machine_that_was_started_anew_holds_no_file(tmp_path: Any) -> None:
    place = storage_at(str(tmp_path / "ledger.db"))
    with place.lease("study"):
        pass
    owner = {**module.this_owner("x"), "boot": "before"}
    with place.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE leases SET holder = '{json.dumps(owner)}', clock = 'before', expires = 1e12"  # noqa: S608
        )
    with place.lease("study"):
        pass


def test_who_lost_it_cannot_write_and_is_told_who_has_it(place: LedgerStorage) -> None:
    with place.lease("study") as first:
        ledger = ledger_of(place, first)
        begun = ledger.begin({"scale": 0.02})
        with place.lease("study", take_over=True) as second:
            for write in (
                lambda: ledger.begin({"scale": 0.03}),
                lambda: told(ledger, begun),
                lambda: ledger.set_cost(7.0),
                lambda: Confirmations(place, first).keep(("study", begun, 1000), SeedRecord(outcome="error")),
            ):
                with pytest.raises(LeaseLostError, match=rf"process {os.getpid()} on .* has it now"):
                    write()
            held = ledger.record()
            assert (held.running, len(held.trials)) == (1, 0), "reading goes on, and nothing was written"
            taken = ledger_of(place, second)
            assert [r.number for r in taken.recover()] == [begun], "its running trials are free at once"
            retry = taken.begin({"scale": 0.02}, retry_of=begun)
            assert told(taken, retry).outcome.outcome == "ok"
        with pytest.raises(LeaseLostError, match="nobody has it now"):
            ledger.begin({"scale": 0.04})
        with pytest.raises(LeaseLostError), place.transaction(first):
            pass
    assert len(reopened("study", place.url).trials()) == 2


def test_a_lease_that_was_given_back_writes_no_more(place: LedgerStorage) -> None:
    with place.lease("study") as lease:
        ledger = ledger_of(place, lease)
    with pytest.raises(LeaseLostError):
        ledger.begin({"scale": 0.02})


def test_the_heart_renews_and_finds_out(place: LedgerStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 1.0)
    with place.lease("study") as first:
        taken, end = row(place).clock.now, time.monotonic() + 60
        while row(place).clock.now == taken:
            assert time.monotonic() < end
            time.sleep(0.05)
        first.check()
        with place.lease("study", take_over=True):
            end = time.monotonic() + 60
            while first._lost is None and time.monotonic() < end:
                time.sleep(0.05)
            with pytest.raises(LeaseLostError, match="taken over"):
                first.check()


def test_a_stopped_driver_loses_it_by_its_silence(place: LedgerStorage, holder: Any) -> None:
    other = holder(place)
    os.kill(other.pid, signal.SIGSTOP)
    try:
        with place.transaction() as connection:  # a minute later
            connection.exec_driver_sql("UPDATE leases SET expires = 0")
        with place.lease("study") as lease:
            assert lease.taken_from is None
            assert row(place).owner["pid"] == os.getpid()
    finally:
        os.kill(other.pid, signal.SIGCONT)


def test_a_wrong_clock_harms_nothing(place: LedgerStorage, holder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the clock that is shared counts: the server's, or the time since this machine was started."""
    holder(place)
    ahead = time.time() + 1e6
    monkeypatch.setattr(time, "time", lambda: ahead)
    with pytest.raises(StudyError, match="another process"), place.lease("study"):
        pass


def test_taking_over_waits_for_a_transaction_that_is_under_way(postgres: Postgres) -> None:
    """What the old driver has begun to write is whole before the new one looks."""
    place = storage_at(postgres.fresh())
    with place.lease("study") as lease:
        ledger_of(place, lease)
        with place.transaction(lease):
            code = (
                "import sys\nfrom tune_vfl.ledger.storage import storage_at\n"
                "with storage_at(sys.argv[1]).lease('study', take_over=True): print('taken', flush=True)"
            )
            taking = subprocess.Popen([sys.executable, "-c", code, place.url], stdout=subprocess.PIPE, text=True)
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            end = time.monotonic() + 60
            while postgres.sql(waiting)[0][0] == 0:
                assert time.monotonic() < end
                assert taking.poll() is None
                time.sleep(0.1)
        out, _ = taking.communicate(timeout=60)
        assert out == "taken\n"


def test_leases_cost_readers_nothing(place: LedgerStorage) -> None:
    with place.lease("study") as lease:
        ledger_of(place, lease).begin({"scale": 0.02})
        assert reopened("study", place.url).record().running == 1


def test_unleased_ledgers_still_write() -> None:
    """Looking at a study, and its tests, need no lease."""
    assert open_ledger().begin({"scale": 0.01}) == 0
