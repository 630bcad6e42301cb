"""A confirmation whose workers are this process: what is trained, tried again, given up, tuned and answered."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.confirmation.conftest import Here
from tests.helpers.contests import SEVERAL, in_campaign, searched
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl.confirmation.run import confirm
from tune_vfl.errors import DataError, StudyError, UsageError
from tune_vfl.execution import runner
from tune_vfl.execution.losses import MAX_NODE_LOSSES, MAX_WORKER_LOSSES
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.reading import open_study
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.confirmations import UNDEFENDED
from tune_vfl.spec.cell import Cell, References

pytestmark = pytest.mark.usefixtures("home")

SCALES = (1e-5, 1e-3, 1e-1)
DIED = f"its worker process died {MAX_WORKER_LOSSES} times"
GONE = f"the machine that it ran on went away {MAX_NODE_LOSSES} times"
LOSSES = pytest.mark.parametrize(
    ("cause", "times", "reason"), [("crash", MAX_WORKER_LOSSES, DIED), ("node", MAX_NODE_LOSSES, GONE)]
)


def go(name: str = "study", seeds: int = 3, adaptive: float = 0.0, **options: Any) -> Any:
    return confirm(
        name, seeds=seeds, adaptive=adaptive, work=TrainableSpec(SimulatedTrainable, {"noise": 0.02, **options})
    )


def kept(name: str = "study") -> dict[Any, Any]:
    return {place[1:]: record for place, record in Confirmations(storage_at(), None).records(name).items()}


def test_every_training_is_run_and_kept_once_and_floors_come_before(here: type[Here], capfd: Any) -> None:
    searched(scales=SCALES).close()
    ended = go()
    assert ended.answer is not None
    assert (dict(ended.failed), ended.owed) == ({}, 0)
    names = [name for name, _ in here.asked]
    assert names[: names.count("floors")] == ["floors"] * names.count("floors")
    run = Counter(
        (number, seed) for name, job in here.asked if name == "job" for number in job.numbers for seed in job.cell.seeds
    )
    assert max(run.values()) == 1
    assert set(run) == set(kept())
    assert sum(number == UNDEFENDED for number, _ in run) == 10
    assert {p.seeds for p in ended.answer.points} <= set(range(3, 7))
    said = capfd.readouterr().err
    assert "confirm study: phase 1: " in said
    assert "trainings" in said
    count = len(here.asked)
    again = go()
    assert again.answer == ended.answer
    assert len(here.asked) == count, "what was run is not run again"


def test_a_worker_that_dies_takes_its_settings_down_one_by_one_and_costs_the_one_that_kills_it(
    here: type[Here], capfd: Any
) -> None:
    searched(scales=SCALES).close()
    here.fate = staticmethod(lambda name, key: "crash" if name == "job" and 2 in key.numbers else None)
    ended = go()
    assert ended.failed == {("study", 2): DIED}
    tried = Counter(len(job.numbers) for name, job in here.asked if name == "job" and 2 in job.numbers)
    assert sum(tried.values()) == MAX_WORKER_LOSSES
    assert not any(number == 2 for number, _ in kept())
    assert {number for number, _ in kept()} == {UNDEFENDED, 0, 1}, "those that shared its worker are measured"
    assert "confirm study: trial 2 could not be measured: its worker process died 3 times" in capfd.readouterr().err
    here.fate = staticmethod(lambda _name, _key: None)
    assert not go().failed, "the next confirmation tries it again"
    assert any(number == 2 for number, _ in kept())


def test_a_lost_machine_counts_against_no_setting(here: type[Here]) -> None:
    searched(scales=SCALES).close()
    lost: Counter[str] = Counter()

    def fate(kind: str, key: Any) -> Any:
        lost[kind] += 1
        return "node" if lost[kind] <= 2 * MAX_WORKER_LOSSES else None

    here.fate = staticmethod(fate)
    assert not go().failed
    assert {number for number, _ in kept()} == {UNDEFENDED, 0, 1, 2}


def test_settings_whose_machine_goes_away_each_time_are_given_up(here: type[Here], capfd: Any) -> None:
    searched(scales=SCALES).close()
    here.fate = staticmethod(lambda name, key: "node" if name == "job" and 2 in key.numbers else None)
    ended = go()
    assert ended.failed["study", 2] == GONE
    assert set(ended.failed.values()) == {GONE}, "those of the same job were lost as often"
    assert len([job for name, job in here.asked if name == "job" and 2 in job.numbers]) == MAX_NODE_LOSSES
    assert f"confirm study: trial 2 could not be measured: {GONE}" in capfd.readouterr().err
    here.fate = staticmethod(lambda _name, _key: None)
    assert not go().failed, "the next confirmation tries them again"


def test_the_exception_of_a_worker_is_raised_in_the_driver(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> References:
        raise DataError("no file 'bank.csv' on this machine")

    searched(scales=SCALES).close()
    monkeypatch.setattr(SimulatedTrainable, "references", missing)
    with pytest.raises(DataError, match=r"bank\.csv"):
        go()
    assert kept() == {}


def test_a_worker_that_dies_twice_costs_nothing(here: type[Here]) -> None:
    searched(scales=SCALES).close()
    deaths: list[Any] = []

    def fate(name: str, key: Any) -> Any:
        if name == "job" and 2 in key.numbers and len(deaths) < MAX_WORKER_LOSSES - 1:
            deaths.append(key)
            return "crash"
        return None

    here.fate = staticmethod(fate)
    assert not go().failed
    assert any(number == 2 for number, _ in kept())


def test_a_setting_that_hangs_is_given_up_and_a_job_of_several_is_parted_first(here: type[Here]) -> None:
    searched(scales=SCALES, budget={"trial_minutes": 2}).close()
    here.fate = staticmethod(lambda name, key: "timeout" if name == "job" and 1 in key.numbers else None)
    ended = go()
    assert list(ended.failed) == [("study", 1)]
    assert ended.failed["study", 1].endswith("over trial_minutes = 2.0")
    alone = {job.numbers: limit for job, limit in here.limits if len(job.numbers) == 1}
    assert alone[1,] == 120.0
    shared = [(job, limit) for job, limit in here.limits if len(job.numbers) > 1]
    assert shared
    assert all(limit == 2 * 120.0 * len(job.numbers) for job, limit in shared), "together, then each alone"


def test_what_says_nothing_of_a_setting_is_not_kept_and_a_divergence_is(here: type[Here]) -> None:
    searched(scales=SCALES).close()
    ended = go(raise_above=0.8)
    assert list(ended.failed) == [("study", 2)]
    assert "the simulated training broke" in ended.failed["study", 2]
    assert not any(number == 2 for number, _ in kept())
    lost = go(diverge_above=0.8)
    assert not lost.failed
    assert {record.outcome for (number, _), record in kept().items() if number == 2} == {"diverged"}
    point = next(p for p in lost.answer.points if p.number == 2)
    assert (point.outcome, point.confirmed, point.utility) == ("diverged", False, None)


@LOSSES
def test_without_its_floors_a_setting_is_not_measured(
    here: type[Here], monkeypatch: pytest.MonkeyPatch, cause: str, times: int, reason: str
) -> None:
    searched(scales=SCALES).close()
    here.fate = staticmethod(lambda name, _key: cause if name == "floors" else None)
    ended = go()
    assert [name for name, _ in here.asked] == ["floors"] * times
    assert set(ended.failed) == {("study", n) for n in (UNDEFENDED, 0, 1, 2)}
    assert set(ended.failed.values()) == {f"what its attacks are compared with could not be measured: {reason}"}
    asked: list[tuple[int, ...]] = []

    def measured(_cls: Any, cell: Cell, _options: Any) -> References:
        asked.append(cell.seeds)
        return References()

    here.fate = staticmethod(lambda _name, _key: None)
    monkeypatch.setattr(SimulatedTrainable, "references", classmethod(measured))
    assert not go().failed
    assert len({seed for seeds in asked for seed in seeds}) == sum(map(len, asked)), "of each seed once"


def test_a_stop_keeps_what_ran_and_says_how_much_is_owed(
    here: type[Here], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    searched(scales=SCALES).close()
    stops: list[Callable[[], None]] = []
    usual = runner.answered

    def answered(say: Any, *, stop: Any = None) -> Any:
        if stop is not None:
            stops.append(stop)
        return usual(say) if stop is None else usual(say, stop=stop)

    monkeypatch.setattr(runner, "answered", answered)
    ended: list[str] = []

    def after() -> None:
        ended.append("one")
        if len(ended) == 3:
            stops[-1]()

    here.after = staticmethod(after)
    stopped = go()
    assert stopped.answer is None
    assert stopped.owed > 0
    assert len(here.asked) == 3
    said = capfd.readouterr().err
    assert "stopping: what runs now is finished and kept" in said
    assert f"stopped; at least {stopped.owed} trainings are owed: 'tune-vfl confirm study'" in said
    before = kept()
    here.after = staticmethod(lambda: None)
    assert go().answer is not None
    assert {place: record for place, record in kept().items() if place in before} == before


def test_attackers_are_tuned_against_what_stays_for_as_long_as_was_asked(here: type[Here], capfd: Any) -> None:
    searched(scales=SCALES).close()
    plain = go().answer
    tuned = go(adaptive=0.5)
    assert tuned.answer.knee == plain.knee
    for point, before in zip(tuned.answer.points, plain.points, strict=True):
        if not point.confirmed:
            assert point == before, "only what stays is worth an attacker's time"
            continue
        assert point.leakage_untuned == before.leakage
        assert point.leakage == pytest.approx(max(sum(point.tuned.advantages) / 5, before.leakage))
        assert point.leakage_interval[1] >= before.leakage_interval[1]
    staying = {p.number for p in tuned.answer.points if p.confirmed}
    asked = [key for name, key in here.asked if name == "attacker"]
    assert sorted(number for _, number in asked) == sorted(staying)
    assert {p.number for p in tuned.answer.points if p.tuned} == staying
    assert f"attackers are tuned against {len(staying)} settings, 0.5 minutes each" in capfd.readouterr().err
    go(adaptive=0.5)
    assert len([1 for name, _ in here.asked if name == "attacker"]) == len(staying), "nobody is tuned twice"
    go(adaptive=1.0)
    assert len([1 for name, _ in here.asked if name == "attacker"]) == 2 * len(staying), "but for longer"


@LOSSES
def test_a_tuner_that_is_lost_too_often_is_said_and_costs_no_answer(
    here: type[Here], capfd: Any, cause: str, times: int, reason: str
) -> None:
    searched(scales=SCALES).close()
    here.fate = staticmethod(lambda name, key: cause if name == "attacker" and key[1] == 0 else None)
    found = go(adaptive=0.5)
    assert here.asked.count(("attacker", ("study", 0))) == times
    assert found.answer is not None
    assert {p.number for p in found.answer.points if p.tuned} == {
        p.number for p in found.answer.points if p.confirmed
    } - {0}
    assert f"confirm study: trial 0: nobody was tuned against it: {reason}" in capfd.readouterr().err


def test_an_attacker_is_tuned_on_five_fresh_seeds(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    searched(scales=SCALES).close()
    seen: list[tuple[tuple[int, ...], dict[str, Any], float]] = []

    def tuned(_cls: Any, cell: Cell, params: Any, minutes: float, _options: Any) -> None:
        seen.append((cell.seeds, dict(params), minutes))

    monkeypatch.setattr(SimulatedTrainable, "tuned", classmethod(tuned))
    go(adaptive=0.5)
    assert {seeds for seeds, _, _ in seen} == {(1000, 1001, 1002, 1003, 1004)}
    assert {minutes for _, _, minutes in seen} == {0.5}
    assert [params for _, params, _ in seen] == [{"scale": pytest.approx(p["scale"])} for _, p, _ in seen]


def test_parts_of_a_campaign_are_named_by_study_and_answered_together(here: type[Here], capfd: Any) -> None:
    in_campaign([searched(name, defense=name, scales=SCALES) for name in ("laplace", "gaussian")])
    here.fate = staticmethod(lambda name, key: "crash" if name == "job" and key.study == "gaussian" else None)
    ended = go("campaign", by_defense={"gaussian": {"parameter": "sigma"}})
    assert {study for study, _ in ended.failed} == {"gaussian"}
    assert "trial gaussian#0 could not be measured" in capfd.readouterr().err
    assert {p.study for p in ended.answer.points if p.outcome == "ok"} == {"laplace"}
    check = next(c for c in ended.answer.checks if not c.ok and c.name == "measured")
    assert check.says.startswith("no number for trial gaussian#0, gaussian#1, gaussian#2: its worker")
    held = open_study("campaign")
    assert held is not None
    assert held.record().confirmation == ended.answer
    assert {s.name for s in held.record().studies if s.confirmation is not None} == {"laplace", "gaussian"}


def test_a_campaign_has_one_undefended_model_for_all_studies_and_what_it_has_it_does_not_ask_again(
    here: type[Here],
) -> None:
    names = ("laplace", "gaussian", "iso")
    in_campaign([searched(name, defense=name, scales=SCALES) for name in names])
    ended = go("campaign", by_defense=SEVERAL)
    undefended = [job for name, job in here.asked if name == "job" and UNDEFENDED in job.numbers]
    assert sum(len(job.cell.seeds) for job in undefended) == 10
    assert [sum(n == UNDEFENDED for n, _ in kept(name)) for name in names] == [10] * 3, "and each of them has it"
    record = open_study("campaign").record()
    assert {(s.name, n) for s in record.studies for n in s.confirmed} == set(ended.answer.by_setting)
    count = len(here.asked)
    assert go("campaign", by_defense=SEVERAL).answer == ended.answer
    assert len(here.asked) == count
    tuned = go("campaign", by_defense=SEVERAL, adaptive=0.5).answer
    assert {(p.study, p.number) for p in tuned.points if p.tuned} == set(ended.answer.by_setting)
    assert tuned.knee == ended.answer.knee
    with storage_at().lease("laplace"), pytest.raises(StudyError, match="being run by another process"):
        go("campaign")


def test_more_seeds_add_to_those_that_there_are(here: type[Here]) -> None:
    searched(scales=SCALES).close()
    go(seeds=2)
    before, asked = len(kept()), len(here.asked)
    assert go(seeds=3).answer.seeds == (1000, 1001, 1002)
    jobs = [job for name, job in here.asked[asked:] if name == "job"]
    assert sum(len(job.numbers) * len(job.cell.seeds) for job in jobs) == len(kept()) - before


def test_ten_fresh_seeds_where_nobody_says_how_many_and_no_attacker_is_tuned(here: type[Here]) -> None:
    searched(scales=SCALES[:1]).close()
    ended = confirm("study", work=TrainableSpec(SimulatedTrainable, {"noise": 0.02}), progress=False)
    assert ended.answer is not None
    assert ended.answer.seeds == tuple(range(1000, 1010))
    assert not any(name == "attacker" for name, _ in here.asked)


def test_there_must_be_something_to_confirm(here: type[Here]) -> None:
    with pytest.raises(StudyError):
        go("nobody")
    searched(scales=SCALES).close()
    with pytest.raises(UsageError, match="at least 1 seed"):
        go(seeds=0)
    assert here.asked == []
