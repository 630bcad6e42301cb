"""Studies and campaigns of a ledger: opened by name, and read by queries."""

from __future__ import annotations

from os import PathLike

from sqlalchemy import ColumnElement, Connection, select

from tune_vfl.errors import StudyError
from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.lease import Holder, lease_of
from tune_vfl.ledger.names import names_in, parts_of, refuse_unknown
from tune_vfl.ledger.schema import campaigns, studies, trials
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trials import overdue, trials_of
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import Campaign, CampaignRecord, Part, PlannedCampaign
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.rows import CampaignRow, StudyRow, TrialRow
from tune_vfl.records.studies import StudyRecord, TrialRecord
from tune_vfl.samplers.base import listed_points
from tune_vfl.spaces.space import Space
from tune_vfl.spec import StudySpec
from tune_vfl.spec.cell import Cell, References


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
    def references(self) -> References | None:
        """The attacks' reference scores; None before they were measured."""
        return self.row().reference_scores

    @property
    def reference_point(self) -> tuple[float, float] | None:
        """``(utility, leakage)`` for the hypervolume; None before it was measured."""
        return self.row().reference_point

    @property
    def baseline(self) -> Outcome | None:
        """The undefended model's outcome; None before it was measured."""
        return self.row().baseline

    @property
    def cost(self) -> float | None:
        """The ratio of the training's CPU time to the undefended one's; None before it was measured."""
        return self.row().cost

    @property
    def code(self) -> list[dict[str, str]] | None:
        """The digests of the source files that measured it, a mapping a version, the latest last; None without any."""
        mine = select(studies.c.code).where(studies.c.name == self.study.name)
        found: list[dict[str, str]] | None = self.place.read(lambda connection: connection.execute(mine).scalar_one())
        return found

    def trials(self) -> list[TrialRow]:
        """Return all trials, by number."""
        return self.place.read(lambda connection: trials_of(self.study.name, connection))

    def running(self, *conditions: ColumnElement[bool]) -> list[TrialRow]:
        """Return the trials without an outcome, by number; of them those that meet further conditions."""
        among = trials.c.outcome.is_(None), *conditions
        return self.place.read(lambda connection: trials_of(self.study.name, connection, *among))

    def record(self) -> StudyRecord:
        """Return the current record of the study."""
        while self._settled in self._records:
            self._settled += 1

        def ask(connection: Connection) -> tuple[StudyRow, list[TrialRow]]:
            new = trials_of(self.study.name, connection, trials.c.number >= self._settled)
            return self._ask(connection), new

        row, new = self.place.read(ask)
        for trial in new:
            if trial.result is not None and trial.number not in self._records:
                self._records[trial.number] = trial.record(self.cell.fixed)
        running = sum(trial.result is None for trial in new)
        records = [self._records[number] for number in sorted(self._records)]
        counted = sum(record.outcome.outcome != "preempted" for record in records)
        waiting = int(min(row.trials, self.most())) - counted - running
        return row.record(self.study, records, running=running, waiting=waiting)

    def most(self) -> float:
        """Return the number of different points of the space; infinite with a float range."""
        listed = listed_points(self.spec.sampler.name, self.space, self.spec.budget.trials, self.study.first)
        return self.space.size if listed is None else len(listed)

    def row(self) -> StudyRow:
        """Query the study's row."""
        return self.place.read(self._ask)

    def _ask(self, connection: Connection) -> StudyRow:
        wanted = select(*(studies.c[name] for name in StudyRow.model_fields)).where(studies.c.name == self.study.name)
        row = connection.execute(wanted).mappings().one_or_none()
        if row is None:
            raise StudyError(f"study {self.study.name!r} is not in the ledger any more: it was removed")
        return StudyRow.model_validate(dict(row))


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
        return self._campaign(self._row(), tuple(part.study for part in self.parts()))

    def holder(self) -> tuple[Holder | None, str]:
        """Return who runs it, and in words that it was not heard of for a while; empty while all is well.

        Without one no trial of it runs, although the ledger has no end of some.
        """
        name = self.parts()[0].study.experiment

        def look(connection: Connection) -> tuple[Holder | None, str]:
            holder, clock = lease_of(name, connection), self.place.clock(connection)
            return (holder, holder.unheard(clock)) if holder.stands(clock) else (None, "")

        return self.place.read(look)

    def record(self, held: bool | None = None) -> CampaignRecord:
        """Return the current record; one study gives a campaign of one.

        Args:
            held: whether a process runs it, from a caller who has asked already.
        """
        row, parts = self._row(), tuple(part.record() for part in self.parts())
        if any(part.running for part in parts) and not (self.holder()[0] if held is None else held):
            parts = tuple(part.with_trials(()) for part in parts)  # what ran when it was left is asked again
        return self._campaign(row, parts)

    def _campaign(self, row: CampaignRow | None, parts: tuple[Part, ...]) -> Campaign[Part]:
        if row is None:
            return Campaign.of(parts[0])
        return Campaign(self.name, parts, row.trials, row.spec, row.skipped, row.confirmation)

    def overdue(self) -> dict[str, list[int]]:
        """Return the trials without an end that exceed their timeout, by study; they run while a process holds it."""
        limited = [part for part in self.parts() if part.cell.trial_minutes is not None]
        late = {part.study.name: overdue(part.running(), part.cell.trial_minutes) for part in limited}
        return {name: numbers for name, numbers in late.items() if numbers}

    def _row(self) -> CampaignRow | None:
        wanted = select(campaigns).where(campaigns.c.name == self.name)
        row = self.place.read(lambda connection: connection.execute(wanted).mappings().one_or_none())
        return None if row is None else CampaignRow.model_validate(dict(row))


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

    def ask(connection: Connection) -> PlannedStudy:
        row = connection.execute(select(studies).where(studies.c.name == name)).mappings().one_or_none()
        if row is not None:
            return PlannedStudy.read(dict(row))
        refuse_unknown(connection, name, place.shown)
        parts = ", ".join(parts_of(connection, name))
        raise StudyError(f"{name!r} is a campaign of the studies {parts}: name one of them")

    return place.read(ask)
