"""Tables of trials that were really run, on which samplers are compared without a run.

A table is a file of JSON lines under ``benchmarks/tables``, one a trial, as ``trial_tables.py`` of commit c2fa3d7 made
it. Numbers have six digits. Each attack's advantages are those of the variant that its score belongs to.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.space import Space, point_key
from tune_vfl.spec import parse

FOLDER = Path(__file__).parent / "tables"
DATASETS: dict[str, dict[str, Any]] = {
    "spambase": {"name": "spambase", "split": 0.5},
    "digits": {"name": "digits"},
}
REFERENCES = {"spambase": (0.5, 1.0), "digits": (0.102, 1.0)}


class Row(NamedTuple):
    """One trial.

    Attributes:
        defense, params: what was tried; ``place``: in the order of its part, published settings first.
        published: whether it is a published setting.
        outcome: how it ended; without objectives unless ``ok``.
        utility: by seed; ``leakage``: the objective; ``advantages``: by attack, by seed, signed.
        seconds: wall seconds of its share of the pack.
    """

    defense: str
    place: int
    params: dict[str, Any]
    published: bool
    outcome: str
    utility: list[float]
    leakage: float | None
    advantages: dict[str, list[float]]
    seconds: float

    @property
    def objectives(self) -> tuple[float, float]:
        """``(utility, leakage)`` of an ok trial."""
        return sum(self.utility) / len(self.utility), self.leakage if self.leakage is not None else 1.0


@cache
def rows_of(dataset: str, defense: str) -> list[Row]:
    """Return a table's rows of one defense that ended well, by place."""
    lines = (FOLDER / f"trials-{dataset}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [Row(**json.loads(line)) for line in lines]
    return sorted((r for r in rows if r.defense == defense and r.outcome == "ok"), key=lambda r: r.place)


@cache
def study_of(dataset: str, defense: str) -> PlannedStudy:
    """Plan the study of one defense."""
    from tune_vfl.driver.planning import plan_study

    raw = {"study": f"table-{dataset}-{defense}", "dataset": DATASETS[dataset], "defense": defense}
    return plan_study(parse({**raw, "attacks": ["default"], "budget": {"seeds": 3}}))


def settings_of(space: Space, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return published settings, then draws of the random sampler until there are ``count`` or the space is used up."""
    import optuna

    from tune_vfl.samplers.base import SAMPLERS

    settings = {point_key(p.params): dict(p.params) for p in space.published}
    study = optuna.create_study(sampler=SAMPLERS["random"].build(seed, budget=count))
    drawn = 0
    while len(settings) < min(count, space.size) and drawn < 100 * count:
        params = space.typed(study.ask(space.distributions()).params)
        settings.setdefault(point_key(params), params)
        drawn += 1
    return list(settings.values())[:count]
