"""A database that is away, full or refuses: waited for, looked up, or told in words; never lost, never doubled."""

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import optuna
import psycopg
import pytest
import sqlalchemy

from tests.conftest import Run
from tests.helpers.ledgers import reopened
from tests.helpers.postgres import Postgres
from tests.helpers.simulated import Simulation, simulate, simulated_cell, simulated_spec
from tune_vfl.errors import StudyError, UnreachableError, UsageError
from tune_vfl.ledger import db_errors, storage
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.db_errors import LedgerTroubleError, retry, trouble_of
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.ledger import Ledger, NewTrial
from tune_vfl.ledger.schema import SCHEMA
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.signals import Interrupted, answered
from tune_vfl.outcome import read_outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.service.checks import Health
from tune_vfl.service.ledger_health import examine_ledger, migrate
from tune_vfl.service.repair import repair
from tune_vfl.spaces.named import space_of

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(autouse=True)
def quick_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at torch and torchvision, which takes seconds and has a test of its own."""
    monkeypatch.setattr("tune_vfl.service.health.torchvision", lambda: Health("torchvision", "ok", "not looked at"))


def ledger_of(place: LedgerStorage, lease: Lease | None = None) -> Ledger:
    spec = simulated_spec("study", budget={"trials": 4})
    cell = simulated_cell(spec)
    return Ledger.of_campaign(PlannedCampaign.of(PlannedStudy(spec, cell, space_of(spec, cell))), place, lease)[0]


def told(ledger: Ledger, number: int, scale: float = 0.01) -> Any:
    outcome = simulate(Simulation(), ledger.cell, {"scale": scale})
    return ledger.tell(number, read_outcome(outcome.model_dump(mode="json")))


def engine_of(ledger: Ledger) -> sqlalchemy.Engine:
    return ledger.place._writer


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_a_lost_answer_doubles_nothing_and_loses_nothing(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    place, cut = storage_at(postgres.fresh()), []
    with place.lease("study") as lease:
        ledger = ledger_of(place, lease)
        engine = engine_of(ledger)
        commit = engine.dialect.do_commit

        def mark(connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            if statement.startswith(("INSERT INTO trials ", "UPDATE trials ")):
                connection.info["written"] = True

        def cut_off(connection: Any) -> None:
            if not connection.info.pop("written", False) or not armed:
                commit(connection)
                return
            cut.append(armed.pop())
            if committed:
                commit(connection)
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        sqlalchemy.event.listen(engine, "before_cursor_execute", mark)
        monkeypatch.setattr(engine.dialect, "do_commit", cut_off)
        for number in (0, 2):
            armed = ["begin"]
            pack = [NewTrial({"scale": 0.01 * (number + 1)}), NewTrial({"scale": 0.01 * (number + 2)})]
            assert [trial.number for trial in ledger.begin_together(pack)] == [number, number + 1]
            armed = ["tell"]
            record = told(ledger, number)
            assert record is not None, "it is this session's own trial"
            assert record.outcome.outcome == "ok"
    assert cut == ["begin", "tell"] * 2
    held = reopened("study", place.url)
    assert [t.number for t in held.trials()] == [0, 1, 2, 3]
    assert held.record().by_outcome() == {"ok": 2, "running": 2, "waiting": 0}


def test_a_restart_and_ended_sessions_cost_the_wait_alone(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tune_vfl.ledger.lease.LEASE_SECONDS", 3.0)
    place = storage_at(postgres.fresh())
    with place.lease("study") as lease:
        ledger = ledger_of(place, lease)
        done: list[int] = []
        over = threading.Event()

        def drive() -> None:
            while not over.is_set():
                number = ledger.begin({"scale": 1e-5 * (len(done) + 1)})
                assert told(ledger, number, 1e-5 * (len(done) + 1)) is not None
                done.append(number)

        driver = threading.Thread(target=drive)
        driver.start()
        try:
            for harm in (postgres.end_sessions, postgres.stop, postgres.end_sessions):
                count = len(done) + 3
                end = time.monotonic() + 120
                while len(done) < count:
                    assert driver.is_alive()
                    assert time.monotonic() < end
                    time.sleep(0.02)
                harm()
                if harm == postgres.stop:
                    time.sleep(1.0)
                    postgres.start()
        finally:
            over.set()
            driver.join(120)
        assert not driver.is_alive()
        lease.check()
    held = reopened("study", place.url).trials()
    assert [t.number for t in held] == done
    assert {t.outcome for t in held} == {"ok"}
    assert len({t.params["scale"] for t in held}) == len(held), "no point twice"
    assert "waiting for it" in capsys.readouterr().err


def test_a_server_that_stays_away_ends_in_words(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db_errors, "PATIENCE_SECONDS", 0.5)
    ledger = ledger_of(storage_at(postgres.fresh()))
    postgres.stop()
    try:
        with pytest.raises(LedgerTroubleError, match=r"tried again for \d+ s\); check that the server runs") as gone:
            ledger.begin({"scale": 0.01})
        assert gone.value.exit_code == 4
        assert postgres.password not in str(gone.value)
    finally:
        postgres.start()
    assert ledger.begin({"scale": 0.01}) == 0, "the same ledger goes on when it is back"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("53100", "disk of the database server is full; make room"),
        ("42501", "may not do that"),
        ("XX000", r"the database says no \(XX000\); look at the database's log"),
        ("54001", r"the database says no \(54001\)"),
        ("F0001", r"the database says no \(F0001\)"),
    ],
)
def test_what_waiting_does_not_mend_is_told_at_once(postgres: Postgres, state: str, says: str) -> None:
    place = storage_at(postgres.fresh())
    ledger = ledger_of(place)
    postgres.sql(
        "CREATE FUNCTION harm() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$",
        place.url,
    )
    postgres.sql("CREATE TRIGGER harm BEFORE INSERT ON trials FOR EACH ROW EXECUTE FUNCTION harm()", place.url)
    begun = time.monotonic()
    with pytest.raises(UnreachableError, match=says) as refused:
        ledger.begin({"scale": 0.01})
    assert "invalid data" not in str(refused.value)
    assert refused.value.exit_code == 4
    assert time.monotonic() - begun < db_errors.PATIENCE_SECONDS
    postgres.sql("DROP TRIGGER harm ON trials", place.url)
    assert ledger.begin({"scale": 0.01}) == 0


PASSING = ("08006", "25P03", "40001", "40P01", "53000", "53200", "53300", "55P03", "57000", "57014", "57P01", "58030")


def test_what_may_pass_is_tried_again_whatever_its_class(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db_errors, "PATIENCE_SECONDS", 0.0)
    place = storage_at(postgres.fresh())
    ledger = ledger_of(place)
    for state in PASSING:
        postgres.sql(
            "CREATE OR REPLACE FUNCTION harm() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$",
            place.url,
        )
        if state == PASSING[0]:
            harm = "CREATE TRIGGER harm BEFORE INSERT ON trials FOR EACH ROW EXECUTE FUNCTION harm()"
            postgres.sql(harm, place.url)
        with pytest.raises(LedgerTroubleError, match="tried again for") as gone:
            ledger.begin({"scale": 0.01})
        assert gone.value.exit_code == 4, state


def test_a_statement_that_the_server_breaks_off_for_its_time_is_told_in_words(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_errors, "PATIENCE_SECONDS", 0.0)
    place = storage_at(postgres.fresh())
    ledger = ledger_of(place)
    database = place.url.rpartition("/")[2]
    postgres.sql(f"ALTER DATABASE {database} SET statement_timeout = '200ms'")
    place.close()
    slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(9); RETURN NEW; END $$"
    postgres.sql(slow, place.url)
    postgres.sql("CREATE TRIGGER slow BEFORE INSERT ON trials FOR EACH ROW EXECUTE FUNCTION slow()", place.url)
    with pytest.raises(
        LedgerTroubleError, match=r"broke a statement off.*tried again.*raise this user's statement_tim"
    ):
        ledger.begin({"scale": 0.01})
    postgres.sql("DROP TRIGGER slow ON trials", place.url)
    assert ledger.begin({"scale": 0.01}) == 0


def test_a_statement_that_another_session_cancels_is_done_again(postgres: Postgres) -> None:
    place = storage_at(postgres.fresh())
    ledger = ledger_of(place)
    cancelled: list[int] = []
    with psycopg.connect(place.url) as other:
        other.execute("LOCK TABLE trials IN ACCESS EXCLUSIVE MODE")

        def cancel() -> None:
            waiting = "SELECT pg_cancel_backend(pid), pid FROM pg_locks WHERE NOT granted"
            while not cancelled:
                cancelled.extend(pid for _, pid in postgres.sql(waiting, place.url))
            other.rollback()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        assert ledger.begin({"scale": 0.01}) == 0
        canceller.join()
    assert cancelled
    assert len(ledger.trials()) == 1


def test_a_full_disk_under_a_file_is_told_in_words(tmp_path: Path) -> None:
    place = storage_at(str(tmp_path / "ledger.db"))
    ledger = ledger_of(place)
    engine = engine_of(ledger)

    def fill(connection: Any, _record: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sqlalchemy.event.listen(engine, "connect", fill)
    engine.dispose()
    with pytest.raises(LedgerTroubleError, match=r"ledger\.db: the disk that holds it is full; make room there"):
        ledger._set(data="x" * 50_000)
    assert reopened("study", place.url).record().trials == ()


def test_a_file_that_another_process_keeps_locked_is_waited_for(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(db_errors, "PATIENCE_SECONDS", 0.3)
    place = storage_at(str(tmp_path / "ledger.db"))
    ledger = ledger_of(place)
    monkeypatch.setattr(storage, "_LOCKED_SECONDS", 0.3)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerTroubleError, match=r"locked for a minute \(tried again for"):
        ledger.set_cost(5.0)
    other.rollback()
    other.close()
    ledger.set_cost(5.0)


def test_ctrl_c_is_answered_while_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    ledger = ledger_of(storage_at(str(tmp_path / "ledger.db")))
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    sent = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begun = time.monotonic()
    sent.start()
    with pytest.raises(Interrupted), answered(lambda: "left"):
        ledger.set_cost(5.0)
    assert time.monotonic() - begun < 3
    other.rollback()
    other.close()
    ledger.set_cost(5.0)


def test_what_passes_is_tried_again_and_what_does_not_is_told() -> None:
    calls: list[str] = []

    def attempt() -> str:
        calls.append("attempt")
        if len(calls) < 3:
            raise LedgerTroubleError("there", db_errors.Trouble("away", "wait", passes=True))
        return "done"

    assert retry(attempt) == "done"
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("error", "passes", "says"),
    [
        (psycopg.errors.AdminShutdown(), True, "stopped"),
        (psycopg.errors.DiskFull(), False, "full"),
        (psycopg.errors.TooManyConnections(), True, "connections"),
        (psycopg.errors.DeadlockDetected(), True, "way"),
        (psycopg.OperationalError("connection failed: Connection refused"), True, "does not answer"),
        (psycopg.errors.ConnectionTimeout("connection timeout expired"), True, "does not answer"),
        (psycopg.OperationalError("FATAL:  password authentication failed for user"), False, "password"),
    ],
)
def test_errors_mean_what_they_say(error: Exception, passes: bool, says: str) -> None:
    found = trouble_of(error)
    assert found is not None
    assert found.passes is passes
    assert says in found.what


def of_sqlite(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"what {name} says")
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize("name", ["SQLITE_NOMEM", "SQLITE_LOCKED", "SQLITE_PERM", "SQLITE_INTERRUPT"])
def test_what_no_table_names_is_told_in_its_own_words(name: str) -> None:
    found = trouble_of(of_sqlite(name))
    assert found is not None
    assert (found.what, found.passes) == (f"the database says what {name} says ({name})", False)


MISTAKES = [
    psycopg.errors.UniqueViolation(),
    psycopg.errors.UndefinedTable(),
    psycopg.errors.InvalidTextRepresentation(),
    of_sqlite("SQLITE_ERROR"),
    ValueError("x"),
]


@pytest.mark.parametrize("error", MISTAKES)
def test_mistakes_are_not_the_databases(error: Exception) -> None:
    assert trouble_of(error) is None


def test_where_there_is_no_server_or_no_entry(postgres: Postgres, run: Run) -> None:
    url = postgres.url
    cases = {
        url.replace(f":{postgres.port}/", ":1/"): "does not answer",
        url.replace(postgres.password, "wrong"): "refuses this user or password",
        url.rpartition("/")[0] + "/nothing": "no database",
    }
    for wrong, says in cases.items():
        code, out, err = run("studies", "--storage", wrong)
        assert (code, out) == (4, "")
        assert says in err
        assert postgres.password not in err
        assert "wrong@" not in err
    code, _, err = run("studies", "--storage", "mysql://x@y/z")
    assert code == 2
    assert "expected a path, sqlite:///PATH or postgresql://" in err


@pytest.mark.parametrize("verb", [("studies",), ("status", "study"), ("confirm", "study"), ("study", "pack", "study")])
def test_a_folder_is_no_ledger_and_the_answer_says_what_was_expected(
    run: Run, home: Path, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    for named in (str(tmp_path), f"sqlite:///{tmp_path}"):
        code, out, err = run(*verb, "--storage", named)
        assert (code, out) == (2, "")
        assert f"storage {tmp_path}: is a folder; expected a file, sqlite:///PATH or postgresql://" in err
    code, out, _ = run("doctor", "--storage", tmp_path, "--json")
    (ledger,) = [check for check in json.loads(out)["checks"] if check["name"] == "ledger"]
    assert (code, ledger["status"], "is a folder" in ledger["detail"]) == (1, "finding", True)


def test_without_psycopg_the_answer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"pip install 'tune-vfl\[postgres\]'"):
        storage_at("postgresql://x@127.0.0.1:1/y").exists()


def test_every_verb_finds_the_ledger_that_the_environment_names(
    postgres: Postgres, run: Run, monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    url = postgres.fresh()
    monkeypatch.setenv("TUNE_VFL_STORAGE", url)
    monkeypatch.setattr(
        "tune_vfl.tracking.mlflow.Recorder.rewrite", lambda *_: None
    )  # which takes seconds, and has tests
    code, out, _ = run("studies", "--json")
    assert (code, json.loads(out)["studies"]) == (0, [])
    assert postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", url) == [(0,)], "only looked at"
    place = storage_at()
    with place.lease("study") as lease:
        ledger = ledger_of(place, lease)
        told(ledger, ledger.begin({"scale": 0.01}))
        orphan = ledger.begin({"scale": 0.02})
        check = examine_ledger()
        assert check.status == "ok"
        assert f"1 studies, answers, schema {SCHEMA}; running: study by process" in check.detail
        assert postgres.password not in check.detail
        (repaired,) = repair(lambda _said: None)
        assert "left alone: study 'study' is being run" in repaired.detail
        ledger.close()
    monkeypatch.delenv("TUNE_VFL_STORAGE")
    code, out, _ = run("doctor", "--repair", "--storage", url, "--json")
    details = {c["name"]: c["detail"] for c in json.loads(out)["checks"]}
    assert "1 orphaned trials recovered" in details["repair study"]
    assert "1 studies, answers" in details["ledger"]
    for verb in (("status", "study", "--json"), ("frontier", "study", "--json")):
        code, out, _ = run(*verb, "--storage", url)
        assert code == 0
        assert '"scale": 0.01' in out
    assert run("export", "study", "--select", "knee", "-o", tmp_path / "x.json", "--storage", url)[0] == 0
    assert reopened("study", url).trials()[orphan].outcome == "preempted"
    assert not (home / "ledger.db").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_of_another_schema_is_refused(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, run: Run
) -> None:
    given = str(tmp_path / "l.db") if kind == "sqlite" else request.getfixturevalue("postgres").fresh()
    place = storage_at(given)
    ledger_of(place).close()
    assert place.version() == SCHEMA
    code, out, _ = run("doctor", "--migrate", "--storage", given, "--json")
    (check,) = [c for c in json.loads(out)["checks"] if c["name"] == "migrate"]
    assert f"schema {SCHEMA} already" in check["detail"]
    for version, says in ((99, "schema 99, written by tune-vfl 9.9"), (3, "from before its first release")):
        with place._writer.begin() as connection:
            connection.exec_driver_sql(f"UPDATE tune_vfl_ledger SET version = {version}, program = '9.9'")  # noqa: S608
        for verb in (("status", "study"), ("studies",), ("resume", "study")):
            code, out, err = run(*verb, "--storage", given)
            assert (code, out) == (2, "")
            assert says in err
            assert ("install tune-vfl 9.9 or later" if version == 99 else "move it away") in err
        assert migrate(given).status == examine_ledger(given).status == "finding"
        with pytest.raises(StudyError, match=says), storage_at(given).lease("study"):
            pass


def test_a_database_of_optuna_is_no_ledger(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:///{tmp_path / 'l.db'}"
    optuna.create_study(storage=url, study_name="theirs")
    code, out, err = run("studies", "--storage", url)
    assert (code, out) == (2, "")
    assert "has Optuna's tables" in err
    assert "search again" in err


@pytest.mark.parametrize("query", ["connect_timeout=abc", "nonsense=1"])
def test_what_the_client_cannot_be_asked_for_is_said(query: str) -> None:
    with pytest.raises(UnreachableError, match=r"asks for what PostgreSQL's client does not know.*check the URL"):
        storage_at(f"postgresql://u@127.0.0.1:9/d?{query}").exists()
