"""Results of a confirmation, computed from its tables: one for each study, and a joint one for a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.confirmation.checks import checks_of, nothing_ended_ok
from tune_vfl.confirmation.table import ContestTable, by_utility
from tune_vfl.records.confirmations import FIRST_SEED, Confirmation, ConfirmedPoint, Line
from tune_vfl.records.joint_confirmation import JointConfirmation, JointLine, PointName
from tune_vfl.spec.cell import MEASURE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tune_vfl.confirmation.contest import Contest
    from tune_vfl.evaluation.checks import Check
    from tune_vfl.records.campaigns import CampaignRecord


def answer_of(table: ContestTable, study: str) -> Confirmation:
    """Return one study's result: its own settings, judged by the front of all studies."""
    contest, record = table.contest, table.contest.study(study)
    points = by_utility(p for p in table.points if p.study == study)
    knee = table.knee(study)
    return Confirmation(
        schema="tune-vfl/confirmation/1",
        name=study,
        measure=record.measure,
        seeds=_seeds(contest),
        reserve=table.facts.reserve,
        points=tuple(points),
        baseline=table.undefended(study),
        lines=tuple(Line(**_line(line, record.cell.fixed)) for line in table.lines(study)),
        gap=_gap(points),
        checks=tuple(checks_of([record], points, table.facts, by_rows=table.by_rows)),
        knee=None if knee is None else knee[1],
    )


def joint_answer_of(campaign: CampaignRecord, tables: Sequence[ContestTable]) -> JointConfirmation:
    """Return a campaign's joint result over all its data sets.

    Args:
        campaign: its current record.
        tables: one for each data set, at least one.
    """
    on = {table.contest.dataset: table for table in tables}
    knees = {dataset: knee for dataset, table in on.items() if (knee := table.knee()) is not None}
    return JointConfirmation(
        schema="tune-vfl/confirmation/1",
        name=campaign.name,
        measure=MEASURE,
        seeds=_seeds(tables[0].contest),
        points=tuple(p for table in tables for p in by_utility(table.points)),
        lines=tuple(line for table in tables for line in _joint_lines(table)),
        checks=tuple(_joint_checks(campaign, tables)),
        reserve={dataset: table.facts.reserve for dataset, table in on.items()},
        baseline={dataset: table.undefended(table.reference) for dataset, table in on.items()},
        gap={dataset: _gap(table.points) for dataset, table in on.items()},
        knee={dataset: PointName(study=study, number=number) for dataset, (study, number) in knees.items()},
    )


def _seeds(contest: Contest) -> tuple[int, ...]:
    return tuple(range(FIRST_SEED, FIRST_SEED + contest.common))


def _joint_lines(table: ContestTable) -> Iterator[JointLine]:
    for points in table.lines():
        studies = tuple(p.study for p in points)
        line = _line(points, table.contest.study(studies[0]).cell.fixed)
        if len(set(studies)) > 1:
            line["params"] = {}
        yield JointLine(**line, dataset=table.contest.dataset, studies=studies)


def _joint_checks(campaign: CampaignRecord, tables: Sequence[ContestTable]) -> Iterator[Check]:
    """Yield the checks of each data set; with several, each names its own."""
    several = len(campaign.datasets) > 1
    for table in tables:
        contest = table.contest
        points = by_utility(table.points)
        for check in checks_of(contest.studies, points, table.facts, by_rows=table.by_rows):
            yield check.model_copy(update={"says": f"{contest.dataset}: {check.says}"}) if several else check
    measured = {table.contest.dataset for table in tables}
    yield from (nothing_ended_ok(dataset) for dataset in campaign.datasets if dataset not in measured)


def _gap(points: Sequence[ConfirmedPoint]) -> dict[str, float]:
    """Return the optimism of the search's front: mean differences over its points, larger is worse."""
    front = [p for p in points if p.on_front]
    utility = [p.searched["utility"] - p.utility for p in front if p.utility is not None]
    leakage = [p.leakage - p.searched["leakage"] for p in front if p.leakage is not None]
    return {"utility": float(np.mean(utility)), "leakage": float(np.mean(leakage))} if utility else {}


def _line(points: Sequence[ConfirmedPoint], fixed: Collection[str]) -> dict[str, Any]:
    """Return the fields for a group of settings without a significant difference, by falling utility."""
    utility = [p.utility for p in points if p.utility is not None]
    leakage = [p.leakage for p in points if p.leakage is not None]
    names = dict.fromkeys(n for p in points for n in p.params if n not in fixed)
    return {
        "numbers": tuple(p.number for p in points),
        "params": {n: _range([p.params[n] for p in points if n in p.params]) for n in names},
        "utility": (min(utility), max(utility)),
        "leakage": (min(leakage), max(leakage)),
    }


def _range(values: Sequence[Any]) -> list[Any]:
    """Return the lowest and highest of numbers, one where they are equal; for other types every different value."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return [min(values), max(values)] if min(values) < max(values) else [values[0]]
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different
