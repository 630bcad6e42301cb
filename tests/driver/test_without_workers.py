"""A search whose workers are this process: what is handed out, what becomes of it, and what a person is told."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.driver.conftest import Workers
from tests.helpers.packing import PARAMS, planned
from tests.helpers.resuming import resume
from tests.helpers.simulated import SimulatedTrainable, closed_form
from trainables.base import TrainingTrainable
from tune_vfl.driver import campaign_run
from tune_vfl.driver.campaign_run import run_campaign
from tune_vfl.errors import TuneVflError, UnreachableError
from tune_vfl.execution.losses import MAX_NODE_LOSSES, MAX_WORKER_LOSSES
from tune_vfl.execution.pack_searcher import PackSearcher
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.reading import open_study
from tune_vfl.records.campaigns import CampaignRecord, PlannedCampaign

pytestmark = pytest.mark.usefixtures("home")

COSTS = {"laplace": 1.1, "gaussian": 3.0}
GONE = f"the machine that it ran on went away {MAX_NODE_LOSSES} times"
OPTIONS = {"by_defense": {"gaussian": {"parameter": "sigma", "waste": 0.1}}}


class Costly(TrainingTrainable, SimulatedTrainable):
    """Knows what its defenses cost."""

    @classmethod
    def cost(cls, cell: Any, params: Any, undefended: Any, options: Any) -> float:
        return COSTS[cell.defense]


def go(trainable: Any = SimulatedTrainable, *, spec: Any = None, options: Any = None, **how: Any) -> CampaignRecord:
    work = TrainableSpec(trainable, {**OPTIONS, **(options or {})})
    run_campaign(planned(**(spec or {})), work=work, **{"progress": True, **how})
    return record()


def record() -> CampaignRecord:
    return open_study("c").record()


def counted(found: CampaignRecord) -> dict[str, int]:
    return {part.cell.defense: len(part.counted) for part in found.studies}


def test_every_study_gets_its_trials_and_all_that_is_measured_once(workers: Workers, capfd: Any) -> None:
    found = go(Costly, spec={"trials": 12})
    assert counted(found) == {"laplace": 6, "gaussian": 6}
    asked = Counter(pack.get("asks", "trials") for pack in workers.packs)
    assert asked["references"] == 1, "one for two defenses that share a model"
    assert asked["cost"] == 2
    assert len([p for p in workers.packs if "asks" not in p]) == len(workers.trials) + 1, "the undefended model once"
    assert workers.packs[0]["asks"] == "references"
    assert {part.cell.defense: part.cost for part in found.studies} == COSTS
    assert all(part.baseline is not None and part.reference_point == (0.5, 1.0) for part in found.studies)
    assert workers.together == 2, "no more at once than there is room for"
    for part in found.studies:
        assert len({t.params[PARAMS[part.cell.defense]] for t in part.trials}) == 6
        for trial in part.trials:
            at = (math.log10(trial.params[PARAMS[part.cell.defense]]) + 5) / 4
            utility, leakage = closed_form(at, 0.1 if part.cell.defense == "gaussian" else 0.0)
            assert trial.outcome.objectives == pytest.approx((utility, leakage))
    said = capfd.readouterr().err
    assert "c: without defense: utility 0.9500, leakage 1.0000" in said
    assert said.count("without defense") == 1
    assert "measuring what the defenses cost in training" in said
    assert "c: 12/12 trials (2 of 2 studies done): 12 ok, 0 running; hypervolume" in said
    before = len(workers.packs)
    go(Costly, spec={"trials": 12})
    assert len(workers.packs) == before, "a search that has everything asks nothing"


def test_a_search_that_is_extended_asks_what_it_lacks(workers: Workers) -> None:
    go(spec={"trials": 4})
    first = len(workers.trials)
    resume("c", 10, progress=False, sinks=(), work=TrainableSpec(SimulatedTrainable, OPTIONS))
    assert counted(record()) == {"laplace": 5, "gaussian": 5}
    assert sum(len(p["params"]) for p in workers.trials) == 10
    assert len(workers.trials) > first
    assert [p.get("asks") for p in workers.packs].count("references") == 1


def test_a_stop_hands_out_nothing_more_and_says_what_is_owed(workers: Workers, capfd: Any) -> None:
    workers.room = 1

    def after(searcher: PackSearcher) -> None:
        if len(workers.trials) == 2:
            searcher.stop()

    workers.after = after
    stopped = run_campaign(
        planned(trials=12, resources={"pack": 2}), work=TrainableSpec(SimulatedTrainable, OPTIONS), progress=True
    )
    assert stopped
    assert sum(counted(record()).values()) == 4
    assert "c: stopped; 8 trials are owed: 'tune-vfl resume c'" in capfd.readouterr().err
    workers.after = lambda _searcher: None
    stopped = run_campaign(
        planned(trials=12, resources={"pack": 2}), work=TrainableSpec(SimulatedTrainable, OPTIONS), progress=False
    )
    assert not stopped
    assert counted(record()) == {"laplace": 6, "gaussian": 6}


def test_time_that_is_up_asks_no_trial_and_is_said(
    workers: Workers, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def after(_searcher: PackSearcher) -> None:
        now[0] += 40.0

    workers.after, workers.room = after, 1
    stopped = run_campaign(
        planned(trials=12, resources={"pack": 1}, budget={"minutes": 2}),
        work=TrainableSpec(SimulatedTrainable, OPTIONS),
    )
    assert not stopped
    assert sum(counted(record()).values()) == 2, "references and the undefended model took 80 of 120 seconds"
    assert "c: out of time; 10 trials are owed: 'tune-vfl resume c'" in capfd.readouterr().err


def lose_one(workers: Workers, cause: str) -> list[int]:
    """Lose every pack that holds the first setting that is asked; return the sizes of those that were lost."""
    chosen: list[Any] = []
    lost: list[int] = []

    def fate(pack: Mapping[str, Any]) -> str | None:
        if "asks" in pack or '"defense":"none"' in pack["cell"]:
            return None
        chosen.append(pack["params"][0])
        if chosen[0] not in pack["params"]:
            return None
        lost.append(len(pack["params"]))
        return cause

    workers.fate = fate
    return lost


@pytest.mark.parametrize(
    ("cause", "outcome", "sizes", "says"),
    [
        ("crash", "error", [3, 1, 1], "its worker process died"),
        ("memory", "oom", [3, 2, 1, 1, 1], "its worker was ended because the machine ran out of memory"),
        ("timeout", "timeout", [3, 1], "and was killed, over trial_minutes = 3.0"),
    ],
)
def test_a_setting_that_takes_its_worker_with_it_ends_and_those_beside_it_do_not(
    workers: Workers, capfd: Any, cause: str, outcome: str, sizes: list[int], says: str
) -> None:
    lost = lose_one(workers, cause)
    workers.room = 1
    found = go(spec={"trials": 6, "resources": {"pack": 3}, "budget": {"trial_minutes": 3}})
    (ended,) = [t for part in found.studies for t in part.counted if t.outcome.outcome != "ok"]
    assert (ended.outcome.outcome, lost) == (outcome, sizes)
    assert says in ended.outcome.reason
    assert counted(found) == {"laplace": 3, "gaussian": 3}
    assert "c: trial 0 of c-laplace was lost (" in capfd.readouterr().err


def lose_first(workers: Workers, cause: str, times: int) -> list[int]:
    """Lose the first packs of trials for a cause; return the sizes of those that were lost."""
    lost: list[int] = []

    def fate(pack: Mapping[str, Any]) -> str | None:
        if "asks" in pack or '"defense":"none"' in pack["cell"] or len(lost) >= times:
            return None
        lost.append(len(pack["params"]))
        return cause

    workers.fate = fate
    return lost


def test_what_a_machine_takes_with_it_is_asked_again_and_counts_against_no_trial(workers: Workers) -> None:
    lost = lose_first(workers, "node", 5)
    found = go(spec={"trials": 8, "resources": {"pack": 2}})
    assert counted(found) == {"laplace": 4, "gaussian": 4}
    gone = [t for part in found.studies for t in part.trials if t.outcome.outcome == "preempted"]
    assert len(gone) == sum(lost)
    assert {t.outcome.reason for t in gone} == {"the machine that it ran on went away"}
    again = [t.retry_of for part in found.studies for t in part.trials if t.retry_of is not None]
    assert len(again) == len(gone), "each is asked again once for each loss"
    assert all(t.outcome.outcome == "ok" for part in found.studies for t in part.counted)


def test_packs_that_need_too_much_memory_are_halved(workers: Workers) -> None:
    lost = lose_first(workers, "memory", 1)
    found = go(spec={"trials": 16, "resources": {"pack": 4}})
    assert lost == [4]
    assert counted(found) == {"laplace": 8, "gaussian": 8}
    first = workers.trials[0]["cell"]
    sizes = [len(p["params"]) for p in workers.trials[1:] if p["cell"] == first]
    assert max(sizes[1:]) == 2, "half of four, from then on"


def test_workers_that_all_die_end_the_search(workers: Workers) -> None:
    lose_first(workers, "crash", 10_000)
    with pytest.raises(TuneVflError, match="workers die one after the other"):
        go(spec={"trials": 40, "resources": {"pack": 1}})
    assert len(workers.trials) in {12, 13}, "those that were under way when the twelfth died end too"


def test_machines_that_go_away_one_after_the_other_do_not(workers: Workers) -> None:
    lose_first(workers, "node", 5 * MAX_WORKER_LOSSES)
    assert sum(counted(go(spec={"trials": 6, "resources": {"pack": 1}})).values()) == 6


def test_a_trial_whose_machine_goes_away_each_time_ends_also_over_several_runs(workers: Workers) -> None:
    lost = lose_one(workers, "node")
    workers.room = 1

    def after(_searcher: PackSearcher) -> None:
        if len(lost) == MAX_NODE_LOSSES // 2:
            raise SystemExit

    workers.after = after
    with pytest.raises(SystemExit):
        go(spec={"trials": 6, "resources": {"pack": 1}})
    workers.after = lambda _searcher: None
    found = go(spec={"trials": 6, "resources": {"pack": 1}})
    assert len(lost) == MAX_NODE_LOSSES
    (ended,) = [t for part in found.studies for t in part.counted if t.outcome.outcome != "ok"]
    assert (ended.outcome.outcome, ended.outcome.reason) == ("error", GONE)
    assert counted(found) == {"laplace": 3, "gaussian": 3}


@pytest.mark.parametrize(
    ("cause", "times", "says"),
    [
        ("crash", 3, "could not be measured: its worker process died 3 times"),
        ("memory", 3, "because the machine ran out of memory, 3 times"),
        ("node", MAX_NODE_LOSSES, f"could not be measured: {GONE}"),
    ],
)
def test_references_whose_workers_die_end_the_search_and_nothing_was_asked(
    workers: Workers, cause: str, times: int, says: str
) -> None:
    workers.fate = lambda pack: cause if pack.get("asks") == "references" else None
    with pytest.raises(UnreachableError, match=says):
        go()
    assert [p["asks"] for p in workers.packs if "asks" in p and p["asks"] == "references"] == ["references"] * times
    assert workers.trials == []
    workers.fate = lambda _pack: None
    assert counted(go()) == {"laplace": 3, "gaussian": 3}


@pytest.mark.parametrize(
    ("cause", "outcome", "says"),
    [
        ("crash", "error", "its worker process died 3 times"),
        ("memory", "oom", "because the machine ran out of memory, 3 times"),
        ("timeout", "timeout", "and was killed, over trial_minutes = None"),
        ("node", "error", GONE),
    ],
)
def test_an_undefended_model_that_cannot_be_measured_is_said_and_tried_by_the_next_run(
    workers: Workers, capfd: Any, cause: str, outcome: str, says: str
) -> None:
    workers.fate = lambda pack: cause if "asks" not in pack and '"defense":"none"' in pack["cell"] else None
    found = go()
    assert {part.baseline.outcome for part in found.studies if part.baseline} == {outcome}
    assert all(part.baseline is not None and part.baseline.reason.endswith(says) for part in found.studies)
    assert f"c: without defense: {outcome} (" in capfd.readouterr().err
    assert counted(found) == {"laplace": 3, "gaussian": 3}, "trials do not wait for it"
    workers.fate = lambda _pack: None
    assert {part.baseline.outcome for part in go().studies if part.baseline} == {"ok"}


@pytest.mark.parametrize(("cause", "says"), [("crash", "its worker process died 3 times"), ("node", GONE)])
def test_a_cost_that_cannot_be_measured_is_said_and_left_to_the_next_run(
    workers: Workers, capfd: Any, cause: str, says: str
) -> None:
    workers.fate = lambda pack: cause if pack.get("asks") == "cost" and "gaussian" in pack["cell"] else None
    found = go(Costly)
    assert {part.cell.defense: part.cost for part in found.studies} == {"laplace": 1.1, "gaussian": None}
    assert f"c: the cost of gaussian was not measured: {says}" in capfd.readouterr().err
    workers.fate = lambda _pack: None
    assert {part.cell.defense: part.cost for part in go(Costly).studies} == COSTS


@pytest.mark.parametrize("known", [True, False], ids=["before", "found out as it goes"])
def test_a_search_without_machine_code_says_so_once(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, capfd: Any, *, known: bool
) -> None:
    said = iter(["no compiler"] if known else ["", "no compiler"])
    monkeypatch.setattr(campaign_run, "obstacle", lambda: next(said))
    go()
    assert capfd.readouterr().err.count("c: torch alone trains, up to twice as slow: no compiler") == 1


def test_a_part_of_a_campaign_can_go_on_alone(workers: Workers) -> None:
    plan = planned(trials=6)
    run_campaign(plan, work=TrainableSpec(SimulatedTrainable, OPTIONS), progress=False)
    alone = replace(plan.studies[0], campaign="c")
    run_campaign(
        PlannedCampaign.of(alone.changed(trials=5)), work=TrainableSpec(SimulatedTrainable, OPTIONS), progress=False
    )
    assert counted(record()) == {"laplace": 5, "gaussian": 3}


def test_what_was_running_at_a_kill_is_asked_again(workers: Workers, capfd: Any) -> None:
    plan = planned(trials=6, resources={"pack": 2})

    def after(searcher: PackSearcher) -> None:
        if len(workers.trials) > 1:
            raise SystemExit

    workers.after = after
    with pytest.raises(SystemExit):
        run_campaign(plan, work=TrainableSpec(SimulatedTrainable, OPTIONS), progress=False)
    flying = sum(part.record().running for part in open_study("c").parts())
    assert flying > 0
    assert sum(part.running for part in record().studies) == 0, "nobody runs it any more"
    workers.after = lambda _searcher: None
    found = go(spec={"trials": 6, "resources": {"pack": 2}})
    assert f"c: {flying} trials were running when the search was last stopped; they are asked again" in (
        capfd.readouterr().err
    )
    assert counted(found) == {"laplace": 3, "gaussian": 3}
    lost = [t for part in found.studies for t in part.trials if t.outcome.outcome == "preempted"]
    assert len(lost) == flying


def test_a_trial_over_its_time_is_a_timeout(workers: Workers) -> None:
    found = go(spec={"trials": 2, "budget": {"trial_minutes": 0.002}, "resources": {"pack": 1}}, options={"sleep": 5.0})
    assert {t.outcome.outcome for part in found.studies for t in part.trials} == {"timeout"}


class Broken:
    """Fails at everything that it is told."""

    def __init__(self) -> None:
        self.told = 0

    def on_trials(self, _study: str, records: Any) -> None:
        self.told += len(records)
        raise RuntimeError("the tracking server is away")

    def on_study(self, _record: Any) -> None:
        raise RuntimeError("the tracking server is away")

    on_end = left = lambda self: self.on_study(None)


class Listening:
    def __init__(self) -> None:
        self.trials: list[tuple[str, int]] = []
        self.studies: list[Any] = []
        self.ends = 0

    def on_trials(self, study: str, records: Any) -> None:
        self.trials += [(study, record.number) for record in records]

    def on_study(self, record: Any) -> None:
        self.studies.append(record)

    def on_end(self) -> None:
        self.ends += 1

    def left(self) -> str:
        return ""


def test_a_broken_listener_is_warned_of_once_and_the_others_hear_everything(workers: Workers, capfd: Any) -> None:
    broken, listening = Broken(), Listening()
    found = go(spec={"trials": 6}, sinks=(broken, listening))
    assert broken.told == 6
    assert sorted(listening.trials) == sorted((part.name, t.number) for part in found.studies for t in part.trials)
    assert listening.studies[0].trials == ()
    assert listening.studies[-2:] == list(found.studies)
    assert listening.ends == 1
    warned = "tune-vfl: Broken failed and the search goes on: RuntimeError: the tracking server is away\n"
    assert capfd.readouterr().err.count(warned) == 1
