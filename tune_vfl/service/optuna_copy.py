"""Copy a study's trials into an Optuna storage, for optuna-dashboard and other code that reads Optuna."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import TYPE_CHECKING

from tune_vfl.errors import UnwritableError, UsageError
from tune_vfl.ledger.reading import open_study
from tune_vfl.machine.files import written_out
from tune_vfl.machine.places import sqlite_uri

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from tune_vfl.ledger.reading import StudyReader
    from tune_vfl.outcome import Outcome
    from tune_vfl.records.rows import TrialRow


def copy_to_optuna(name: str, file: Path, storage: str | None = None) -> dict[str, int]:
    """Write the finished trials of a study, or of all studies of a campaign, into a new sqlite file for Optuna.

    Args:
        name: the study's or the campaign's.
        file: the path of the new file.
        storage: the ledger's database; None is the one that the environment names.

    Returns:
        The number of written trials, by study.

    Raises:
        StudyError: when the ledger has no such name.
        UsageError: when the file exists.
        UnwritableError: when it cannot be written; nothing is left behind then.
        UnreachableError: when the ledger does not answer.
    """
    import optuna
    from sqlalchemy.exc import OperationalError

    parts = open_study(name, storage).parts()
    if file.exists():
        raise UsageError(f"{file} is there already: name a file that is not")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with written_out(file) as draft:
            return _write(draft, parts)
    except (OperationalError, optuna.exceptions.StorageInternalError) as error:
        why = error.orig if isinstance(error, OperationalError) else error
        raise UnwritableError(f"{file}: cannot be written ({why}); choose another place") from error


def _write(file: Path, parts: Sequence[StudyReader]) -> dict[str, int]:
    import optuna

    target, written = optuna.storages.RDBStorage(sqlite_uri(file)), {}
    for part in parts:
        study = optuna.create_study(storage=target, study_name=part.study.name, directions=["maximize", "minimize"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(["utility", "leakage"])
        domains = part.space.distributions()
        finished = [(trial, trial.result) for trial in part.trials() if trial.result is not None]
        study.add_trials([_copied(trial, outcome, domains) for trial, outcome in finished])
        written[part.study.name] = len(finished)
    return written


def _copied(trial: TrialRow, outcome: Outcome, domains: dict[str, BaseDistribution]) -> FrozenTrial:
    from optuna.trial import TrialState, create_trial

    copied = create_trial(
        state=TrialState.FAIL if trial.objectives is None else TrialState.COMPLETE,
        values=trial.objectives,
        params=trial.params,
        distributions=domains,
        user_attrs={
            "number": trial.number,
            "outcome": outcome.outcome,
            **({"reason": outcome.reason} if outcome.reason else {}),
            **{f"attack.{name}": score.mean for name, score in outcome.attacks.items()},
        },
    )
    copied.datetime_start, copied.datetime_complete = _local(trial.asked), _local(trial.finished or trial.asked)
    return copied


def _local(moment: float) -> datetime:
    # Optuna stores local time without a zone.
    return datetime.fromtimestamp(moment)  # noqa: DTZ006
