"""Confirm a study or a campaign by name, and show what came of it where it is shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tune_vfl.ledger.study import Study
from tune_vfl.service.studies import open_named, records_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.confirmation import Confirmed
    from tune_vfl.ledger.records import StudyRecord


def confirm_named(name: str, *, seeds: int = 10, adaptive: float = 0.0, storage: str | None = None) -> Confirmed:
    """Confirm a study or a campaign; its runs in MLflow follow. Arguments and errors: see ``confirmation.confirm``.

    Raises:
        StudyError: when there is nothing of this name, or nothing of it to confirm.
    """
    from tune_vfl.confirmation import confirm

    found = open_named(name, storage)
    experiment = (found.campaign if isinstance(found, Study) else "") or name
    ended = confirm(name, seeds=seeds, adaptive=adaptive, storage=storage)
    if ended.answer is not None:
        _record(experiment, records_of(experiment, storage))
    return ended


def _record(experiment: str, records: Sequence[StudyRecord]) -> None:
    """Write the studies to MLflow; what was confirmed is in the ledger, whatever becomes of that."""
    try:
        from tune_vfl.tracking.mlflow import Recorder

        Recorder(experiment, records[0].spec.tracking).sync(records)
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
