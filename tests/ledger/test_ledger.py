"""The ledger: what is written comes back, only finite results are results, and what was lost is asked again once."""

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.driver.proposals import Proposals
from tune_vfl.errors import StudyError, UnreachableError
from tune_vfl.execution.losses import MAX_NODE_LOSSES
from tune_vfl.ledger import reading
from tune_vfl.ledger.ledger import NewTrial
from tune_vfl.ledger.reading import open_study, study_names
from tune_vfl.ledger.trials import overdue
from tune_vfl.machine.passwords import hide_password
from tune_vfl.machine.process_identity import has_ended, new_session, this_owner
from tune_vfl.outcome import AttackScore, Outcome, Score, read_outcome
from tune_vfl.spec.cell import References

pytestmark = pytest.mark.usefixtures("home")


def ok_outcome(ledger, params):
    return read_outcome(simulate(Simulation(), ledger.cell, params).model_dump(mode="json"))


def test_a_trial_comes_back_as_it_was_told():
    ledger = open_ledger(defense={"name": "laplace"})
    number = ledger.begin({"scale": 0.01}, pack="p1")
    assert ledger.record().running == 1
    outcome = ok_outcome(ledger, {"scale": 0.01})
    told = ledger.tell(number, outcome)
    held = reopened("study").record().trials[0]
    assert held == told
    assert held.outcome == outcome
    assert held.params == {"scale": 0.01}
    assert held.started.tzinfo is not None
    assert held.started <= held.finished


def test_a_pack_is_written_whole_or_not_at_all(home):
    ledger = open_ledger(defense={"name": "laplace"})
    pack = [NewTrial({"scale": scale}) for scale in (0.01, 0.02, 0.03)]
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        database.execute(
            "CREATE TRIGGER harm BEFORE INSERT ON trials WHEN new.number = 2 BEGIN SELECT raise(ABORT, 'no'); END"
        )
    with pytest.raises(Exception, match="no"):
        ledger.begin_together(pack)
    assert ledger.record().running == 0
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        database.execute("DROP TRIGGER harm")
    assert [trial.number for trial in ledger.begin_together(pack, "p")] == [0, 1, 2]
    assert ledger.begin({"scale": 0.04}) == 3
    assert ledger.begin_together([]) == []
    assert [t.params["scale"] for t in ledger.trials()] == [0.01, 0.02, 0.03, 0.04]
    assert {t.pack for t in ledger.trials()} == {"p", ""}


def test_what_was_told_here_is_not_read_again(monkeypatch):
    ledger, read = open_ledger(defense={"name": "laplace"}), []
    real = reading.trials_of
    monkeypatch.setattr(reading, "trials_of", lambda *asked: read.append(real(*asked)) or read[-1])
    ledger.begin_together([NewTrial({"scale": 0.01 * (k + 1)}) for k in range(4)])

    def tell(*numbers):
        for number in numbers:
            ledger.tell(number, ok_outcome(ledger, {"scale": 0.01 * (number + 1)}))
        assert ledger.record() == reopened("study").record()
        return [trial.number for trial in read[-2]]

    assert tell(2) == [0, 1, 2, 3], "0 and 1 still run"
    assert tell(0) == [1, 2, 3]
    assert tell(1) == [3]
    assert ledger.begin({"scale": 0.05}) == 4
    assert tell() == [3, 4]
    ledger.lose(3, "driver", "stopped")
    assert ledger.begin({"scale": 0.04}, retry_of=3) == 5
    assert tell(5, 4) == []
    assert len(ledger.record().ok) == 5


def test_the_head_of_a_study_comes_back():
    ledger = open_ledger(training={"epochs": 7}, budget={"trials": 9, "seeds": 2})
    held = reopened("study")
    assert (held.spec, held.cell, held.space) == (ledger.spec, ledger.cell, ledger.space)
    assert held.row().trials == 9
    assert held.spec.training.model_fields_set == {"epochs"}
    assert held.baseline is None
    ledger.set_references_and_reference_point(References(r_lower={"pmc": [0.5, 0.6]}), (0.5, 1.0))
    ledger.set_baseline(Outcome.failed("diverged", "NaN"))
    assert held.references == References(r_lower={"pmc": [0.5, 0.6]})
    assert held.baseline == Outcome.failed("diverged", "NaN")
    assert held.record().reference_point == (0.5, 1.0)


def test_telling_twice_changes_nothing():
    ledger = open_ledger()
    number = ledger.begin({"scale": 0.01})
    ledger.tell(number, ok_outcome(ledger, {"scale": 0.01}))
    assert ledger.tell(number, Outcome.failed("error", "late")) is None
    assert [t.outcome.outcome for t in ledger.record().trials] == ["ok"]


