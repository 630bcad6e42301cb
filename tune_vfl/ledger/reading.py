"""Reading of studies and campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from sqlalchemy import Connection, select

from tune_vfl.errors import StudyError
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.names import campaign_names, names_in, nowhere, parts_of
from tune_vfl.ledger.schema import campaigns, studies, trials
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trials import Trial, overdue, trials_of
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord, PlannedCampaign, Skipped
from tune_vfl.records.confirmations import Confirmation
from tune_vfl.records.joint_confirmation import JointConfirmation
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.samplers.base import listed_points
from tune_vfl.spaces.space import Space
from tune_vfl.spec import StudySpec
from tune_vfl.spec.cell import Cell, References

# The columns that a run fills; the other ones hold the plan.
_KNOWN = [
    studies.c[name] for name in ("trials", "reference_scores", "reference_point", "baseline", "cost", "confirmation")
]


class StudyReader:
    """Reader of one study: every call queries the ledger; finished trials are cached."""

    def __init__(self, place: LedgerStorage, study: PlannedStudy) -> None:
        self.place, self.study = place, study
        self._records: dict[int, TrialRecord] = {}
        self._settled = 0  # all trials before this number have ended and are among the records

    @property
    def spec(self) -> StudySpec:
        """The spec as the user gave it."""
        return self.study.spec

    @property
    def cell(self) -> Cell:
        """The resolved spec."""
        return self.study.cell

    @property
    def space(self) -> Space:
        """The search space, as planned."""
        return self.study.space

    @property
    def budget(self) -> int:
        """The number of finished trials at which the study ends."""
        return int(self._known()["trials"])

    @property
    def references(self) -> References | None:
        """The attacks' reference scores; None before they were measured."""
        return _references(self._known())

    @property
    def reference_point(self) -> tuple[float, float] | None:
        """``(utility, leakage)`` for the hypervolume; None before it was measured."""
        return _reference_point(self._known())

    @property
    def baseline(self) -> Outcome | None:
        """The undefended model's outcome; None before it was measured."""
        return _baseline(self._known())

    @property
    def cost(self) -> float | None:
        """The ratio of the training's CPU time to the undefended one's; None before it was measured."""
        cost: float | None = self._known()["cost"]
        return cost

    def trials(self) -> list[Trial]:
        """Return all trials, by number."""
        return self.place.read(lambda connection: trials_of(self.study.name, connection))

    def running(self) -> list[Trial]:
        """Return the trials without an outcome, by number."""
        return self.place.read(lambda connection: trials_of(self.study.name, connection, trials.c.outcome.is_(None)))

    def record(self) -> StudyRecord:
        """Return the current record of the study."""
        self._settle()

        def ask(connection: Connection) -> tuple[Mapping[str, Any], list[Trial]]:
            new = trials_of(self.study.name, connection, trials.c.number >= self._settled)
            return self._ask(connection), new

        row, new = self.place.read(ask)
        for trial in new:
            if trial.outcome is not None and trial.number not in self._records:
                self._records[trial.number] = trial.record(self.cell.fixed)
        running = sum(trial.outcome is None for trial in new)
        records = tuple(self._records[number] for number in sorted(self._records))
        counted = sum(record.outcome.outcome != "preempted" for record in records)
        references = _references(row)
        return StudyRecord(
            spec=self.spec,
            cell=self.cell,
            baseline=_baseline(row),
            reference_point=_reference_point(row) or (0.0, 1.0),
            trials=records,
            running=running,
            waiting=max(0, int(min(int(row["trials"]), self.most())) - counted - running),
            measure=self.study.measure,
            confirmation=_confirmation(row),
            alone=tuple(references.alone) if references else (),
            cost=row["cost"],
            coverage=self.study.coverage,
            data=self.study.data,
            id=self.study.id,
        )

    def most(self) -> float:
        """Return the number of different points of the space; infinite with a float range."""
        listed = listed_points(self.spec.sampler.name, self.space, self.spec.budget.trials)
        return self.space.size if listed is None else len(listed)

    def _settle(self) -> None:
        while self._settled in self._records:
            self._settled += 1

    def _known(self) -> Mapping[str, Any]:
        """Query the measured values of the study."""
        return self.place.read(self._ask)

    def _ask(self, connection: Connection) -> Mapping[str, Any]:
        row = connection.execute(select(*_KNOWN).where(studies.c.name == self.study.name)).mappings().one_or_none()
        if row is None:
            raise StudyError(f"study {self.study.name!r} is not in the ledger any more: it was removed")
        return dict(row)


