"""What a search runs and returns: the real trainable, and a campaign."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.packing import planned
from tests.search.test_searcher import handed_out, searcher_of
from trainables.cell import CellTrainable
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.search import api
from tune_vfl.search.undefended import Undefended
from tune_vfl.search.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def test_the_real_thing_trains_cells_and_has_no_options() -> None:
    assert Work.real() == Work(CellTrainable, {})


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


@pytest.mark.usefixtures("home")
def test_an_undefended_model_may_take_as_long_as_a_trial() -> None:
    limited = Undefended([open_ledger("a", budget={"trial_minutes": 3})])
    assert limited.seconds_allowed == 180
    assert Undefended([open_ledger("b")]).seconds_allowed is None
    assert (limited.tries, limited.owed) == (3, True)


def test_what_a_worker_reports_is_told_once_and_a_late_loss_changes_nothing() -> None:
    searcher, _ = searcher_of()
    first = handed_out(searcher, "first")
    asked = [errand for errand in searcher._errands.references if not errand.owed]
    searcher.on_trial_result("first0", {"outcomes": ["answer"]})
    assert asked[0].told == ["answer"]
    searcher.fail("first0", "crash")
    assert not searcher.hopeless
    assert asked[0].over
    assert len(first) == 4
