"""Confirm a study by name, and show what came of it where the study is shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tune_vfl.service.studies import open_study

if TYPE_CHECKING:
    from tune_vfl.confirmation import Confirmed
    from tune_vfl.ledger.records import StudyRecord


def confirm_study(name: str, *, seeds: int = 10, adaptive: float = 0.0, storage: str | None = None) -> Confirmed:
    """Confirm a study; its runs in MLflow and their report follow. Arguments and errors: see ``confirmation.confirm``.

    Raises:
        StudyError: when there is no such study, or nothing of it to confirm.
    """
    from tune_vfl.confirmation import confirm

    open_study(name, storage)
    ended = confirm(name, seeds=seeds, adaptive=adaptive, storage=storage)
    if ended.answer is not None:
        _record(open_study(name, storage).record())
    return ended


def _record(record: StudyRecord) -> None:
    """Write the study to MLflow; what was confirmed is in the ledger, whatever becomes of that."""
    try:
        from tune_vfl.tracking.mlflow import Recorder

        Recorder(record.name, record.spec.tracking).sync([record])
    except Exception as error:  # MLflow is a projection: the ledger is complete without it
        sys.stderr.write(f"tune-vfl: MLflow is not recorded: {error}; 'tune-vfl doctor --repair' rebuilds it later\n")
