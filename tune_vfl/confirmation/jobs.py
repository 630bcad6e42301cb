"""From what is to be run to jobs: settings and seeds that train in one pass, or one network where nothing stacks.

How work is cut into jobs changes the speed and what a kill loses, and never a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tune_vfl.ledger.confirmations import UNDEFENDED, SeedRecord
from tune_vfl.ledger.joint import Setting
from tune_vfl.search.packs import LANES, shortened
from tune_vfl.search.undefended import undefended
from tune_vfl.spec import Named
from tune_vfl.spec.cell import Cell, References
from tune_vfl.spec.study import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tune_vfl.ledger.records import StudyRecord

ALWAYS = "gradient_em"
"""The attack that every confirmation of attacks on labels runs: it breaks noise that nothing else breaks."""

Place = tuple[str, int, int]
"""A study's name, a trial's number or :data:`UNDEFENDED`, and a seed."""


@dataclass(frozen=True)
class Job:
    """Settings of a study that are trained alike, each with the same seeds.

    Attributes:
        study: its name.
        cell: with its seeds, and the rows of a report.
        numbers: the trials.
        params: a mapping a trial, of the defense alone.
    """

    study: str
    cell: Cell
    numbers: tuple[int, ...]
    params: tuple[Mapping[str, Any], ...]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The trials, among those of all studies."""
        return tuple((self.study, number) for number in self.numbers)

    @property
    def alone(self) -> list[Job]:
        """One job a trial, for when they could not be evaluated together."""
        return [Job(self.study, self.cell, (n,), (p,)) for n, p in zip(self.numbers, self.params, strict=True)]


def cell_of(record: StudyRecord, number: int) -> tuple[Cell, dict[str, Any]]:
    """Return the cell that a setting is confirmed in, without seeds, and the parameters of its defense.

    What passive parties reach together is no part of a leakage, and so of no confirmation. An attack that reads all
    epochs together is, also where the search did without it.
    """
    given = next((t.params for t in record.trials if t.number == number), {})
    cell, params = (undefended(record.cell), {}) if number == UNDEFENDED else record.cell.with_params(given)
    threat = cell.threat.model_copy(update={"parties": "each"})
    attacks = (*cell.attacks, *_added(cell))
    return cell.model_copy(update={"rows": "report", "seeds": (), "threat": threat, "attacks": attacks}), params


def _added(cell: Cell) -> list[Named]:
    """Return the attack that a confirmation adds to attacks on labels in a vertical federation."""
    from tune_vfl.attacks.base import ATTACKS

    listed = {a.name for a in cell.attacks}
    if ALWAYS in listed or cell.federation.horizontal:
        return []
    if all(ATTACKS[name].capabilities.goal != "labels" for name in listed):
        return []
    return [Named(name=ALWAYS, **ATTACKS[ALWAYS]().params.model_dump())]


def undefended_of(studies: Sequence[StudyRecord]) -> dict[str, str]:
    """Return, by study, the first of them that has the same undefended model: it is measured in that one's name.

    It is the same where data set, model as it is built, training and attacks are.
    """
    first: dict[str, str] = {}
    models = {record.name: cell_of(record, UNDEFENDED)[0].model_dump_json() for record in studies}
    return {name: first.setdefault(model, name) for name, model in models.items()}


