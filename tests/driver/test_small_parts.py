"""Small promises of a search's driver: limits of time and packs, the ledger that is asked, sinks that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from trainables.simulated import Simulation, simulate
from tune_vfl.driver import api, campaign_run, sinks
from tune_vfl.driver.costs import Cost
from tune_vfl.driver.live_page import LivePage
from tune_vfl.driver.proposals import Proposals
from tune_vfl.driver.reference_scores import ReferenceScores
from tune_vfl.driver.search_packs import SearchPacks
from tune_vfl.driver.sinks import Dispatcher, SinkObserver
from tune_vfl.driver.study_run import StudyRun
from tune_vfl.driver.undefended import Undefended
from tune_vfl.execution import ray_session
from tune_vfl.execution.capacity import packs_that_fit
from tune_vfl.execution.pack_searcher import PackSearcher
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.spec import Resources
from tune_vfl.testing.studies import made_up_study

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tune_vfl.records.studies import StudyRecord, TrialRecord

pytestmark = pytest.mark.usefixtures("home")


def test_a_cost_may_take_two_trainings() -> None:
    def ignore(*_: str) -> None:
        """Nobody is told."""

    assert Cost(open_ledger("free"), ignore, ignore).seconds_allowed is None
    limited = open_ledger("limited", budget={"trial_minutes": 3})
    assert Cost(limited, ignore, ignore).seconds_allowed == 360.0


def test_reference_scores_are_always_wanted() -> None:
    assert ReferenceScores(Undefended([open_ledger()]), "study", lambda: None).wanted


def test_trials_that_take_long_make_later_packs_smaller() -> None:
    plan = planned(("laplace",), trials=100, sampler="random").studies[0]
    with storage_at(None).lease(plan.name) as lease:
        ledger = Ledger.create_or_open(plan, storage_at(None), lease)
        part = StudyRun(ledger, 6, (), 24)
        pack = part.next_pack("first")
        assert pack is not None
        ended = simulate(Simulation(), ledger.cell, pack.params[0])
        part.end(pack.numbers[:1], [ended.model_dump(mode="json") | {"seconds": {"train": 200.0}}])
        second = part.next_pack("second")
        assert second is not None
        assert second.trials == 3


@pytest.mark.parametrize(("pack", "ordinary", "most"), [("auto", False, 9), ("auto", True, 1), (4, False, 4)])
def test_trials_that_differ_in_more_than_a_defense_run_one_by_one(pack: Any, ordinary: bool, most: int) -> None:
    class Nine:
        @staticmethod
        def most_per_pack(_cell: object) -> int:
            return 9

    work = SimpleNamespace(trainable=Nine)
    space = SimpleNamespace(ordinary=("training.lr",) if ordinary else ())
    spec = SimpleNamespace(sampler=SimpleNamespace(name="random"))
    ledger = SimpleNamespace(space=space, spec=spec, cell=SimpleNamespace(seeds=(0,)))
    run = SimpleNamespace(_resources=Resources(pack=pack), _work=work)
    assert campaign_run._Run._packs(run, ledger, 100, 1) == (most, most)  # type: ignore[arg-type]


def test_the_page_is_that_of_the_study_in_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr(LivePage, "__init__", lambda _self, *given_: given.append(given_))
    api.default_sinks(planned())
    ((name, look, folder, report),) = given
    assert (name, folder) == ("c", home / "reports" / "c")
    assert callable(look)
    assert callable(report)


class Broken:
    """Fails at everything."""

    def on_trials(self, study: str, records: Sequence[TrialRecord]) -> None:
        raise OSError(f"no room for {study}")

    def on_study(self, record: StudyRecord) -> None:
        raise OSError("no room")

    def on_end(self) -> None:
        raise OSError("no room")

    def left(self) -> str:
        return ""


def test_a_listener_that_fails_is_told_of_once_and_keeps_no_program_alive(capsys: pytest.CaptureFixture[str]) -> None:
    with Dispatcher([Broken()]) as dispatcher:
        assert dispatcher._thread.daemon, "one that hangs must not keep the program from ending"
        dispatcher.on_study(made_up_study(2))
        dispatcher.on_study(made_up_study(2))
    said = "tune-vfl: Broken failed and the search goes on: OSError: no room\n"
    assert capsys.readouterr().err == said
    assert sinks.PATIENCE_SECONDS > 0


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


def test_trials_that_needed_too_much_memory_are_asked_again_without_others() -> None:
    ledger = open_ledger(sampler="random", budget={"trials": 20})
    proposals = Proposals(ledger)
    first = [one.number for one in proposals.ask(4, "big")]
    for number in first:
        record = ledger.lose(number, "memory", "no room", ends_as="oom")
        assert record is not None
        proposals.learn(record)
    again = proposals.ask(8, "smaller")
    lost = {t.number: t.params for t in ledger.trials()}
    assert [one.params for one in again] == [lost[number] for number in first[:2]], "half of the pack, and none beside"


class Flying:
    """A pack that runs."""

    trials, seconds_allowed = 3, None

    def __init__(self) -> None:
        self.lost: list[str] = []

    def lose(self, cause: str) -> None:
        self.lost.append(cause)


@pytest.mark.parametrize(("trials", "counted"), [(3, 3), (0, 1)])
def test_a_searcher_says_how_many_trials_a_failed_pack_had(trials: int, counted: int) -> None:
    flight = Flying()
    flight.trials = trials
    searcher = PackSearcher(SearchPacks([]), lambda: 1, {})
    searcher._running["pack"] = flight  # type: ignore[assignment]
    assert searcher.fail("pack", "crash") == counted
    assert flight.lost == ["crash"]
    assert searcher.fail("pack", "crash") == 0, "it is told once"


def test_a_node_without_processors_has_room_for_nothing() -> None:
    assert packs_that_fit(Resources(), {"GPU": 1.0}) == 0


def test_what_the_driver_sees_is_passed_on() -> None:
    told: list[tuple[Any, ...]] = []
    dispatcher = SimpleNamespace(on_trial=lambda *given: told.append(given), on_study=lambda *given: told.append(given))
    ledger = open_ledger("s")
    tee = SinkObserver([ledger], dispatcher)  # type: ignore[arg-type]
    trial = made_up_study(1, failures=()).trials[0]
    tee.on_ask("s", 3)
    tee.on_tell("s", trial)
    tee.on_baseline(["s"], trial.outcome)
    assert told == [("s", trial), (ledger.record(),)]


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
        _packs=packs,
        _waiting=lambda: 40,
        _work=SimpleNamespace(options={}),
    )
    run._costs = []
    campaign_run._Run._searcher(run, [], SimpleNamespace(packs=lambda: 4), None, ())  # type: ignore[arg-type]
    assert asked == [("many", 30, 3), ("few", 10, 1), ("none", 1, 1)]
