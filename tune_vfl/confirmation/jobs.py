"""From what is to be run to jobs: settings and seeds that train in one pass, or one network where nothing stacks.

How work is cut into jobs changes the speed and what a kill loses, and never a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger.confirmations import UNDEFENDED, Place, SeedRecord
from tune_vfl.search.packs import LANES, shortened
from tune_vfl.search.undefended import undefended
from tune_vfl.spec.cell import Cell, References

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.ledger.records import StudyRecord


@dataclass(frozen=True)
class Job:
    """Settings that are trained alike, each with the same seeds.

    Attributes:
        cell: with its seeds, and the rows of a report.
        numbers: the trials.
        params: a mapping a trial, of the defense alone.
    """

    cell: Cell
    numbers: tuple[int, ...]
    params: tuple[Mapping[str, Any], ...]

    @property
    def alone(self) -> list[Job]:
        """One job a trial, for when they could not be evaluated together."""
        return [Job(self.cell, (n,), (p,)) for n, p in zip(self.numbers, self.params, strict=True)]


def cell_of(record: StudyRecord, number: int) -> tuple[Cell, dict[str, Any]]:
    """Return the cell that a setting is confirmed in, without seeds, and the parameters of its defense.

    What passive parties reach together is no part of a leakage, and so of no confirmation.
    """
    given = next((t.params for t in record.trials if t.number == number), {})
    cell, params = (undefended(record.cell), {}) if number == UNDEFENDED else record.cell.with_params(given)
    threat = cell.threat.model_copy(update={"parties": "each"})
    return cell.model_copy(update={"rows": "report", "seeds": (), "threat": threat}), params


def cut(record: StudyRecord, places: Sequence[Place], *, workers: int, stacks: bool) -> list[Job]:
    """Cut what is to be run into jobs.

    Args:
        record: the study.
        places: trials and seeds.
        workers: jobs that run at once; a job is made no larger than leaves one for each.
        stacks: whether networks train in one pass.
    """
    seeds: dict[int, list[int]] = {}
    for number, seed in places:
        seeds.setdefault(number, []).append(seed)
    alike: dict[tuple[str, tuple[int, ...]], list[tuple[int, Cell, dict[str, Any]]]] = {}
    for number, asked in seeds.items():
        cell, params = cell_of(record, number)
        alike.setdefault((cell.model_dump_json(), tuple(asked)), []).append((number, cell, params))
    most = min(_lanes(record), -(-len(places) // workers)) if stacks else 1
    jobs = []
    for (_, wanted), members in alike.items():
        for part in _parts(wanted, most):
            together = max(1, most // len(part))
            for k in range(0, len(members), together):
                numbers, cells, params = zip(*members[k : k + together], strict=True)
                jobs.append(Job(cells[0].model_copy(update={"seeds": part}), numbers, params))
    return jobs


def _lanes(record: StudyRecord) -> int:
    """Return how many networks a job may hold: what a pass takes, and no more than ten minutes' worth."""
    seconds = [sum(t.outcome.seconds.values()) for t in record.ok]
    return shortened(LANES, sum(seconds) / len(seconds) / len(record.cell.seeds))


def _parts(seeds: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Cut seeds into parts of equal sizes, as few as hold at most ``most`` each."""
    count = -(-len(seeds) // most)
    size = -(-len(seeds) // count)
    return [tuple(seeds[k : k + size]) for k in range(0, len(seeds), size)]


@dataclass
class Floors:
    """What attacks are compared with, by model and seed; it is the same for every setting of a model.

    Attributes:
        known: by model and seed, R_lower by attack.
    """

    known: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)

    @classmethod
    def held(cls, record: StudyRecord, held: Mapping[Place, SeedRecord]) -> Floors:
        """Take what earlier runs have measured from their records."""
        floors = cls()
        models = {number: _model(cell_of(record, number)[0]) for number in {n for n, _ in held}}
        for (number, seed), kept in held.items():
            if kept.outcome == "ok":
                lower = {name: a.r_lower for name, a in kept.attacks.items() if a.r_lower is not None}
                floors.known[models[number], seed] = lower
        return floors

    def owed(self, jobs: Sequence[Job]) -> list[Cell]:
        """Return what must be measured before these jobs: a cell a model, with the seeds that are not known."""
        seeds: dict[str, tuple[Cell, dict[int, None]]] = {}
        for job in jobs:
            _, asked = seeds.setdefault(_model(job.cell), (job.cell, {}))
            asked.update({s: None for s in job.cell.seeds if (_model(job.cell), s) not in self.known})
        return [cell.model_copy(update={"seeds": tuple(sorted(asked))}) for cell, asked in seeds.values() if asked]

    def learn(self, cell: Cell, references: References) -> None:
        """Take what was measured for a cell."""
        for i, seed in enumerate(cell.seeds):
            self.known[_model(cell), seed] = {name: values[i] for name, values in references.r_lower.items()}

    def of(self, cell: Cell) -> References:
        """Return what the attacks of a cell are compared with."""
        by_seed = [self.known[_model(cell), seed] for seed in cell.seeds]
        return References(r_lower={name: [seen[name] for seen in by_seed] for name in by_seed[0]})


def _model(cell: Cell) -> str:
    return cell.model.model_dump_json()
