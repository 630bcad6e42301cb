"""A campaign of simulated studies in a ledger, without a run."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import update

from tests.helpers.simulated import Simulation, simulate, simulated_cell, simulated_spec
from tune_vfl.driver.planning import shared_out
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.schema import campaigns
from tune_vfl.outcome import Outcome
from tune_vfl.records.answers import Confirmation, PointName
from tune_vfl.records.campaigns import PlannedCampaign, Skipped
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.named import space_of
from tune_vfl.spec.cell import MEASURE, References

SCALES = {"float": [1e-5, 1e-1], "log": True}
PARAMS = {"laplace": "scale", "gaussian": "sigma", "iso": "ratio"}


def planned(
    defenses: Sequence[str] = ("laplace", "gaussian"), trials: int = 6, name: str = "c", **fields: Any
) -> PlannedCampaign:
    """Plan a campaign of simulated studies."""
    studies = []
    for defense in defenses:
        space = {"name": defense, "space": {PARAMS[defense]: SCALES}}
        spec = simulated_spec(f"{name}-{defense}", defense=space, **{"sampler": "random", **fields})
        cell = simulated_cell(spec)
        studies.append(PlannedStudy(spec, cell, space_of(spec, cell)))
    raw = {"study": name, "defense": list(defenses), "storage": "/some/where", **fields}
    left = (Skipped(f"{name}-mid", None, ("needs a bottleneck",)),)
    return PlannedCampaign(name, shared_out(studies, trials, name), trials, raw, left)


def run(plan: PlannedCampaign, place: LedgerStorage, scales: Sequence[float] = (1e-4, 1e-3)) -> None:
    """Give each study of a campaign that is kept at a place its share of trials, at some scales."""
    with place.lease(plan.name) as lease:
        ledgers = Ledger.of_campaign(plan, place, lease)
        for ledger in ledgers:
            if ledger.references is None:
                ledger.set_references_and_reference_point(References(r_lower={"norm": [0.5, 0.6]}), (0.5, 1.0))
                ledger.set_baseline(answer_of(ledger, 1e-5))
            param = PARAMS[ledger.cell.defense]
            for scale in scales[len(ledger.trials()) :]:
                ledger.tell(ledger.begin({param: scale}, pack="p"), answer_of(ledger, scale))
            ledger.close()


def answer_of(ledger: Ledger, scale: float) -> Outcome:
    """Return what a simulated trial of a study comes to."""
    simulated = simulate(Simulation(), ledger.cell, {PARAMS[ledger.cell.defense]: scale})
    return Outcome.model_validate(simulated.model_dump())


def joint() -> Confirmation:
    """Return an answer that tells of one setting."""
    point: dict[str, Any] = {
        "defense": "laplace",
        "params": {"scale": 1e-4},
        "seeds": 10,
        "on_front": True,
        "searched": {},
    }
    return Confirmation(
        schema="tune-vfl/confirmation/1",
        name="c",
        measure=MEASURE,
        seeds=(1000,),
        points=(ConfirmedPoint(study="c-laplace", dataset="breast_cancer", number=0, **point),),
        lines=(),
        checks=(),
        reserve={"breast_cancer": 0},
        baseline={},
        gap={},
        knee={"breast_cancer": PointName(study="c-laplace", number=0)},
    )


def keep(place: LedgerStorage, **attrs: Any) -> None:
    """Write what a run of campaign ``c`` would."""
    with place.lease("c") as lease:
        plain = {key: value.plain() if isinstance(value, Confirmation) else value for key, value in attrs.items()}
        change = update(campaigns).where(campaigns.c.name == "c").values(plain)
        place.write(lambda connection: connection.execute(change), lease)