def test_a_pack_is_told_whole_or_not_at_all(home):
    ledger = open_ledger(defense={"name": "laplace"})
    scales = (0.01, 0.02, 0.03, 0.04)
    ledger.begin_together([NewTrial({"scale": scale}) for scale in scales], "p")
    outcomes = {number: ok_outcome(ledger, {"scale": scale}) for number, scale in enumerate(scales)}
    outcomes[2] = Outcome.failed("diverged", "NaN")
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        database.execute(
            "CREATE TRIGGER harm BEFORE UPDATE ON trials WHEN new.number = 3 BEGIN SELECT raise(ABORT, 'no'); END"
        )
    with pytest.raises(Exception, match="no"):
        ledger.tell_together(outcomes)
    assert reopened("study").record().by_outcome() == {"running": 4, "waiting": 36}
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        database.execute("DROP TRIGGER harm")
    first = ledger.tell(1, outcomes[1])
    told = ledger.tell_together(outcomes)
    assert [record.number for record in told] == [0, 2, 3], "one was finished before"
    held = reopened("study").record()
    assert list(held.trials) == [told[0], first, *told[1:]]
    assert {record.number: record.outcome for record in held.trials} == outcomes
    assert ledger.tell_together(outcomes) == []
    assert [t.objectives is None for t in ledger.trials()] == [False, False, True, False]


@pytest.mark.parametrize("name", ["diverged", "infeasible", "timeout", "oom", "error"])
def test_only_ok_is_complete_and_all_but_preempted_count(name):
    ledger = open_ledger(budget={"trials": 3})
    ledger.tell(ledger.begin({"scale": 0.01}), Outcome.failed(name, "why"))
    ledger.tell(ledger.begin({"scale": 0.02}), ok_outcome(ledger, {"scale": 0.02}))
    assert [t.outcome for t in ledger.trials()] == [name, "ok"]
    assert [t.objectives is None for t in ledger.trials()] == [True, False]
    record = ledger.record()
    assert record.by_outcome() == {name: 1, "ok": 1, "running": 0, "waiting": 1}
    assert record.trials[0].outcome.reason == "why"


def test_a_plain_select_has_utility_and_leakage(home):
    ledger = open_ledger()
    ledger.tell(ledger.begin({"scale": 1e-5}), ok_outcome(ledger, {"scale": 1e-5}))
    ledger.close()
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        ((*objectives, params),) = database.execute("SELECT utility, leakage, params FROM trials WHERE outcome = 'ok'")
    assert objectives == pytest.approx([0.95, 1.0])
    assert json.loads(params) == {"scale": 1e-05}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_completes(bad):
    ledger = open_ledger()
    attack = AttackScore.of("leak_auc", [0.9])
    whole = Outcome(outcome="ok", utility=Score.of("auc", [0.9]), attacks={"norm": attack}, leakage=0.8)
    cases = [
        whole.model_copy(update={"utility": Score.of("auc", [bad])}),
        whole.model_copy(update={"leakage": bad}),
        whole.model_copy(update={"attacks": {"norm": attack.model_copy(update={"mean": bad})}}),
    ]
    for case in cases:
        told = ledger.tell(ledger.begin({"scale": 0.01}), read_outcome(case.model_dump()))
        assert told.outcome.outcome == "diverged"
        assert told.outcome.reason
    beside = whole.model_copy(update={"logged": {"sum_kl": bad, "x": 1.0}, "seconds": {"train": 2.0}})
    told = ledger.tell(ledger.begin({"scale": 0.01}), beside)
    assert told.outcome.outcome == "ok"
    assert told.outcome.logged == {"x": 1.0}
    assert {t.outcome for t in ledger.trials() if t.objectives is not None} == {"ok"}
    assert reopened("study").record().trials == ledger.record().trials


def test_an_orphan_is_lost_and_asked_again_once_with_the_same_parameters():
    ledger = open_ledger(budget={"trials": 2})
    proposals = Proposals(ledger)
    first, second = proposals.ask(2)
    ledger.tell(second.number, ok_outcome(ledger, second.params))
    assert ledger.recover() == [], "the owner lives"
    ledger.close()
    again = open_ledger(budget={"trials": 2})
    assert [r.number for r in again.recover()] == [first.number]
    assert again.recover() == []
    assert again.record().by_outcome() == {"preempted": 1, "ok": 1, "running": 0, "waiting": 1}
    (retry,) = Proposals(again).ask(1)
    assert retry.params == first.params
    record = again.tell(retry.number, ok_outcome(again, retry.params))
    assert record.retry_of == first.number
    assert again.owed_retries() == []
    assert again.record().waiting == 0


def test_a_driver_may_be_killed_any_number_of_times():
    params = None
    for _ in range(MAX_NODE_LOSSES + 2):
        ledger = open_ledger(budget={"trials": 1})
        ledger.recover()
        (asked,) = Proposals(ledger).ask(1)
        assert params in (None, asked.params)
        params = asked.params
        ledger.close()
    ledger = open_ledger(budget={"trials": 1})
    ledger.recover()
    assert set(ledger.record().by_outcome()) == {"preempted", "running", "waiting"}


