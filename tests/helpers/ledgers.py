"""A ledger of a simulated study, for tests of searches."""

from typing import Any

from tests.helpers.simulated import simulated_cell, simulated_spec
from tune_vfl.evaluation.coverage import coverage_of
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.reading import find
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of


def open_ledger(name: str = "study", **fields: Any) -> Ledger:
    """Make or open the ledger of a simulated study under ``TUNE_VFL_HOME``."""
    spec = simulated_spec(name, **fields)
    cell = simulated_cell(spec)
    plan = PlannedStudy(spec, cell, space_of(spec, cell), coverage=coverage_of(spec, cell))
    return Ledger.of_campaign(PlannedCampaign.of(plan), storage_at(spec.storage), None)[0]


def reopened(name: str = "study", storage: str | None = None, lease: Lease | None = None) -> Ledger:
    """Open the ledger of a study that there is."""
    place = storage_at(storage)
    return Ledger(place, find(place, name), lease)