class StoredStudy:
    """A study in a ledger, or all studies of a campaign; every call queries the ledger.

    Args:
        place: the ledger.
        name: of the study or the campaign.
        stopped: whether a search has just been stopped before the budget was used up.

    Raises:
        StudyError: when there is nothing of this name; the message names the nearest.
        UnreachableError: when the database does not answer.
    """

    def __init__(self, place: LedgerStorage, name: str, *, stopped: bool = False) -> None:
        self.name, self.place, self.stopped = name, place, stopped
        self._parts: dict[str, StudyReader] = {}
        self.parts()

    @property
    def storage(self) -> str:
        """The URL of the ledger's database."""
        return self.place.url

    def parts(self) -> list[StudyReader]:
        """Return the studies of a campaign in the order of its spec; of any other name the one study."""
        names = self.place.read(lambda connection: parts_of(connection, self.name)) or [self.name]
        self._parts = {n: self._parts.get(n) or StudyReader(self.place, find(self.place, n)) for n in names}
        return list(self._parts.values())

    @property
    def campaign(self) -> str:
        """The campaign of its studies; empty where they belong to none."""
        return self.parts()[0].study.campaign

    def plan(self) -> PlannedCampaign:
        """Return the plan of its search."""
        row, studies = self._row(), tuple(part.study for part in self.parts())
        if row is None:
            return PlannedCampaign.of(studies[0])
        return PlannedCampaign(self.name, row["spec"], studies, _skipped(row), int(row["trials"]))

    def record(self) -> CampaignRecord:
        """Return the current record; one study gives a campaign of one."""
        row, parts = self._row(), tuple(part.record() for part in self.parts())
        if row is None:
            return CampaignRecord.of(parts[0])
        confirmation = row["confirmation"]
        return CampaignRecord(
            name=self.name,
            studies=parts,
            trials=int(row["trials"]),
            constraints=row["spec"].get("constraints") or {},
            confidence=float(row["spec"].get("confidence", parts[0].spec.confidence)),
            skipped=_skipped(row),
            confirmation=None if confirmation is None else JointConfirmation.model_validate(confirmation),
        )

    def overdue(self) -> dict[str, list[int]]:
        """Return the running trials that exceed their timeout, by study; studies without one are left out."""
        limited = [part for part in self.parts() if part.cell.trial_minutes is not None]
        late = {part.study.name: overdue(part.running(), part.cell.trial_minutes) for part in limited}
        return {name: numbers for name, numbers in late.items() if numbers}

    def _row(self) -> Mapping[str, Any] | None:
        wanted = select(campaigns).where(campaigns.c.name == self.name)
        row = self.place.read(lambda connection: connection.execute(wanted).mappings().one_or_none())
        return None if row is None else dict(row)


def open_study(name: str, storage: str | PathLike[str] | None = None) -> StoredStudy:
    """Open a study or a campaign to read it.

    Args:
        name: of the study or the campaign.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when there is nothing of this name; the message names the nearest.
        UnreachableError: when the database does not answer.
    """
    refuse_no_ledger(name, storage)
    return StoredStudy(storage_at(storage), name)


def refuse_no_ledger(name: str, storage: str | PathLike[str] | None = None) -> None:
    """Raise where there is no ledger, and make none.

    Raises:
        StudyError: with the address of the missing ledger.
        UnreachableError: when the database does not answer.
    """
    place = storage_at(storage)
    if not place.exists():
        raise StudyError(
            f"no study {name!r}: there is no ledger at {place.shown} yet; a search makes it, or set TUNE_VFL_HOME or "
            "TUNE_VFL_STORAGE"
        )


def study_names(storage: str | None = None) -> list[str]:
    """Return the names of all studies in a ledger, sorted; those of campaigns are not among them."""
    place = storage_at(storage)
    return place.read(names_in) if place.exists() else []


def find(place: LedgerStorage, name: str) -> PlannedStudy:
    """Return the plan of a study.

    Raises:
        StudyError: when there is none of this name, or it is a campaign's.
    """
    if not place.exists():
        raise StudyError(nowhere(name, [], [], place.shown))

    def ask(connection: Connection) -> PlannedStudy:
        row = connection.execute(select(studies).where(studies.c.name == name)).mappings().one_or_none()
        if row is not None:
            return PlannedStudy.read(dict(row))
        if parts := parts_of(connection, name):
            raise StudyError(f"{name!r} is a campaign of the studies {', '.join(parts)}: name one of them")
        raise StudyError(nowhere(name, names_in(connection), campaign_names(connection), place.shown))

    return place.read(ask)


def _references(row: Mapping[str, Any]) -> References | None:
    raw = row["reference_scores"]
    return None if raw is None else References.model_validate(raw)


def _reference_point(row: Mapping[str, Any]) -> tuple[float, float] | None:
    raw = row["reference_point"]
    return None if raw is None else (float(raw[0]), float(raw[1]))


def _baseline(row: Mapping[str, Any]) -> Outcome | None:
    raw = row["baseline"]
    return None if raw is None else Outcome.model_validate(raw)


def _skipped(row: Mapping[str, Any]) -> tuple[Skipped, ...]:
    return tuple(Skipped(s["study"], s["attack"], tuple(s["problems"])) for s in row["skipped"])


def _confirmation(row: Mapping[str, Any]) -> Confirmation | None:
    raw = row["confirmation"]
    return None if raw is None else Confirmation.model_validate(raw)
