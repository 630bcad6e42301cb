"""Making and finishing trials so that a broken connection doubles nothing.

When a connection breaks, nobody knows whether the transaction that was under way has come to its end. Before it is done
again, the database is asked; and before that it is waited for, since it may still be at it.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    from tune_vfl.ledger.lease import Lease


class End(NamedTuple):
    """How a trial ended.

    Attributes:
        state: finished.
        values: its objectives; none where it has none.
        attrs: what is known of it from now on, as JSON.
    """

    state: TrialState
    values: Sequence[float]
    attrs: Mapping[str, str]


class TrialWriter:
    """Writes the trials of one study.

    Args:
        storage: open.
        study_id: the study's.
        lease: what allows to write it; without it nothing is waited for.
    """

    def __init__(self, storage: BaseStorage, study_id: int, lease: Lease | None) -> None:
        self._storage, self._study_id, self._lease = storage, study_id, lease

    def make(self, trials: Sequence[FrozenTrial]) -> list[int]:
        """Write new trials with everything that is known of them, all in one transaction; return their numbers.

        Optuna's own way takes five times as long, and ever longer as a study grows: it asks for each row that it is
        about to write, and counts the trials before each.
        """
        from optuna.storages._rdb import models
        from sqlalchemy.orm import Session

        first = patiently(self._count)
        numbers = range(first, first + len(trials))

        def attempt() -> bool:
            with Session(self._engine) as session, session.begin():
                made = [_rows(models, self._study_id, n, trial) for n, trial in zip(numbers, trials, strict=True)]
                session.add_all([row for rows in made for row in rows])
            return True

        def made() -> bool | None:
            self._settle()
            return self._count() > first or None

        patiently(attempt, made)
        return list(numbers)

    def finish(self, ends: Mapping[int, End]) -> list[int]:
        """Write how trials ended, all in one transaction.

        Args:
            ends: by the trials' numbers.

        Returns:
            The ids that the database has for them, in rising order, without those that had ended before.
        """
        from sqlalchemy.orm import Session

        tried: dict[int, int] = {}

        def attempt() -> dict[int, int]:
            with Session(self._engine) as session, session.begin():
                trials = self._not_ended(session, ends)
                tried.clear()
                tried.update({trial.number: trial.trial_id for trial in trials})
                _end(session, trials, ends)
            return tried

        def ended() -> dict[int, int] | None:
            self._settle()
            with Session(self._engine) as session:
                return tried if tried and not self._not_ended(session, tried) else None

        return sorted(patiently(attempt, ended).values())

    def _not_ended(self, session: Session, numbers: Iterable[int]) -> Sequence[Any]:
        """Return those of some trials that have not ended, as rows of Optuna's."""
        import sqlalchemy
        from optuna.storages._rdb.models import TrialModel
        from optuna.trial import TrialState

        some = TrialModel.study_id == self._study_id, TrialModel.number.in_(list(numbers))
        unended = TrialModel.state.in_([TrialState.RUNNING, TrialState.WAITING])
        return session.scalars(sqlalchemy.select(TrialModel).where(*some, unended)).all()

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

    def _settle(self) -> None:
        if self._lease is not None:
            self._lease.settle()


def _end(session: Session, trials: Sequence[Any], ends: Mapping[int, End]) -> None:
    """Write how trials ended."""
    import sqlalchemy
    from optuna.storages._rdb import models

    # A search that was killed may have left some of this, in a ledger of an earlier version.
    attrs = models.TrialUserAttributeModel
    known = {key for end in ends.values() for key in end.attrs}
    of_these = attrs.trial_id.in_([trial.trial_id for trial in trials]), attrs.key.in_(known)
    session.execute(sqlalchemy.delete(attrs).where(*of_these), execution_options={"synchronize_session": False})
    for trial in trials:
        state, values, texts = ends[trial.number]
        trial.state, trial.datetime_complete = state, datetime.now()  # noqa: DTZ005 - as Optuna writes it
        session.add_all(_value_rows(models, values, trial_id=trial.trial_id))
        session.add_all(attrs(trial_id=trial.trial_id, key=key, value_json=text) for key, text in texts.items())


def _rows(models: Any, study_id: int, number: int, trial: FrozenTrial) -> list[Any]:
    """Return a trial as the rows of Optuna's tables."""
    row = models.TrialModel(study_id=study_id, number=number, state=trial.state)
    row.datetime_start, row.datetime_complete = trial.datetime_start, trial.datetime_complete
    rows = [row]
    rows += _value_rows(models, trial.values or (), trial=row)
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


def _value_rows(models: Any, values: Sequence[float], **of: Any) -> list[Any]:
    """Return a trial's objectives as rows of Optuna's tables."""
    model = models.TrialValueModel
    stored = [model.value_to_stored_repr(value) for value in values]
    return [model(objective=n, value=value, value_type=kind, **of) for n, (value, kind) in enumerate(stored)]


def _domain_text(domain: BaseDistribution) -> str:
    from optuna.distributions import distribution_to_json

    return str(distribution_to_json(domain))
