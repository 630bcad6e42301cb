"""What a crash of a campaign left behind is put right for all its studies, and shown as one experiment."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.helpers.ledgers import reopened
from tests.helpers.simulated import SimulatedTrainable, simulated_cell, simulated_spec
from tune_vfl.driver.campaign_run import _CampaignRun
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.machine import places
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.service.repair import repair
from tune_vfl.spaces.named import space_of
from tune_vfl.tracking import attached, payload, store


def planned(defense: str) -> PlannedStudy:
    spec = simulated_spec(f"whole-{defense}", defense=defense, budget={"trials": 2})
    cell = simulated_cell(spec)
    return replace(PlannedStudy(spec, cell, space_of(spec, cell)), campaign="whole")


@pytest.fixture
def crashed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign of two studies, whose driver died with one trial of each running."""
    for name in ("attach_settings", "attach_summary"):
        monkeypatch.setattr(attached, name, lambda *_: None)
    studies = (planned("laplace"), planned("gaussian"))
    place = storage_at()
    with place.lease("whole") as lease:
        for ledger, params in zip(
            Ledger.of_campaign(PlannedCampaign("whole", studies, 4, {"study": "whole"}), place, lease),
            ({"scale": 0.01}, {"sigma": 0.01}),
            strict=True,
        ):
            ledger.tell(ledger.begin(params), Outcome.failed("oom", "full"))
            ledger.begin(params)
            ledger.close()


@pytest.mark.usefixtures("crashed")
def test_a_campaign_is_repaired_as_one(home: Path) -> None:
    said: list[str] = []
    (check,) = repair(said.append)
    assert said == ["repairing whole ..."]
    assert check.name == "repair whole"
    assert check.detail.startswith("2 orphaned trials recovered, MLflow holds 4 trials; 2 trials are owed")
    client = store.client(places.embedded_uri())
    assert {e.name for e in client.search_experiments()} == {"Default", "whole"}
    runs = client.search_runs([client.get_experiment_by_name("whole").experiment_id])
    held = {(r.data.tags[payload.STUDY], r.data.tags[payload.OUTCOME]) for r in runs if payload.OUTCOME in r.data.tags}
    wanted = {(f"whole-{d}", end) for d in ("laplace", "gaussian") for end in ("oom", "preempted")}
    assert held == wanted


@pytest.mark.usefixtures("crashed")
def test_a_run_of_one_part_tells_listeners_of_the_whole_campaign() -> None:
    part = reopened("whole-gaussian")
    told: list[tuple[str, int]] = []
    with storage_at().lease("whole") as lease:
        run = _CampaignRun(
            PlannedCampaign.of(part.study), [part], TrainableSpec(SimulatedTrainable, {}), lease, other_code=False
        )
        hears = SimpleNamespace(on_study=lambda record: told.append((record.name, len(record.trials))))
        run._tell_all(cast(Any, hears))
    part.close()
    assert told == [("whole-laplace", 1), ("whole-gaussian", 1)]
