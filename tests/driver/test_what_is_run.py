"""What a search runs and returns: the real trainable, and a campaign."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.packing import planned
from tests.helpers.side_measurements import Asking
from trainables.cell import CellTrainable
from tune_vfl.driver import api
from tune_vfl.driver.source import SearchJobs
from tune_vfl.evaluation.code import bytes_of_code
from tune_vfl.execution.pack_searcher import PackSearcher
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine.version import VERSION
from tune_vfl.records.campaigns import PlannedCampaign


def test_the_real_thing_trains_cells_and_has_no_options() -> None:
    assert TrainableSpec.real() == TrainableSpec(CellTrainable, {})


@pytest.mark.parametrize("stopped", [False, True])
def test_what_was_run_comes_back_from_the_ledger(home: Path, monkeypatch: pytest.MonkeyPatch, *, stopped: bool) -> None:
    asked: list[Mapping[str, Any]] = []

    def run_campaign(plan: PlannedCampaign, **how: Any) -> bool:
        asked.append(how)
        Ledger.of_campaign(plan, storage_at(how["storage"]), None)
        return stopped

    monkeypatch.setattr(api, "run_campaign", run_campaign)
    there = str(home / "there.db")
    found = api.search(planned(), sinks=(), progress=False, storage=there)
    assert (found.name, found.stopped, len(found.record().studies)) == ("c", stopped, 2)
    assert asked == [{"sinks": (), "storage": there, "take_over": False, "other_code": False, "progress": False}]
    lone = PlannedCampaign.of(replace(planned().studies[0], campaign=""))
    assert api.search(lone, sinks=(), storage=str(home / "lone.db")).record().name == lone.name


def test_a_workers_answer_is_stored_once_and_a_late_failure_changes_nothing() -> None:
    reference = Asking("references")
    searcher = PackSearcher(SearchJobs([], [reference]), lambda: 8, {})
    sent = {"asks": "references", "version": VERSION, "code": bytes_of_code(), "seconds": None, "options": {}}
    suggested = searcher.suggest("first0")
    assert isinstance(suggested, dict)
    assert suggested.items() >= sent.items()
    searcher.on_trial_result("first0", {"outcomes": ["answer"]})
    assert reference.answers == ["answer"]
    searcher.fail("first0", "crash")
    searcher.check_workers("study")
    assert reference.over