def test_the_same_spec_resumes_and_another_is_refused_with_the_difference():
    open_ledger(training={"epochs": 5}, sampler="random")
    assert open_ledger(training={"epochs": 5}, sampler="random", resources={"pack": 3}).record().trials == ()
    with pytest.raises(StudyError) as caught:
        open_ledger(training={"epochs": 6}, sampler="random")
    assert "training.epochs: 5 -> 6" in str(caught.value)
    assert caught.value.exit_code == 2
    with pytest.raises(StudyError, match=r"sampler\.name"):
        open_ledger(training={"epochs": 5}, sampler="tpe")
    with pytest.raises(StudyError, match="space"):
        open_ledger(
            training={"epochs": 5}, sampler="random", defense={"name": "laplace", "space": {"scale": {"float": [0, 1]}}}
        )


def test_a_field_given_at_its_default_is_the_same_spec():
    open_ledger()
    assert open_ledger(budget={"trials": 40, "seeds": 3}, training={"epochs": 30}).row().trials == 40


def test_an_unknown_study_names_the_nearest():
    open_ledger("kdk-bank")
    open_ledger("laplace-bank")
    assert study_names() == ["kdk-bank", "laplace-bank"]
    with pytest.raises(StudyError, match=r"Did you mean 'kdk-bank'"):
        reopened("kdk-bnk")


def test_the_write_ahead_log_is_on(home):
    open_ledger()
    assert (home / "ledger.db-wal").exists()


def test_a_ledger_that_cannot_be_opened_says_so(home):
    home.mkdir()
    (home / "ledger.db").write_text("this is no database")
    with pytest.raises(UnreachableError, match=r"ledger\.db"):
        open_ledger()
    with pytest.raises(UnreachableError) as caught:
        reopened("x", "postgresql://user:secret@127.0.0.1:1/db?connect_timeout=2")
    assert "secret" not in str(caught.value).split(":", 3)[0]
    assert hide_password("postgresql://user:secret@host/db") == "postgresql://user@host/db"


def test_owners_live_and_die():
    session = new_session()
    owner = this_owner(session)
    assert not has_ended(owner)
    assert has_ended({**owner, "session": "of a search that is over"})
    for elsewhere in ("host", "boot", "namespace"):
        assert not has_ended({**owner, "session": "x", elsewhere: "another"}), "nothing is known of it from here"
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert has_ended({**owner, "pid": child.pid}), "another process that got the same number"
    child.communicate(b"\n")
    assert has_ended({**owner, "pid": child.pid})


def test_half_of_a_pack_that_did_not_fit_is_asked_again_and_nothing_with_it():
    ledger = open_ledger(budget={"trials": 40})
    proposals = Proposals(ledger)

    def ask_and_lose(pack, count=8):
        asked = proposals.ask(count, pack)
        for one in asked:
            proposals.learn(ledger.lose(one.number, "memory", "it did not fit"))
        return len(asked)

    assert [ask_and_lose("first"), ask_and_lose("second"), ask_and_lose("third")] == [8, 4, 4]
    assert [ask_and_lose(f"then {i}") for i in range(4)] == [2, 2, 2, 2]


def test_running_trials_over_the_time_of_their_pack_are_overdue():
    ledger = open_ledger(budget={"trials": 9, "trial_minutes": 2})
    for scale in (0.01, 0.02, 0.03):
        ledger.begin({"scale": scale}, pack="three")
    alone = ledger.begin({"scale": 0.04}, pack="one")
    ended = ledger.begin({"scale": 0.05}, pack="ended")
    ledger.tell(ended, ok_outcome(ledger, {"scale": 0.05}))
    held, begun = ledger.running(), datetime.now(UTC)
    late = [overdue(held, 2, begun + timedelta(minutes=m)) for m in (1, 3, 7)]
    assert late == [[], [alone], [0, 1, 2, alone]]
    assert overdue(held, None, begun + timedelta(days=1)) == []
    assert open_study("study").overdue() == {}


def test_who_looks_from_another_time_zone_sees_the_same_overdue(monkeypatch):
    ledger = open_ledger()
    ledger.begin({"scale": 0.01}, pack="one")
    held, now = ledger.running(), datetime.now(UTC)
    for zone in ("Pacific/Kiritimati", "Pacific/Niue", "UTC"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert overdue(held, 2, now + timedelta(minutes=1)) == []
        assert overdue(held, 2, now + timedelta(minutes=3)) == [0]
    monkeypatch.undo()
    time.tzset()


def test_a_ledger_is_for_its_user_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        open_ledger("s", storage=str(tmp_path / "home" / "ledger.db")).close()
    finally:
        os.umask(before)
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "home").iterdir()} == {0o600}
