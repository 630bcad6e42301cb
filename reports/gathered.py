"""The results that a report needs for each data set of a campaign, computed once for texts, tables and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reports.naming import Names, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tune_vfl.analysis.decision import Decision
    from tune_vfl.analysis.joint_front import Joint
    from tune_vfl.analysis.rankings import Ranking
    from tune_vfl.records.campaigns import CampaignRecord


class Gathered(NamedTuple):
    """The results on one data set of a campaign.

    Attributes:
        found: the joint front of its studies there.
        decision: the recommendation.
        names: the studies' names in figures.
        rankings: defenses below caps of leakage.
    """

    found: Joint
    decision: Decision
    names: Names
    rankings: tuple[Ranking, ...]


def gather(campaign: CampaignRecord) -> Iterator[Gathered]:
    """Compute the results on each data set of a campaign, in its order."""
    from tune_vfl.analysis.decide import decide
    from tune_vfl.analysis.joint_front import joint_of
    from tune_vfl.analysis.rankings import rankings

    for dataset in campaign.datasets:
        found = joint_of(campaign, dataset)
        yield Gathered(found, decide(found), names_of(found), rankings(found))
