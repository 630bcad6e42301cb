"""The ledger: one Optuna study in one database, the only record of what was asked, what came back and why.

What is asked next is decided elsewhere (:mod:`tune_vfl.search.proposals`). Every asked trial is written, with its
parameters and its owner in one transaction, before anybody works on it; so a kill at any moment loses no more than
the work in flight.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tune_vfl.ledger import opening
from tune_vfl.ledger.confirmations import Confirmations
from tune_vfl.ledger.finite import clean
from tune_vfl.ledger.held import HeldStudy
from tune_vfl.ledger.joint import keep_joint_answer
from tune_vfl.ledger.owner import end_session, new_session, this_owner
from tune_vfl.ledger.rows import TrialRows
from tune_vfl.ledger.storage import storage_at
from tune_vfl.ledger.trials import not_repeated, params_of, repeats, session_of
from tune_vfl.ledger.writing import End, TrialWriter
from tune_vfl.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from tune_vfl.ledger.campaigns import PlannedCampaign
    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.joint import JointConfirmation
    from tune_vfl.ledger.lease import Lease
    from tune_vfl.ledger.planned import PlannedStudy
    from tune_vfl.ledger.records import TrialRecord
    from tune_vfl.spec.cell import References

# A trial whose worker died this often is not asked again: it ends as an error.
MAX_WORKER_LOSSES = 3
# So is one whose machine went away so often: it may be what takes the machine down.
MAX_NODE_LOSSES = 10

# Who was lost with a trial: the driver that asked it; its worker, which it may have killed itself; the machine that it
# ran on; or a pack that did not fit into memory as a whole.
Lost = Literal["driver", "worker", "node", "memory"]


class NewTrial(NamedTuple):
    """A trial that is about to be run.

    Attributes:
        params: the searched parameters.
        retry_of: the lost trial that it repeats.
        sampler_attrs: what the sampler wants to remember of it.
    """

    params: dict[str, Any]
    retry_of: int | None = None
    sampler_attrs: Mapping[str, Any] | None = None


class Ledger(HeldStudy):
    """One study's ledger, open in this process.

    Use :meth:`create_or_open` to run a study and :meth:`open` to go on with one;
    :class:`tune_vfl.ledger.reading.ReadStudy` only reads one.

    Attributes:
        study: what it is of, as the ledger holds it.
        confirmations: what of it was measured again with fresh seeds.
        place: where it is held.
        session: this run of the process, whose trials are not lost while it lives.
    """

    def __init__(
        self, place: LedgerStorage, storage: BaseStorage, study_id: int, study: PlannedStudy, lease: Lease | None
    ) -> None:
        super().__init__(study, TrialRows(place, study_id))
        self._storage = storage
        self._writer = TrialWriter(storage, study_id, lease)
        self._study_id = study_id
        self.confirmations = Confirmations(storage, study_id)
        self.place = place
        self.session = new_session()

    @classmethod
    def create_or_open(cls, study: PlannedStudy, place: LedgerStorage, lease: Lease | None = None) -> Ledger:
        """Open this study, or make it.

        Args:
            study: what it is of.
            place: the database.
            lease: the study's, without which others might make or write it at the same time.

        Raises:
            StudyError: when a study of this name exists with another spec; the message lists what differs.
            UnreachableError: when the database does not answer.
        """
        storage = place.open(lease)
        return cls(place, storage, *opening.create_or_open(storage, study.as_held()), lease)

    @classmethod
    def of_campaign(cls, campaign: PlannedCampaign, place: LedgerStorage, lease: Lease) -> list[Ledger]:
        """Open all studies of a campaign, or make them; a lone study is one of one part.

        Args:
            campaign: what they are of.
            place: the database.
            lease: the campaign's.

        Raises:
            StudyError: when a name is taken by something else; nothing is written then.
            UnreachableError: when the database does not answer.
        """
        storage = place.open(lease)
        opening.refuse_others(storage, campaign.studies)
        if not campaign.lone:
            opening.keep_campaign(storage, campaign)
        opened = [opening.create_or_open(storage, study.as_held()) for study in campaign.studies]
        return [cls(place, storage, study_id, study, lease) for study_id, study in opened]

    @classmethod
    def open(cls, name: str, storage: str | None = None, lease: Lease | None = None) -> Ledger:
        """Open a study that exists.

        Args:
            name: its name.
            storage: the database, see :func:`tune_vfl.ledger.storage.storage_at`.
            lease: the study's, to write it; None opens it to read.

        Raises:
            StudyError: when there is none of this name; the message names the nearest.
        """
        place = storage_at(storage)
        opened = place.open(lease)
        return cls(place, opened, *opening.find(opened, name, place.shown), lease)

    @classmethod
    def open_all(cls, names: Iterable[str], place: LedgerStorage, lease: Lease) -> dict[str, Ledger]:
        """Open studies that exist, to write them with one lease: the parts of a campaign, or a lone study.

        Raises:
            StudyError: when there is none of a name.
        """
        opened = place.open(lease)
        return {name: cls(place, opened, *opening.find(opened, name, place.shown), lease) for name in names}

    def close(self) -> None:
        """End this session: what it has left running counts as lost from now on."""
        end_session(self.session)
        self._storage.remove_session()

    def extend(self, trials: int) -> None:
        """Set the budget of finished trials."""
        self._set("trials", trials)

    def keep_joint_answer(self, answer: JointConfirmation) -> None:
        """Keep the answer of a confirmation of the campaign that this study is a part of."""
        keep_joint_answer(self._storage, self._campaign_id, answer)

    @property
    def _campaign_id(self) -> int:
        return self._storage.get_study_id_from_name(self.study.campaign)

    def set_references_and_reference_point(self, references: References, reference_point: tuple[float, float]) -> None:
        """Keep what is measured once a study: what attacks are compared with, and the point for the hypervolume."""
        self._set("reference_point", list(reference_point))
        self._set("references", references.model_dump(mode="json"))

    def set_baseline(self, outcome: Outcome) -> None:
        """Keep the undefended model's outcome."""
        self._set("baseline", clean(outcome).model_dump(mode="json"))

    def set_cost(self, cost: float) -> None:
        """Keep the training's CPU over the undefended one's."""
        self._set("cost", cost)

    def _attrs(self) -> dict[str, Any]:
        return self._storage.get_study_user_attrs(self._study_id)

    def _set(self, key: str, value: Any) -> None:
        self._storage.set_study_user_attr(self._study_id, key, value)

    def trials(self) -> list[FrozenTrial]:
        """Return all trials as Optuna holds them, by number; not copies."""
        return self._storage.get_all_trials(self._study_id, deepcopy=False)

    def begin(self, params: dict[str, Any], *, pack: str = "", **known: Any) -> int:
        """Write a trial as running and return its number; ``known`` are the other fields of a :class:`NewTrial`."""
        return self.begin_together([NewTrial(params, **known)], pack)[0]

    def begin_together(self, trials: Sequence[NewTrial], pack: str = "") -> list[int]:
        """Write trials as running, with everything that is known of them, in one transaction.

        Args:
            trials: what is run.
            pack: the pack that they run in.

        Returns:
            Their numbers.
        """
        from optuna.trial import TrialState, create_trial

        marks = {"owner": this_owner(self.session), "pack": pack, "asked": time.time()}
        distributions = self.space.distributions()
        return self._writer.make(
            [
                create_trial(
                    state=TrialState.RUNNING,
                    params=new.params,
                    distributions=distributions,
                    user_attrs=marks if new.retry_of is None else {**marks, "retry_of": new.retry_of},
                    system_attrs=dict(new.sampler_attrs or {}),
                )
                for new in trials
            ]
        )

    def tell(self, number: int, outcome: Outcome, lost: Lost | None = None) -> TrialRecord | None:
        """Finish a trial as :meth:`tell_together` does; None when it was finished before, which changes nothing."""
        told = self.tell_together({number: outcome}, lost)
        return told[0] if told else None

    def tell_together(self, outcomes: Mapping[int, Outcome], lost: Lost | None = None) -> list[TrialRecord]:
        """Finish trials, in one transaction. Only ``ok`` becomes COMPLETE, with (utility, leakage); all else is FAIL.

        Args:
            outcomes: how they ended, by their numbers; what is not finite is kept out, see
                :func:`tune_vfl.ledger.finite.clean`.
            lost: who died, for preempted trials.

        Returns:
            The records, by number, of those that were not finished before.
        """
        ends = {number: _end(clean(outcome), lost) for number, outcome in outcomes.items()}
        return [self._record(trial) for trial in self._rows.ended(self._writer.finish(ends))]

    def lose(
        self, number: int, lost: Lost, reason: str, *, ends_as: Literal["error", "oom"] = "error"
    ) -> TrialRecord | None:
        """Finish a trial whose process died: ``preempted``, or ``ends_as`` when its worker has died too often."""
        before = repeats(self.trials(), number)
        losses = 1 + sum(t.user_attrs.get("lost") == lost for t in before)
        if losses >= {"worker": MAX_WORKER_LOSSES, "node": MAX_NODE_LOSSES}.get(lost, math.inf):
            return self.tell(number, Outcome.failed(ends_as, f"{reason} ({losses} times with these parameters)"), lost)
        return self.tell(number, Outcome.failed("preempted", reason), lost)

    def recover(self) -> list[TrialRecord]:
        """Finish every running trial of another session; call it with the study's lease held, which no other has then.

        A trial whose outcome was written already is finished with it, any other is lost and will be asked again.
        """
        from optuna.trial import TrialState

        finished = []
        for trial in self.trials():
            if trial.state not in (TrialState.RUNNING, TrialState.WAITING) or session_of(trial) == self.session:
                continue
            told = trial.user_attrs.get("outcome")
            record = (
                self.lose(trial.number, "driver", "the search was stopped before it answered")
                if told is None
                else self.tell(trial.number, Outcome.model_validate(told))
            )
            finished += [record] if record else []
        return finished

    def owed_retries(self) -> list[FrozenTrial]:
        """Return the lost trials that have not been asked again, by number."""
        return [t for t in not_repeated(self.trials()) if self.space.holds(params_of(t))]


def _end(outcome: Outcome, lost: Lost | None) -> End:
    """Return how a trial ended as Optuna's tables hold it."""
    from optuna.trial import TrialState

    attrs = {"outcome": outcome.model_dump_json()} | ({"lost": json.dumps(lost)} if lost else {})
    if outcome.outcome == "ok":
        return End(TrialState.COMPLETE, outcome.objectives, attrs)
    return End(TrialState.FAIL, (), attrs)


def study_names(storage: str | None = None) -> Sequence[str]:
    """Return the names of all studies in a ledger, sorted."""
    return opening.names(storage_at(storage).open())
