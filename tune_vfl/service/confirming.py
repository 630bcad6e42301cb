"""The verb ``confirm``: a confirmation by name, followed by its MLflow runs and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger.reading import open_study
from tune_vfl.service.projecting import show_in_mlflow

if TYPE_CHECKING:
    from tune_vfl.confirmation import Confirmed


def confirm_named(name: str, *, seeds: int = 10, adaptive: float = 0.0, storage: str | None = None) -> Confirmed:
    """Confirm a study or a campaign, then update its MLflow runs and their report.

    Arguments and errors: see ``confirmation.confirm``.

    Raises:
        StudyError: when the ledger has no such name, or no trial to confirm.
    """
    from tune_vfl.confirmation import confirm

    ended = confirm(name, seeds=seeds, adaptive=adaptive, storage=storage)
    if ended.answer is not None:
        show_in_mlflow(open_study(name, storage))
    return ended
