"""A study has an id beside its name: drawn when it is made, shared by the studies of a campaign, and no other's."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.ledgers import open_ledger, reopened
from tests.helpers.packing import planned, run
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.packing import pack, unpack
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign

pytestmark = pytest.mark.usefixtures("home")


def id_of(name: str, storage: str | None = None) -> str:
    return reopened(name, storage).record().id


def test_two_studies_of_a_name_have_two_ids_and_more_trials_change_none(tmp_path: Path) -> None:
    first = open_ledger().study.id
    assert open_ledger(budget={"trials": 60}).study.id == id_of("study") == first
    assert open_ledger(storage=str(tmp_path / "other.db")).study.id not in ("", first)


def test_the_studies_of_a_campaign_have_one(tmp_path: Path) -> None:
    place = storage_at()
    run(planned(), place)
    of_campaign = id_of("c-laplace")
    run(planned(("laplace", "gaussian", "iso"), 9), place)
    assert {id_of(f"c-{defense}") for defense in ("laplace", "gaussian", "iso")} == {of_campaign}
    there = str(tmp_path / "there.db")
    unpack(pack("c"), there)
    (of_copy,) = {id_of(f"c-{defense}", there) for defense in ("laplace", "gaussian", "iso")}
    assert of_copy not in ("", of_campaign), "a copy may go on beside what it was packed from"


def test_a_study_that_joins_a_campaign_takes_its_id() -> None:
    plan, place = planned(), storage_at()
    joins = replace(plan.studies[1], campaign="")
    with place.lease(joins.name) as lease:
        own = Ledger.of_campaign(PlannedCampaign.of(joins), place, lease)[0]
        own.close()
    before = id_of("c-gaussian")
    run(planned(("laplace",), 3), place)
    assert id_of("c-laplace") != before
    run(plan, place)
    assert id_of("c-gaussian") == id_of("c-laplace") != before
