"""Small promises of a search's driver: limits of time and packs, the ledger that is asked, sinks that fail."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from tests.helpers.simulated import Simulation, simulate
from tests.helpers.studies import made_up_study
from tune_vfl.driver import api, campaign_run
from tune_vfl.driver.costs import Cost
from tune_vfl.driver.live_page import LivePage
from tune_vfl.driver.sinks import Dispatcher
from tune_vfl.driver.study_run import StudyRun
from tune_vfl.execution import ray_session
from tune_vfl.execution.capacity import packs_that_fit
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.spec import Resources

pytestmark = pytest.mark.usefixtures("home")


def test_a_cost_may_take_two_trainings() -> None:
    def ignore(*_: str) -> None:
        """Nobody is told."""

    assert Cost(open_ledger("free"), ignore, ignore).job().seconds_allowed is None
    limited = open_ledger("limited", budget={"trial_minutes": 3})
    assert Cost(limited, ignore, ignore).job().seconds_allowed == 360.0


def test_trials_that_take_long_make_later_packs_smaller() -> None:
    plan = planned(("laplace",), trials=100, sampler="random").studies[0]
    with storage_at(None).lease(plan.name) as lease:
        ledger = Ledger.of_campaign(PlannedCampaign.of(plan), storage_at(None), lease)[0]
        part = StudyRun(ledger, 6, (), 24)
        job = part.next_job("first")
        assert job is not None
        number, params = next(iter(job.settings.items()))
        ended = simulate(Simulation(), ledger.cell, params)
        part.store(*job.parts([number], 1), [ended.model_dump(mode="json") | {"seconds": {"train": 200.0}}])
        second = part.next_job("second")
        assert second is not None
        assert len(second.settings) == 3


def test_the_page_is_that_of_the_study_in_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr(LivePage, "__init__", lambda _self, *given_: given.append(given_))
    api.default_sinks(planned())
    ((name, look, report),) = given
    assert name == "c"
    assert callable(look)
    assert callable(report)


def test_the_token_is_made_private_before_ray_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", lambda **_: order.append("ray"))
    monkeypatch.setattr(ray_session, "make_token_private", lambda: order.append("token"))
    ray_session.connect()
    assert order == ["token", "ray"]


def test_packs_have_the_room_of_the_nodes_that_are_up(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 4.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    lease = SimpleNamespace(study="s", roommates=lambda: ["s"])
    assert ray_session.capacity_for(Resources(cpu=2), lease).packs() == 2  # type: ignore[arg-type]


def test_a_node_without_processors_has_room_for_nothing() -> None:
    assert packs_that_fit(Resources(), {"GPU": 1.0}) == 0


def test_what_the_driver_sees_is_passed_on() -> None:
    told: list[tuple[Any, ...]] = []
    sink = SimpleNamespace(
        on_trials=lambda *given: told.append(given),
        on_study=lambda *given: told.append(given),
        on_end=lambda: None,
        left=lambda: "",
    )
    record = made_up_study(1, failures=())
    with Dispatcher([sink]) as dispatcher:
        dispatcher.on_ask("s", 3)
        dispatcher.on_tell("s", record.trials[0])
        dispatcher.on_baseline([record], record.trials[0].outcome)
    assert told == [("s", record.trials), (record,)]


def test_a_study_has_its_part_of_the_workers_by_what_it_owes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []

    def packs(ledger: Any, trials: int, workers: int) -> tuple[int, int]:
        asked.append((ledger.study.name, trials, workers))
        return 1, 1

    def ledger(name: str, waiting: int) -> Any:
        record = SimpleNamespace(waiting=waiting)
        return SimpleNamespace(study=SimpleNamespace(name=name), record=lambda: record)

    monkeypatch.setattr(campaign_run, "StudyRun", lambda *_: SimpleNamespace(packs=1, has_pending=False))
    run = SimpleNamespace(
        _ledgers=[ledger("many", 30), ledger("few", 10), ledger("none", 0)],
        _models=[],
        _studies=[],
        _packs=packs,
        _waiting=lambda: 40,
        _report=SimpleNamespace(),
        _references=lambda _dispatcher: [],
        _costs=[],
    )
    campaign_run._CampaignRun._source(run, SimpleNamespace(), 4, None)  # type: ignore[arg-type]
    assert asked == [("many", 30, 3), ("few", 10, 1), ("none", 1, 1)]
