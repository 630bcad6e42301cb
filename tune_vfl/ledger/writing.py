"""Making and finishing trials so that a broken connection doubles nothing.

When a connection breaks, nobody knows whether the transaction that was under way has come to its end. Before it is done
again, the database is asked; and before that it is waited for, since it may still be at it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger.trials import session_of
from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState

    from tune_vfl.ledger.database import LedgerStorage
    from tune_vfl.ledger.lease import Lease


class TrialWriter:
    """Writes the trials of one study.

    Args:
        storage: open.
        study_id: the study's.
        lease: what allows to write it; without it nothing is waited for.
    """

    def __init__(self, storage: BaseStorage, study_id: int, lease: Lease | None) -> None:
        self._storage, self._study_id, self._lease = storage, study_id, lease
        self._ids: dict[int, int] = {}

    def make(self, template: FrozenTrial) -> int:
        """Write a trial with everything that is known of it, in one transaction; return its number."""
        session = session_of(template)

        def made() -> int | None:
            self._settle()
            held = self._storage.get_all_trials(self._study_id, deepcopy=False)
            unknown = (t for t in held if session_of(t) == session and t.number not in self._ids)
            return next((t._trial_id for t in unknown), None)

        trial_id = patiently(lambda: self._storage.create_new_trial(self._study_id, template), made)
        number = self._storage.get_trial_number_from_id(trial_id)
        self._ids[number] = trial_id
        return number

    def finish(self, number: int, state: TrialState, values: Sequence[float] | None) -> None:
        """Give a trial its state and values.

        Raises:
            UpdateFinishedTrialError: when it was finished before.
        """
        trial_id = self.id_of(number)

        def finished() -> bool | None:
            self._settle()
            return self._storage.get_trial(trial_id).state.is_finished() or None

        patiently(lambda: self._storage.set_trial_state_values(trial_id, state, values), finished)

    def id_of(self, number: int) -> int:
        """Return the id under which the database has a trial."""
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._ids[number]

    def _settle(self) -> None:
        if self._lease is not None:
            self._lease.settle()


def write_together(place: LedgerStorage, study_id: int, trials: Sequence[FrozenTrial], lease: Lease) -> None:
    """Write all trials of a study that has none yet, in one transaction, which is seven times faster than one by one.

    Args:
        place: the database, Optuna's tables made.
        study_id: the study's.
        trials: by number, from 0 without a gap.
        lease: what allows to write it.
    """
    import sqlalchemy
    from optuna.storages._rdb import models
    from sqlalchemy.orm import Session

    engine = place.for_leases()
    lease.guard(engine)

    def attempt() -> int:
        with Session(engine) as session, session.begin():
            for number, trial in enumerate(trials):
                session.add_all(_rows(models, study_id, number, trial))
        return len(trials)

    def written() -> int | None:
        lease.settle()
        held = sqlalchemy.select(sqlalchemy.func.count()).select_from(models.TrialModel)
        with engine.connect() as connection:
            return connection.execute(held.where(models.TrialModel.study_id == study_id)).scalar_one() or None

    patiently(attempt, written)


def _rows(models: Any, study_id: int, number: int, trial: FrozenTrial) -> list[Any]:
    """Return a trial as the rows of Optuna's tables."""
    row = models.TrialModel(study_id=study_id, number=number, state=trial.state)
    row.datetime_start, row.datetime_complete = trial.datetime_start, trial.datetime_complete
    rows = [row]
    for place, objective in enumerate(trial.values or ()):
        value, kind = models.TrialValueModel.value_to_stored_repr(objective)
        rows.append(models.TrialValueModel(trial=row, objective=place, value=value, value_type=kind))
    for name, given in trial.params.items():
        domain = trial.distributions[name]
        stored = {"param_value": domain.to_internal_repr(given), "distribution_json": _domain_text(domain)}
        rows.append(models.TrialParamModel(trial=row, param_name=name, **stored))
    for kind_of_row, attrs in (
        (models.TrialUserAttributeModel, trial.user_attrs),
        (models.TrialSystemAttributeModel, trial.system_attrs),
    ):
        rows += [kind_of_row(trial=row, key=key, value_json=json.dumps(value)) for key, value in attrs.items()]
    return rows


def _domain_text(domain: BaseDistribution) -> str:
    from optuna.distributions import distribution_to_json

    return str(distribution_to_json(domain))
