"""Contests of simulated studies, run in this process without Ray: what a confirmation does between two workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.helpers.ledgers import open_ledger
from tests.helpers.simulated import Simulation, simulate
from tune_vfl.confirmation.answer import answer_of
from tune_vfl.confirmation.contest import Contest
from tune_vfl.confirmation.jobs import cell_of
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.driver.undefended import undefended
from tune_vfl.ledger.confirmation_store import Place
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.records.answers import Confirmation, SettingKey
from tune_vfl.records.campaigns import CampaignRecord, PlannedCampaign
from tune_vfl.records.confirmations import SeedRecord, records_of
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec.cell import References

Held = dict["Place", "SeedRecord"]

PARAMETERS = {"laplace": "scale", "gaussian": "sigma", "iso": "ratio"}
RANGE = {"float": [1e-5, 1e-1], "log": True}
# The parameter that trades, by defense; iso gives up utility for nothing.
SEVERAL: dict[str, dict[str, Any]] = {
    "gaussian": {"parameter": "sigma"},
    "iso": {"parameter": "ratio", "waste": 0.3},
}
SCALES = tuple(10 ** (-5 + 4 * k / 11) for k in range(12))


def searched(
    name: str = "study",
    *,
    scales: Sequence[float] = SCALES,
    noise: float = 0.02,
    seeds: int = 3,
    defense: str = "laplace",
    **fields: Any,
) -> Ledger:
    """Return the ledger of a finished study whose trials are these scales."""
    budget = {"trials": len(scales), "seeds": seeds, **fields.pop("budget", {})}
    named = PARAMETERS[defense]
    ledger = open_ledger(name, defense={"name": defense, "space": {named: RANGE}}, budget=budget, **fields)
    for scale in scales:
        number = ledger.begin({named: scale})
        ledger.tell(number, simulate(Simulation(noise=noise, by_defense=SEVERAL), ledger.cell, {named: scale}))
    return ledger


def campaign_of(parts: Sequence[StudyRecord], name: str = "campaign") -> CampaignRecord:
    """Return studies as a campaign."""
    return CampaignRecord(name, tuple(parts), sum(len(p.counted) for p in parts))


def measure(contest: Contest, place: Place, noise: float = 0.02, **options: Any) -> SeedRecord:
    """Return what a worker would: one setting with one fresh seed."""
    study, number, seed = place
    cell, params = cell_of(contest.study(study), number)
    outcome = simulate(
        Simulation(noise=noise, by_defense=SEVERAL, **options), cell.model_copy(update={"seeds": (seed,)}), params
    )
    return records_of(outcome, (seed,), References())[seed]


def answered(contest: Contest, held: Held, failed: Mapping[SettingKey, str] | None = None) -> Confirmation:
    """Return the answer of a contest's first study."""
    return answer_of(contest.studies[0], [ContestTable(contest, held, failed)])


def played(contest: Contest, held: Held | None = None, *, most: int | None = None, **options: Any) -> Held:
    """Run what is missing until nothing is, or until ``most`` were run; what is held already is not run again."""
    held, run = dict(held or {}), 0
    while places := contest.missing(contest.plan(held), held):
        for place in places:
            if run == most:
                return held
            assert place not in held
            held[place] = measure(contest, place, **options)
            run += 1
    return held


def played_by(contest: Contest, find: Callable[[Place], SeedRecord]) -> Held:
    """Run until nothing is missing, each setting with each fresh seed by a function of the test."""
    held: Held = {}
    while places := contest.missing(contest.plan(held), held):
        held |= {place: find(place) for place in places}
    return held


def in_campaign(ledgers: Sequence[Ledger], name: str = "campaign") -> None:
    """Write searched studies down as the parts of a campaign, and close them."""
    studies = tuple(replace(ledger.study, campaign=name) for ledger in ledgers)
    for ledger in Ledger.of_campaign(PlannedCampaign(name, studies, 24), ledgers[0].place, None):
        ledger.close()
    for ledger in ledgers:
        ledger.close()


def confirmable(name: str, **fields: Any) -> StudyRecord:
    """Return a searched study as it stands, its undefended model measured; arguments as for :func:`searched`."""
    ledger = searched(name, **fields)
    ledger.set_baseline(simulate(Simulation(noise=fields.get("noise", 0.02)), undefended(ledger.cell), {}))
    ledger.close()
    return ledger.record()
