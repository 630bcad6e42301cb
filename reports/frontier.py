"""The Pareto front of one study as data for texts: points, front, knee and baselines."""

from __future__ import annotations

from typing import NamedTuple

from reports.naming import moving_params
from tune_vfl.analysis import formatting
from tune_vfl.analysis.front_statistics import front_statistics
from tune_vfl.analysis.reliability import checks_of
from tune_vfl.analysis.setting import MeasuredModel, Setting
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.evaluation.checks import Check
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord


class FrontierInfo(NamedTuple):
    """One study's front.

    Attributes:
        metric: the utility's name in words.
        points: ok trials by number.
        front: the front's points by rising leakage, then by number.
        knee: the front's best compromise; None without ok trials.
        undefended: the undefended model; None before it was measured.
        guess_utility: the utility of a guess by the class shares alone.
        moved: the searched parameters.
        checks: all of them, whether they hold or not.
    """

    metric: str
    points: tuple[Setting, ...]
    front: tuple[Setting, ...]
    knee: Setting | None
    undefended: MeasuredModel | None
    guess_utility: float
    moved: tuple[str, ...]
    checks: tuple[Check, ...]


def frontier_info(record: StudyRecord) -> FrontierInfo:
    """Compute a study's frontier, which is empty or partial for an unfinished study."""
    settings, knee = SettingsTable(CampaignRecord.of(record)), front_statistics(record).knee
    return FrontierInfo(
        metric=formatting.metric(record.cell.metric),
        points=tuple(settings.rows),
        front=tuple(sorted(settings.front(), key=lambda p: (p.leakage, p.number))),
        knee=next((p for p in settings.rows if p.number == knee), None),
        undefended=settings.baseline,
        guess_utility=record.reference_point[0],
        moved=tuple(moving_params(record)),
        checks=checks_of(record),
    )
