"""Making and finishing trials so that a broken connection doubles nothing.

When a connection breaks, nobody knows whether the transaction that was under way has come to its end. Before it is done
again, the database is asked; and before that it is waited for, since it may still be at it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState
    from sqlalchemy import Engine

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

    def make(self, trials: Sequence[FrozenTrial]) -> list[int]:
        """Write new trials with everything that is known of them, all in one transaction; return their numbers.

        Optuna's own way takes five times as long, and ever longer as a study grows: it asks for each row that it is
        about to write, and counts the trials before each.
        """
        from optuna.storages._rdb import models
        from sqlalchemy.orm import Session

        first = patiently(self._count)
        numbers = range(first, first + len(trials))

        def attempt() -> dict[int, int]:
            with Session(self._engine) as session, session.begin():
                made = [_rows(models, self._study_id, n, trial) for n, trial in zip(numbers, trials, strict=True)]
                session.add_all([row for rows in made for row in rows])
                session.flush()
                return {rows[0].number: rows[0].trial_id for rows in made}

        def made() -> dict[int, int] | None:
            self._settle()
            return self._from(first) or None

        self._ids |= patiently(attempt, made)
        return list(numbers)

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

    @property
    def _engine(self) -> Engine:
        """That of Optuna's storage, which lets nobody write without the lease."""
        engine: Engine = cast("Any", self._storage)._backend.engine
        return engine

    def _count(self) -> int:
        """Return how many trials the study has, which is the next one's number."""
        import sqlalchemy
        from optuna.storages._rdb.models import TrialModel

        wanted = sqlalchemy.select(sqlalchemy.func.count()).where(TrialModel.study_id == self._study_id)
        with self._engine.connect() as connection:
            return int(connection.execute(wanted).scalar_one())

    def _from(self, number: int) -> dict[int, int]:
        """Return the trials from a number on: their ids in the database, by number."""
        import sqlalchemy
        from optuna.storages._rdb.models import TrialModel

        of_study = TrialModel.study_id == self._study_id
        wanted = sqlalchemy.select(TrialModel.number, TrialModel.trial_id).where(of_study, TrialModel.number >= number)
        with self._engine.connect() as connection:
            return {row.number: row.trial_id for row in connection.execute(wanted)}

    def _settle(self) -> None:
        if self._lease is not None:
            self._lease.settle()


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
