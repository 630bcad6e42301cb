"""Batching of a confirmation's trainings: settings and seeds that train in one pass form a job.

The batches affect the speed and the work lost by a kill, never a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_vfl.driver.undefended import undefended
from tune_vfl.execution.pack_sizes import LANES, shortened
from tune_vfl.records.confirmations import UNDEFENDED, SeedRecord
from tune_vfl.records.joint_confirmation import Setting
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named
from tune_vfl.spec.cell import Cell, References
from tune_vfl.spec.study import Training

ALWAYS = ("matched_filter",)
"""The attack added to every confirmation of attacks on labels: no other one breaks some kinds of noise."""

Place = tuple[str, int, int]
"""A study's name, a trial's number or :data:`UNDEFENDED`, and a seed."""


@dataclass(frozen=True)
class Job:
    """Settings of one study with equal training and seeds, run by one call.

    Attributes:
        study: its name.
        cell: the evaluation settings, with the seeds and the test rows of a report.
        numbers: the trials.
        params: the defense's parameters of each trial.
        training: the study's own, with which its floors are measured: its settings share them.
    """

    study: str
    cell: Cell
    numbers: tuple[int, ...]
    params: tuple[Mapping[str, Any], ...]
    training: Training

    @property
    def of_floors(self) -> Cell:
        """The evaluation settings of its floors."""
        return self.cell.model_copy(update={"training": self.training})

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The trials as pairs of a study and a number."""
        return tuple((self.study, number) for number in self.numbers)

    def parts(self, settings: Sequence[Setting], most: int) -> list[Job]:
        """Return jobs of at most ``most`` of these settings, for a retry after a worker failed."""
        of = {
            number: p for number, p in zip(self.numbers, self.params, strict=True) if (self.study, number) in settings
        }
        cuts = [list(of)[k : k + most] for k in range(0, len(of), most)]
        return [replace(self, numbers=tuple(cut), params=tuple(of[n] for n in cut)) for cut in cuts]


def cell_of(record: StudyRecord, number: int) -> tuple[Cell, dict[str, Any]]:
    """Return the evaluation settings of a confirmation, without seeds, and the parameters of the trial's defense.

    Collusion of passive parties is no part of a leakage and is not measured. No attack is left out; attacks that read
    all epochs together are added, also where the search did not run them.
    """
    given = next((t.params for t in record.trials if t.number == number), {})
    cell, params = (undefended(record.cell), {}) if number == UNDEFENDED else record.cell.with_params(given)
    threat = cell.threat.model_copy(update={"parties": "each"})
    attacks = (*cell.attacks, *_added(cell))
    of_all = {"rows": "report", "seeds": (), "threat": threat, "attacks": attacks, "spare": ()}
    return cell.model_copy(update=of_all), params


def _added(cell: Cell) -> list[Named]:
    """Return the attacks that a confirmation adds to attacks on labels in a vertical federation."""
    from tune_vfl.attacks.base import ATTACKS

    listed = {a.name for a in cell.attacks}
    if cell.federation.horizontal:
        return []
    if all(ATTACKS[name].capabilities.goal != "labels" for name in listed):
        return []
    return [Named(name=n, **ATTACKS[n]().params.model_dump()) for n in ALWAYS if n not in listed]


def undefended_of(studies: Sequence[StudyRecord]) -> dict[str, str]:
    """Return, by study, the first study with the same undefended model, which records it.

    Undefended models are the same if data set, initial model, training and attacks are.
    """
    first: dict[str, str] = {}
    models = {record.name: cell_of(record, UNDEFENDED)[0].model_dump_json() for record in studies}
    return {name: first.setdefault(model, name) for name, model in models.items()}


def cut(
    studies: Sequence[StudyRecord], places: Sequence[Place], *, workers: int, stacks: Callable[[Setting], bool]
) -> list[Job]:
    """Split trainings into jobs.

    Args:
        studies: the studies of these places.
        places: studies, trials and seeds.
        workers: the number of parallel jobs; a job is small enough to leave one for each.
        stacks: returns whether a setting's networks train in one pass; settings of equal training agree.
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
        jobs += _jobs(study, together, settings, most, records[study].cell.training)
    return jobs


def _jobs(
    study: str,
    asked: Sequence[int],
    settings: Sequence[tuple[int, Cell, dict[str, Any]]],
    most: int,
    training: Training,
) -> Iterator[Job]:
    """Yield jobs of at most ``most`` networks for settings of equal training and seeds."""
    for seeds in _parts(asked, most):
        together = max(1, most // len(seeds))
        for k in range(0, len(settings), together):
            numbers, cells, params = zip(*settings[k : k + together], strict=True)
            yield Job(study, cells[0].model_copy(update={"seeds": seeds}), numbers, params, training)


def _lanes(record: StudyRecord) -> int:
    """Return the number of networks in a job: at most one pass, and at most ten minutes of training."""
    seconds = [sum(t.outcome.seconds.values()) for t in record.ok]
    return shortened(LANES, sum(seconds) / max(1, len(seconds)) / len(record.cell.seeds))


def _parts(seeds: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Split seeds into the fewest equal parts of at most ``most`` each."""
    count = -(-len(seeds) // most)
    size = -(-len(seeds) // count)
    return [tuple(seeds[k : k + size]) for k in range(0, len(seeds), size)]


@dataclass
class Floors:
    """Reference scores of attacks by model and seed, shared by all settings of a model.

    Attributes:
        known: of each model (see :func:`without_seeds`) and seed.
    """

    known: dict[tuple[str, int], References] = field(default_factory=dict)

    @classmethod
    def held(cls, studies: Sequence[StudyRecord], held: Mapping[Place, SeedRecord]) -> Floors:
        """Load the floors of earlier runs from their records."""
        floors, records = cls(), {record.name: record for record in studies}
        own = {name: {"training": record.cell.training} for name, record in records.items()}
        settings = {(study, number) for study, number, _ in held}
        models = {(s, n): without_seeds(cell_of(records[s], n)[0].model_copy(update=own[s])) for s, n in settings}
        for (study, number, seed), kept in held.items():
            if kept.outcome == "ok":
                floors.known[models[study, number], seed] = kept.references
        return floors

    def owed(self, jobs: Sequence[Job]) -> list[Cell]:
        """Return the floors to measure before these jobs: a cell per model, with the missing seeds."""
        seeds: dict[str, tuple[Cell, dict[int, None]]] = {}
        for job in jobs:
            model = without_seeds(job.of_floors)
            _, asked = seeds.setdefault(model, (job.of_floors, {}))
            asked.update({s: None for s in job.cell.seeds if (model, s) not in self.known})
        return [cell.model_copy(update={"seeds": tuple(sorted(asked))}) for cell, asked in seeds.values() if asked]

    def learn(self, cell: Cell, references: References) -> None:
        """Add a cell's measured floors."""
        model = without_seeds(cell)
        for i, seed in enumerate(cell.seeds):
            self.known[model, seed] = references.at(i)

    def of(self, job: Job) -> References:
        """Return the floors of a job's attacks."""
        model = without_seeds(job.of_floors)
        return References.joined([self.known[model, seed] for seed in job.cell.seeds])


def without_seeds(cell: Cell) -> str:
    """Return a key of a model and its attacks as no defense has touched it: the cell without defense and seeds."""
    later: dict[str, Any] = {"defense": "none", "fixed": {}, "trial_minutes": None, "seeds": ()}
    return cell.model_copy(update=later).model_dump_json()
