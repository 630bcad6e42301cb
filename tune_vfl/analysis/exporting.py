"""Export of a setting as a configuration for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.analysis.select import DEFAULT, select

if TYPE_CHECKING:
    from tune_vfl.config import ExportedConfig, Measured
    from tune_vfl.records.campaigns import CampaignRecord
    from tune_vfl.records.studies import StudyRecord, TrialRecord


def export(
    campaign: CampaignRecord, by: str | None = None, path: str | Path | None = None, dataset: str | None = None
) -> ExportedConfig:
    """Select a setting and write it as JSON.

    Args:
        campaign: the campaign.
        by: see :func:`tune_vfl.analysis.select.select`, also for the errors; None takes the decision.
        path: a JSON file; None writes nothing.
        dataset: the data set; required where there are several.

    Returns:
        The configuration that :func:`tune_vfl.load_config` reads.

    Raises:
        UnwritableError: when the file cannot be written.
    """
    from tune_vfl.config import save_config

    rule = DEFAULT if by is None else by
    chosen = select(campaign, rule, dataset)
    config = exported(chosen.record, chosen.trial, rule)
    if path is not None:
        save_config(config, Path(path))
    return config


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
