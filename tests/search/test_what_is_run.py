"""What a search runs and returns: the real trainable, shares of a race, a campaign, and workers without memory."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune.execution import tune_controller

from tests.helpers.packing import planned
from trainables.cell import CellTrainable
from tune_vfl.campaign.campaign import Campaign
from tune_vfl.errors import SpecError, StudyError
from tune_vfl.ledger.campaigns import PlannedCampaign
from tune_vfl.search import api, losses
from tune_vfl.search.losses import SurvivingManager, surviving
from tune_vfl.search.planning import shared_out
from tune_vfl.search.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_the_real_thing_trains_cells_and_has_no_options() -> None:
    assert Work.real() == Work(CellTrainable, {})


def test_what_is_shared_out_before_a_race_is_what_is_published() -> None:
    whole = planned(trials=30)
    assert [s.spec.budget.trials for s in whole.studies] == [15, 15]
    raced = planned(trials=30, allocation="race").studies
    published = [max(1, len(s.space.published)) for s in raced]
    assert [s.spec.budget.trials for s in raced] == published, "the rest goes where the answer is open"
    assert {s.campaign for s in raced} == {"c"}
    assert [s.spec.budget.trials for s in shared_out(raced, 30, "other")] == published
    with pytest.raises(SpecError, match="are fewer than the"):
        shared_out(raced, sum(published) - 1, "c")


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
def test_a_campaign_that_was_run_comes_back_as_one_and_a_study_as_one(
    monkeypatch: pytest.MonkeyPatch, *, stopped: bool
) -> None:
    held: list[Any] = [SimpleNamespace(name="c", place=SimpleNamespace(url="sqlite:///x"))]
    asked: list[Mapping[str, Any]] = []
    ended = [SimpleNamespace(stopped=False), SimpleNamespace(stopped=stopped)]

    def run_campaign(plan: Any, **how: Any) -> list[Any]:
        asked.append(how)
        return ended

    monkeypatch.setattr(api, "run_campaign", run_campaign)
    monkeypatch.setattr(api, "open_campaign", lambda _name, _storage: held[0])
    found = api.search(planned(), listeners=(), progress=False, storage="there")
    assert isinstance(found, Campaign)
    assert (found.name, found.stopped) == ("c", stopped)
    assert asked == [{"listeners": (), "storage": "there", "take_over": False, "progress": False}]
    lone = PlannedCampaign.of(replace(planned().studies[0], campaign=""))
    assert api.search(lone, listeners=()) is ended[0], "a study alone"
    held[0] = None
    with pytest.raises(StudyError, match="'c' is not in the ledger any more: somebody has removed it"):
        api.search(planned(), listeners=())
