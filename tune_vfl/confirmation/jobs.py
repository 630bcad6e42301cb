"""Batching of a confirmation's trainings: settings and seeds that train in one pass form a job, with their floors.

The batches affect the speed and the work lost by a kill, never a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tune_vfl.driver.undefended import undefended
from tune_vfl.evaluation.references import key_of_references
from tune_vfl.execution.jobs import Job
from tune_vfl.execution.pack_sizes import LANES, shortened
from tune_vfl.ledger.confirmation_store import Place
from tune_vfl.records.answers import SettingKey
from tune_vfl.records.confirmations import UNDEFENDED, SeedRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named
from tune_vfl.spec.cell import Cell, References

ALWAYS = ("matched_filter",)
"""The attack added to every confirmation of attacks on labels: no other one breaks some kinds of noise."""


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
    """Return the attacks that a confirmation adds to attacks on labels, as far as they are for this federation."""
    from tune_vfl.attacks.base import ATTACKS

    listed = {a.name for a in cell.attacks}
    if all(ATTACKS[name].capabilities.goal != "labels" for name in listed):
        return []
    fit = [n for n in ALWAYS if cell.federation.name in ATTACKS[n].capabilities.federations]
    return [Named(name=n, **ATTACKS[n]().params.model_dump()) for n in fit if n not in listed]


def undefended_of(studies: Sequence[StudyRecord]) -> dict[str, str]:
    """Return, by study, the first study with the same undefended model, which records it.

    Undefended models are the same if data set, initial model, training and attacks are.
    """
    first: dict[str, str] = {}
    models = {record.name: cell_of(record, UNDEFENDED)[0].model_dump_json() for record in studies}
    return {name: first.setdefault(model, name) for name, model in models.items()}


def cut(
    studies: Sequence[StudyRecord], places: Sequence[Place], *, workers: int, stacks: Callable[[SettingKey], bool]
) -> list[Job]:
    """Split trainings into jobs of settings of one study with equal training and seeds.

    Args:
        studies: the studies of these places.
        places: studies, trials and seeds.
        workers: the number of parallel jobs; a job is small enough to leave one for each.
        stacks: returns whether a setting's networks train in one pass; settings of equal training agree.
    """
    records = {record.name: record for record in studies}
    seeds: dict[SettingKey, list[int]] = {}
    for study, number, seed in places:
        seeds.setdefault((study, number), []).append(seed)
    alike: dict[tuple[str, str, tuple[int, ...]], Job] = {}
    for setting, asked in seeds.items():
        study, number = setting
        cell, params = cell_of(records[study], number)
        kind = study, cell.model_dump_json(), tuple(asked)
        job = alike.setdefault(kind, Job(cell, records[study].data, {}, minutes=cell.trial_minutes))
        alike[kind] = replace(job, settings={**job.settings, setting: params})
    share = -(-len(places) // workers)
    jobs: list[Job] = []
    for (study, _, together), job in alike.items():
        most = min(_lanes(records[study]), share) if stacks(next(iter(job.settings))) else 1
        jobs += _jobs(job, together, most)
    return jobs


def _jobs(job: Job, asked: Sequence[int], most: int) -> Iterator[Job]:
    """Yield jobs of at most ``most`` networks for the settings of a job, with these seeds in the fewest equal parts."""
    size = -(-len(asked) // -(-len(asked) // most))
    for k in range(0, len(asked), size):
        seeds = tuple(asked[k : k + size])
        of_seeds = replace(job, cell=job.cell.model_copy(update={"seeds": seeds}))
        yield from of_seeds.parts(list(job.settings), max(1, most // len(seeds)))


def _lanes(record: StudyRecord) -> int:
    """Return the number of networks in a job: at most one pass, and at most ten minutes of training."""
    seconds = [sum(t.outcome.seconds.values()) for t in record.ok]
    return shortened(LANES, sum(seconds) / max(1, len(seconds)) / len(record.cell.seeds))


class Floors:
    """Reference scores of attacks by model and seed, shared by all settings of a model.

    Settings that search their training share the floors of their study's own.

    Args:
        studies: of a campaign.
        held: records of earlier runs, of which the floors are taken.

    Attributes:
        known: of each model (see :func:`key_of_references`) and seed.
    """

    def __init__(self, studies: Sequence[StudyRecord], held: Mapping[Place, SeedRecord]) -> None:
        self.known: dict[tuple[str, int], References] = {}
        self._own = {record.name: record.cell.training for record in studies}
        records = {record.name: record for record in studies}
        settings = {(study, number) for study, number, _ in held}
        models = {(s, n): key_of_references(self._as_own(s, cell_of(records[s], n)[0])) for s, n in settings}
        for (study, number, seed), kept in held.items():
            if kept.outcome == "ok":
                self.known[models[study, number], seed] = kept.references

    def owed(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the floors to measure before these jobs: a job per model, by its key, with the missing seeds."""
        found: dict[str, tuple[Job, dict[int, None]]] = {}
        for job in jobs:
            cell = self._of(job)
            model = key_of_references(cell)
            _, asked = found.setdefault(model, (Job(cell, job.data, {model: {}}, asks="floors"), {}))
            asked.update({s: None for s in job.cell.seeds if (model, s) not in self.known})
        return [
            replace(job, cell=job.cell.model_copy(update={"seeds": tuple(sorted(asked))}))
            for job, asked in found.values()
            if asked
        ]

    def learn(self, cell: Cell, references: References) -> None:
        """Add a cell's measured floors."""
        model = key_of_references(cell)
        for i, seed in enumerate(cell.seeds):
            self.known[model, seed] = references.at(i)

    def of(self, job: Job) -> References:
        """Return the floors of a job's attacks."""
        model = key_of_references(self._of(job))
        return References.joined([self.known[model, seed] for seed in job.cell.seeds])

    def _of(self, job: Job) -> Cell:
        """Return the evaluation settings of a job's floors."""
        study, _ = next(iter(job.settings))
        return self._as_own(study, job.cell)

    def _as_own(self, study: str, cell: Cell) -> Cell:
        return cell.model_copy(update={"training": self._own[study]})