def cut(
    studies: Sequence[StudyRecord], places: Sequence[Place], *, workers: int, stacks: Callable[[Setting], bool]
) -> list[Job]:
    """Cut what is to be run into jobs.

    Args:
        studies: what the places are of.
        places: studies, trials and seeds.
        workers: jobs that run at once; a job is made no larger than leaves one for each.
        stacks: says whether networks of a setting train in one pass; those that are trained alike all do, or none.
    """
    records = {record.name: record for record in studies}
    seeds: dict[Setting, list[int]] = {}
    for study, number, seed in places:
        seeds.setdefault((study, number), []).append(seed)
    alike: dict[tuple[str, str, tuple[int, ...]], list[tuple[int, Cell, dict[str, Any]]]] = {}
    for (study, number), asked in seeds.items():
        cell, params = cell_of(records[study], number)
        alike.setdefault((study, cell.model_dump_json(), tuple(asked)), []).append((number, cell, params))
    share = -(-len(places) // workers)
    jobs: list[Job] = []
    for (study, _, together), settings in alike.items():
        most = min(_lanes(records[study]), share) if stacks((study, settings[0][0])) else 1
        jobs += _jobs(study, together, settings, most)
    return jobs


def _jobs(
    study: str, asked: Sequence[int], settings: Sequence[tuple[int, Cell, dict[str, Any]]], most: int
) -> Iterator[Job]:
    """Yield jobs of at most ``most`` networks for settings that are trained alike with the same seeds."""
    for seeds in _parts(asked, most):
        together = max(1, most // len(seeds))
        for k in range(0, len(settings), together):
            numbers, cells, params = zip(*settings[k : k + together], strict=True)
            yield Job(study, cells[0].model_copy(update={"seeds": seeds}), numbers, params)


def _lanes(record: StudyRecord) -> int:
    """Return how many networks a job may hold: what a pass takes, and no more than ten minutes' worth."""
    seconds = [sum(t.outcome.seconds.values()) for t in record.ok]
    return shortened(LANES, sum(seconds) / max(1, len(seconds)) / len(record.cell.seeds))


def _parts(seeds: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Cut seeds into parts of equal sizes, as few as hold at most ``most`` each."""
    count = -(-len(seeds) // most)
    size = -(-len(seeds) // count)
    return [tuple(seeds[k : k + size]) for k in range(0, len(seeds), size)]


class _Floor(NamedTuple):
    """R_lower of an attack with one seed, and the deviation of one more untrained model from it."""

    r_lower: float
    noise: float | None


@dataclass
class Floors:
    """What attacks are compared with, by untrained model and seed; it is the same for every setting of one.

    Attributes:
        known: by what is built and attacked, see :func:`_untrained`, and seed: R_lower by attack, and its noise.
    """

    known: dict[tuple[str, int], dict[str, _Floor]] = field(default_factory=dict)

    @classmethod
    def held(cls, studies: Sequence[StudyRecord], held: Mapping[Place, SeedRecord]) -> Floors:
        """Take what earlier runs have measured from their records."""
        floors, records = cls(), {record.name: record for record in studies}
        settings = {(study, number) for study, number, _ in held}
        models = {(study, number): _untrained(cell_of(records[study], number)[0]) for study, number in settings}
        for (study, number, seed), kept in held.items():
            if kept.outcome == "ok":
                lower = {n: _Floor(a.r_lower, a.noise) for n, a in kept.attacks.items() if a.r_lower is not None}
                floors.known[models[study, number], seed] = lower
        return floors

    def owed(self, jobs: Sequence[Job]) -> list[Cell]:
        """Return what must be measured before these jobs: a cell a model, with the seeds that are not known."""
        seeds: dict[str, tuple[Cell, dict[int, None]]] = {}
        for job in jobs:
            model = _untrained(job.cell)
            _, asked = seeds.setdefault(model, (job.cell, {}))
            asked.update({s: None for s in job.cell.seeds if (model, s) not in self.known})
        return [cell.model_copy(update={"seeds": tuple(sorted(asked))}) for cell, asked in seeds.values() if asked]

    def learn(self, cell: Cell, references: References) -> None:
        """Take what was measured for a cell."""
        model = _untrained(cell)
        for i, seed in enumerate(cell.seeds):
            self.known[model, seed] = {
                name: _Floor(values[i], references.noise[name][i] if name in references.noise else None)
                for name, values in references.r_lower.items()
            }

    def of(self, cell: Cell) -> References:
        """Return what the attacks of a cell are compared with."""
        model = _untrained(cell)
        by_seed = [self.known[model, seed] for seed in cell.seeds]
        lower = {name: [seen[name].r_lower for seen in by_seed] for name in by_seed[0]}
        noise = {name: [n for seen in by_seed if (n := seen[name].noise) is not None] for name in by_seed[0]}
        return References(r_lower=lower, noise={n: v for n, v in noise.items() if len(v) == len(by_seed)})


def _untrained(cell: Cell) -> str:
    """Return everything of a cell that is there before the training: data, model as it is built, attacks, threat."""
    later = {"training": Training(), "defense": "none", "fixed": {}, "trial_minutes": None, "seeds": ()}
    return cell.model_copy(update=later).model_dump_json()
