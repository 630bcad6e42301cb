"""The result of a confirmation, computed from its tables: for each study, and for a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.confirmation.checks import checks_of, nothing_ended_ok
from tune_vfl.confirmation.table import ContestTable, by_utility
from tune_vfl.records.answers import Confirmation, Line, PointName
from tune_vfl.records.campaigns import Campaign, CampaignRecord
from tune_vfl.records.confirmations import FIRST_SEED, ConfirmedPoint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tune_vfl.evaluation.checks import Check
    from tune_vfl.records.studies import StudyRecord


def answer_of(whole: CampaignRecord | StudyRecord, tables: Sequence[ContestTable]) -> Confirmation:
    """Return the result of a campaign, or of one study: its own settings, judged by the front of all studies.

    Args:
        whole: the current record of the campaign, or of a study that took part.
        tables: one for each of its data sets that was measured, at least one.
    """
    campaign, own = CampaignRecord.of(whole), None if isinstance(whole, Campaign) else whole.name
    on = {table.contest.dataset: table for table in tables}
    points = {dataset: by_utility(p for p in of.points if own in (None, p.study)) for dataset, of in on.items()}
    knees = {dataset: knee for dataset, table in on.items() if (knee := table.knee(own)) is not None}
    return Confirmation(
        schema="tune-vfl/confirmation/1",
        name=campaign.name,
        measure=campaign.studies[0].measure,
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + tables[0].contest.common)),
        points=tuple(p for of in points.values() for p in of),
        lines=tuple(_line(g, table.contest.study(g[0].study).cell.fixed) for table in tables for g in table.lines(own)),
        checks=tuple(_checks(campaign, on, points)),
        reserve={dataset: table.facts.reserve for dataset, table in on.items()},
        baseline={dataset: table.undefended(own or table.reference) for dataset, table in on.items()},
        gap={dataset: _gap(of) for dataset, of in points.items()},
        knee={dataset: PointName(study=study, number=number) for dataset, (study, number) in knees.items()},
        joint=own is None,
    )


def _checks(
    campaign: CampaignRecord, on: Mapping[str, ContestTable], points: Mapping[str, Sequence[ConfirmedPoint]]
) -> Iterator[Check]:
    """Yield the checks of each data set; with several, each names its own."""
    for dataset in campaign.datasets:
        if dataset not in on:
            continue
        table, studies = on[dataset], campaign.on(dataset).studies
        for check in checks_of(studies, points[dataset], table.facts, by_rows=table.by_rows):
            several = {"says": f"{dataset}: {check.says}"} if campaign.datasets[1:] else {}
            yield check.model_copy(update=several)
    yield from (nothing_ended_ok(dataset) for dataset in campaign.datasets if dataset not in on)


def _gap(points: Sequence[ConfirmedPoint]) -> dict[str, float]:
    """Return the optimism of the search's front: mean differences over its points, larger is worse."""
    front = [p for p in points if p.on_front]
    utility = [p.searched["utility"] - p.utility for p in front if p.utility is not None]
    leakage = [p.leakage - p.searched["leakage"] for p in front if p.leakage is not None]
    return {"utility": float(np.mean(utility)), "leakage": float(np.mean(leakage))} if utility else {}


def _line(points: Sequence[ConfirmedPoint], fixed: Collection[str]) -> Line:
    """Return a group of settings without a significant difference, by falling utility."""
    utility = [p.utility for p in points if p.utility is not None]
    leakage = [p.leakage for p in points if p.leakage is not None]
    studies = tuple(p.study for p in points)
    names = dict.fromkeys(n for p in points for n in p.params if n not in fixed) if len(set(studies)) < 2 else ()
    return Line(
        numbers=tuple(p.number for p in points),
        params={n: _range([p.params[n] for p in points if n in p.params]) for n in names},
        utility=(min(utility), max(utility)),
        leakage=(min(leakage), max(leakage)),
        dataset=points[0].dataset,
        studies=studies,
    )


def _range(values: Sequence[Any]) -> list[Any]:
    """Return the lowest and highest of numbers, one where they are equal; for other types every different value."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return [min(values), max(values)] if min(values) < max(values) else [values[0]]
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different
