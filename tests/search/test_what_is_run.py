"""What a search runs and returns: the real trainable, a campaign, and workers without memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import tune_controller

from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from tests.search.test_searcher import handed_out, searcher_of
from trainables.cell import CellTrainable
from trainables.simulated import SimulatedTrainable
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.search import api, losses, runner
from tune_vfl.search.losses import SurvivingManager, surviving
from tune_vfl.search.undefended import Undefended
from tune_vfl.search.work import REAL, Work

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def test_the_real_thing_trains_cells_and_has_no_options() -> None:
    assert Work.real() == Work(CellTrainable, {})


def test_a_worker_that_the_memory_monitor_ended_is_told_as_one_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Exception] = []
    base = SurvivingManager.__mro__[1]
    monkeypatch.setattr(base, "_actor_task_failed", lambda _self, _task, error: told.append(error))
    manager = object.__new__(SurvivingManager)
    other = ValueError("broke")
    manager._actor_task_failed(None, OutOfMemoryError("running low on memory"))
    manager._actor_task_failed(None, other)
    assert isinstance(told[0], RayActorError)
    assert "running low on memory" in str(told[0])
    assert told[1] is other
    before = tune_controller.RayActorManager
    with surviving():
        assert tune_controller.RayActorManager is SurvivingManager
    assert tune_controller.RayActorManager is before
    assert losses.cause_of(str(told[0])) == "memory"


@pytest.mark.parametrize("stopped", [False, True])
def test_what_was_run_comes_back_from_the_ledger(home: Path, monkeypatch: pytest.MonkeyPatch, *, stopped: bool) -> None:
    asked: list[Mapping[str, Any]] = []

    def run_campaign(plan: PlannedCampaign, **how: Any) -> bool:
        asked.append(how)
        Ledger.of_campaign(plan, storage_at(how["storage"]), None)
        return stopped

    monkeypatch.setattr(api, "run_campaign", run_campaign)
    there = str(home / "there.db")
    found = api.search(planned(), listeners=(), progress=False, storage=there)
    assert (found.name, found.stopped, len(found.record().studies)) == ("c", stopped, 2)
    assert asked == [{"listeners": (), "storage": there, "take_over": False, "progress": False}]
    lone = PlannedCampaign.of(replace(planned().studies[0], campaign=""))
    assert api.search(lone, listeners=(), storage=str(home / "lone.db")).record().name == lone.name


def test_ray_begins_with_what_its_workers_will_run(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(runner.cluster, "begin", begun.append)
    runner._begin(None)
    runner._begin(Work(SimulatedTrainable, {}))
    assert begun == [REAL, "trainables.simulated:SimulatedTrainable"]


@pytest.mark.usefixtures("home")
def test_an_undefended_model_may_take_as_long_as_a_trial() -> None:
    limited = Undefended([open_ledger("a", budget={"trial_minutes": 3})])
    assert limited.seconds_allowed == 180
    assert Undefended([open_ledger("b")]).seconds_allowed is None
    assert (limited.gated, limited.tries, limited.owed) == (True, 3, True)


def test_what_a_worker_reports_is_told_once_and_a_late_loss_changes_nothing() -> None:
    searcher, _ = searcher_of()
    first = handed_out(searcher, "first")
    asked = [errand for errand in searcher._errands.references if not errand.owed]
    searcher.on_trial_result("first0", {"outcomes": ["answer"]})
    assert asked[0].told == ["answer"]
    searcher.on_trial_complete("first0", error=True)
    assert not searcher.hopeless
    assert asked[0].over
    assert len(first) == 4
