"""Making and finishing trials so that a broken connection doubles nothing.

When a connection breaks, nobody knows whether the transaction that was under way has come to its end. Before it is done
again, the database is asked; and before that it is waited for, since it may still be at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger.trials import session_of
from tune_vfl.ledger.trouble import patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, TrialState

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
