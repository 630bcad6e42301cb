"""A search that was left: nothing of it runs any more, and whoever looks is told so, with the line that goes on."""

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from tests.conftest import Run
from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.packing import planned
from tests.helpers.packing import run as give
from tests.helpers.reports import write_report
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.driver.progress import RunProgress
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.schema import leases
from tune_vfl.ledger.storage import storage_at
from tune_vfl.service.studies import status_of
from tune_vfl.tracking.payload import NOTE
from tune_vfl.tracking.summary import summary_content
from tune_vfl.tracking.whole import Whole

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def left() -> Ledger:
    """A study of nine trials, three of them finished and two in flight, in a process that holds no lease."""
    ledger = open_ledger(budget={"trials": 9, "trial_minutes": 1e-6})
    for n in range(5):
        number = ledger.begin({"scale": 0.01 * (n + 1)})
        if n < 3:
            ledger.tell(number, simulate(Simulation(), ledger.cell, {"scale": 0.01 * (n + 1)}))
    return ledger


def test_what_ran_when_it_was_left_is_owed_and_nothing_is_overdue(left: Ledger, run: Run) -> None:
    told = status_of(open_study("study"))
    assert (told["state"], told["trials"]) == ("stopped", {"ok": 3, "running": 0, "waiting": 6})
    assert not {"eta_seconds", "overdue"} & set(told)
    code, out, _ = run("status", "study")
    assert code == 0
    assert "nothing runs it: 'tune-vfl resume study' goes on" in out
    assert "minutes left" not in out
    assert "running" not in out
    (row,) = json.loads(run("studies", "--json")[1])["studies"]
    assert (row["state"], row["owed"], row["trials"]) == ("stopped", 6, {"ok": 3, "running": 0, "waiting": 6})


def test_while_a_process_holds_it_they_run(left: Ledger, run: Run) -> None:
    with left.place.lease("study"):
        told = status_of(open_study("study"))
        assert (told["state"], told["trials"]) == ("running", {"ok": 3, "running": 2, "waiting": 4})
        assert told["overdue"] == [3, 4]
        assert "nothing runs it" not in run("status", "study")[1]


def _lease_row(**values: Any) -> None:
    """Write a lease's row as another machine would have left it."""
    with storage_at().transaction() as connection:
        connection.execute(update(leases).values(values))


def test_a_machine_that_was_not_heard_of_is_named_and_no_time_is_promised(left: Ledger, run: Run) -> None:
    with left.place.lease("study"):
        ledger = reopened("study")
        number = ledger.begin({"scale": 0.5})
        ledger.tell(number, simulate(Simulation(), ledger.cell, {"scale": 0.5}))
        assert status_of(open_study("study"))["eta_seconds"] >= 0
        _lease_row(expires=leases.c.expires - 40)
        told = status_of(open_study("study"))
        assert (told["state"], "eta_seconds" in told) == ("running", False)
        out = run("status", "study")[1]
        assert re.search(r"process \d+ on \S+ \(since .*\) was last heard of 4\d s ago", out)
        assert "if it is gone, 'tune-vfl resume study --take-over' goes on" in out
        assert "minutes left" not in out
        _lease_row(clock="another", holder=json.dumps({"host": "elsewhere", "pid": 7}))
        out = run("status", "study")[1]
        assert "process 7 on elsewhere" in out
        assert "whether that still runs cannot be known from here" in out
        assert "minutes left" not in out


def test_who_follows_is_let_go_when_nothing_runs_it(left: Ledger, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as search:
        search.enter_context(left.place.lease("study"))
        monkeypatch.setattr("tune_vfl.cli.studies.time", SimpleNamespace(sleep=lambda _: search.close()))
        code, out, _ = run("status", "study", "--follow", "--json")
    states = [json.loads(line)["state"] for line in out.splitlines()]
    assert (code, states) == (0, ["running", "stopped"])
    code, out, _ = run("status", "study", "--follow")
    assert code == 0
    assert out.count("nothing runs it: 'tune-vfl resume study' goes on") == 1


def test_a_campaign_is_left_as_a_whole(run: Run) -> None:
    give(planned(), storage_at())
    with storage_at().lease("c"):
        for name in ("c-laplace", "c-gaussian"):
            reopened(name).begin({"scale": 0.05})
        assert status_of(open_study("c"))["state"] == "running"
        assert open_study("c-laplace").record().studies[0].running == 1, "the lease of a part is its campaign's"
    assert "nothing runs it: 'tune-vfl resume c' goes on" in run("status", "c")[1]
    assert open_study("c-laplace").record().studies[0].running == 0


def test_a_finished_study_is_not_called_stopped() -> None:
    ledger = open_ledger(budget={"trials": 1})
    outcome = simulate(Simulation(), ledger.cell, {"scale": 0.01})
    ledger.tell(ledger.begin({"scale": 0.01}), outcome)
    assert status_of(open_study("study"))["state"] == "stopped", "the undefended model is owed"
    ledger.set_baseline(outcome)
    assert status_of(open_study("study"))["state"] == "finished"


def test_a_page_that_is_rewritten_no_more_says_what_goes_on(left: Ledger, tmp_path: Path) -> None:
    page = write_report(open_study("study").record(), tmp_path / "out", refreshing=True).read_text(encoding="utf-8")
    assert "3 of 9 trials have finished; 6 trials are still owed" in page
    assert "This page was written at 20" in page
    assert "Where it stays as it is nothing runs the search, and <code>tune-vfl resume study</code> goes on." in page


def test_the_last_line_of_a_search_that_is_left_promises_nothing(left: Ledger, monkeypatch: Any) -> None:
    progress = RunProgress([left.record()])
    progress.asked(2)
    assert "2 running" in progress.line()
    progress.end()
    assert progress.line().startswith("3/9 trials: 3 ok, 0 running; hypervolume")
    assert "ETA" not in progress.line()


def test_the_summary_in_mlflow_says_what_goes_on_and_what_has_ended(left: Ledger) -> None:
    def note(**fields: Any) -> str:
        record = open_study("study").record()
        return summary_content(Whole(replace(record, studies=(replace(record.studies[0], **fields),)))).tags[NOTE]

    goes_on, over = "`tune-vfl resume study` goes on.", "The search has ended: the front has not grown for 3 trials"
    assert goes_on in note()
    assert over not in note()
    ended = note(waiting=0, ended="the front has not grown for 3 trials")
    assert over in ended
    assert goes_on not in ended
