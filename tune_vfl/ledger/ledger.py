"""Writable ledger of one study: trials, outcomes, baseline and cost.

A trial is stored with its parameters before it runs, a pack in one transaction, so that a kill loses no more than the
trials that run. Parameters are chosen by :mod:`tune_vfl.driver.proposals`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update

from tune_vfl.ledger.database import LedgerStorage
from tune_vfl.ledger.lease import Lease
from tune_vfl.ledger.making import make_or_find
from tune_vfl.ledger.reading import StudyReader
from tune_vfl.ledger.schema import studies, trials
from tune_vfl.ledger.trials import ending_of, not_repeated, repeats, trials_of
from tune_vfl.machine.process_identity import end_session, new_session
from tune_vfl.outcome import Outcome, drop_non_finite
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.records.measure import other_code, refuse_other_code
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.records.rows import Lost, TrialRow
from tune_vfl.records.studies import TrialRecord
from tune_vfl.spec.cell import References

_ENDING = (
    update(trials)
    .where(trials.c.study == bindparam("of_study"), trials.c.number == bindparam("of_number"))
    .values({name: bindparam(name) for name in ("outcome", "utility", "leakage", "result", "lost", "finished")})
)


class NewTrial(NamedTuple):
    """A trial to be stored as running.

    Attributes:
        params: the searched parameters.
        retry_of: the lost trial that it repeats.
        sampler_attrs: the sampler's own data about it.
    """

    params: dict[str, Any]
    retry_of: int | None = None
    sampler_attrs: Mapping[str, Any] | None = None


class Ledger(StudyReader):
    """The writable ledger of one study.

    :meth:`of_campaign` makes or opens those of a plan.

    Attributes:
        study: its plan, as stored.
        place: the database.
        session: this run of the process; its running trials are not orphans.
    """

    def __init__(self, place: LedgerStorage, study: PlannedStudy, lease: Lease | None) -> None:
        super().__init__(place, study)
        self._lease = lease
        self.session = new_session()

    @classmethod
    def of_campaign(cls, campaign: PlannedCampaign, place: LedgerStorage, lease: Lease | None) -> list[Ledger]:
        """Open all studies of a campaign, or create them.

        Args:
            campaign: its plan.
            place: the database.
            lease: the campaign's; None only where no other process can write it.

        Raises:
            StudyError: when a name is taken by something else, such as a study of another spec, with all that differs;
                nothing is written then.
            UnreachableError: when the database does not answer.
        """
        place.make()
        opened = place.write(lambda connection: make_or_find(connection, campaign), lease)
        return [cls(place, study, lease) for study in opened]

    def close(self) -> None:
        """End this session; trials that it left running are orphans from now on."""
        end_session(self.session)
        self.place.close()

    def set_references_and_reference_point(self, references: References, reference_point: tuple[float, float]) -> None:
        """Store the attacks' reference scores and the hypervolume's reference point, measured once a study."""
        self._set(reference_scores=references.model_dump(mode="json"), reference_point=list(reference_point))

    def set_baseline(self, outcome: Outcome) -> None:
        """Store the undefended model's outcome."""
        self._set(baseline=drop_non_finite(outcome).model_dump(mode="json"))

    def keep_code(self, now: Mapping[str, str], *, accepted: bool = False) -> str:
        """Store the digests of the source files that measure the study from now on.

        Args:
            now: by module, see :func:`tune_vfl.evaluation.code.code_of`.
            accepted: go on although files differ from those that measured it last.

        Returns:
            A note; empty where there is nothing to note.

        Raises:
            StudyError: where files differ and that is not accepted.
        """
        versions = self.code
        differing = other_code(versions, now)
        if not accepted:
            refuse_other_code(self.study.name, differing)
        if differing or versions is None:
            self._set(code=[*(versions or ()), dict(now)])
        if differing:
            return f"{self.study.name}: measured by other code from here on: {', '.join(differing)}"
        old = versions is None and self.record().trials
        return f"{self.study.name}: which code measured its first trials is not known" if old else ""

    def set_cost(self, cost: float) -> None:
        """Store the ratio of the training's CPU time to the undefended one's."""
        self._set(cost=cost)

    def _set(self, **values: Any) -> None:
        change = update(studies).where(studies.c.name == self.study.name).values(values)
        self.place.write(lambda connection: connection.execute(change), self._lease)

    def begin(self, params: dict[str, Any], *, pack: str = "", **known: Any) -> int:
        """Store a trial as running and return its number; ``known`` are the other fields of a :class:`NewTrial`."""
        return self.begin_together([NewTrial(params, **known)], pack)[0].number

    def begin_together(self, new: Sequence[NewTrial], pack: str = "") -> list[TrialRow]:
        """Store trials as running, in one transaction.

        Args:
            new: the trials.
            pack: the pack that they run in.

        Returns:
            The trials as stored, in the same order.
        """
        if not new:
            return []
        count = select(func.count()).select_from(trials).where(trials.c.study == self.study.name)
        alike = {"study": self.study.name, "pack": pack, "asked": time.time()}
        begun: list[TrialRow] = []

        def write(connection: Connection) -> None:
            there = int(connection.execute(count).scalar_one())
            if begun and there > begun[0].number:
                return  # an attempt whose answer was lost has written them: nobody else writes this study
            begun[:] = [
                TrialRow(number=n, params=t.params, retry_of=t.retry_of, sampler=dict(t.sampler_attrs or {}), **alike)
                for n, t in enumerate(new, there)
            ]
            connection.execute(insert(trials), [{**trial.model_dump(), "session": self.session} for trial in begun])

        self.place.write(write, self._lease)
        return begun

    def tell(self, number: int, outcome: Outcome, lost: Lost | None = None) -> TrialRecord | None:
        """Store a trial's outcome; return None and change nothing when it has one already."""
        told = self.tell_together({number: outcome}, lost)
        return told[0] if told else None

    def tell_together(self, outcomes: Mapping[int, Outcome], lost: Lost | None = None) -> list[TrialRecord]:
        """Store outcomes of trials, in one transaction.

        Args:
            outcomes: by trial number; numbers that are not finite are dropped, see
                :func:`tune_vfl.outcome.drop_non_finite`.
            lost: the cause of a preemption.

        Returns:
            The records, by number, of the trials that had no outcome before.
        """
        ends = {number: drop_non_finite(outcome) for number, outcome in outcomes.items()}
        moment, tried = time.time(), dict[int, TrialRow]()

        def write(connection: Connection) -> None:
            among = trials.c.number.in_(list(ends)), trials.c.outcome.is_(None)
            running = {trial.number: trial for trial in trials_of(self.study.name, connection, *among)}
            if tried and not running.keys() & tried.keys():
                return  # an attempt whose answer was lost has finished them
            tried.clear()
            tried.update(running)
            if running:
                connection.execute(_ENDING, [self._ending(n, ends[n], lost, moment) for n in running])

        self.place.write(write, self._lease)
        for number, trial in tried.items():
            self._records[number] = trial.ended(ends[number], moment).record(self.cell.fixed)
        return [self._records[number] for number in tried]

    def _ending(self, number: int, outcome: Outcome, lost: Lost | None, moment: float) -> dict[str, Any]:
        return {
            "of_study": self.study.name,
            "of_number": number,
            **ending_of(outcome),
            "result": outcome.model_dump(mode="json"),
            "lost": lost,
            "finished": moment,
        }

    def lose(self, number: int, lost: Lost, reason: str) -> TrialRecord | None:
        """Store a trial whose process died as ``preempted``, so that it is asked again."""
        return self.tell(number, Outcome.failed("preempted", reason), lost)

    def losses_before(self, number: int, lost: Lost) -> int:
        """Return the number of losses of one kind among the trials that this one repeats, of all runs."""
        repeating = or_(trials.c.retry_of.is_not(None), trials.c.lost.is_not(None), trials.c.number == number)
        chains = select(trials.c.number, trials.c.retry_of, trials.c.lost)
        wanted = chains.where(trials.c.study == self.study.name, repeating)
        rows = self.place.read(lambda connection: connection.execute(wanted).all())
        lost_as = {row.number: row.lost for row in rows}
        return sum(lost_as[before] == lost for before in repeats({row.number: row.retry_of for row in rows}, number))

    def recover(self) -> list[TrialRecord]:
        """Mark the orphans, running trials of other sessions, as lost; requires the study's lease."""
        orphans = [trial.number for trial in self.running(trials.c.session != self.session)]
        lost = (self.lose(number, "driver", "the search was stopped before it answered") for number in orphans)
        return [record for record in lost if record]

    def owed_retries(self) -> list[TrialRow]:
        """Return the lost trials without a retry, by number."""
        return [trial for trial in not_repeated(self.trials()) if self.space.holds(trial.params)]
