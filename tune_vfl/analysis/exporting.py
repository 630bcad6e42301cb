"""A trial of the record as an exported setting: what `export` writes, and what travels beside its run in MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_vfl.config import ExportedConfig, Measured
    from tune_vfl.records.studies import StudyRecord, TrialRecord


def exported(record: StudyRecord, trial: TrialRecord, select: str) -> ExportedConfig:
    """Return the configuration of one trial.

    Args:
        record: its study.
        trial: one with objectives.
        select: how it was chosen, which the file says.

    Raises:
        SpecError: when the defense does not take the trial's parameters, as one of another version.
    """
    from tune_vfl.config import export_config

    cell, params = record.cell.with_params(trial.params)
    measured = _measured(record, trial)
    return export_config(cell, study=record.name, trial=trial.number, select=select, params=params, measured=measured)


def _measured(record: StudyRecord, trial: TrialRecord) -> Measured:
    """Return a trial's numbers: utility and leakage are those of the confirmation where there is one."""
    from tune_vfl.config import Again, Measured

    outcome, again = trial.outcome, record.confirmed.get(trial.number)
    utility, leakage = outcome.objectives
    numbers: dict[str, Any] = {"utility": utility, "leakage": leakage}
    if again is not None:
        kept = again.model_dump(include=set(Again.model_fields))
        numbers = {"utility": again.utility, "leakage": again.leakage, "confirmed": Again(**kept)}
    return Measured(
        metric=outcome.utility.metric if outcome.utility else record.cell.metric,
        utility_std=outcome.utility.std if outcome.utility else 0.0,
        leakage_std=outcome.leakage_std or 0.0,
        attacks={name: score.mean for name, score in outcome.attacks.items()},
        **numbers,
    )
