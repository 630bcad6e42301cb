"""All that a report says of a campaign on one data set, gathered before anything is written or drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reports.naming import Names, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tune_vfl.campaign.decide import Decision
    from tune_vfl.campaign.joint import Joint
    from tune_vfl.campaign.tables import AttackTable, Failure, Ranking
    from tune_vfl.ledger.campaigns import CampaignRecord


class Gathered(NamedTuple):
    """One data set of a campaign.

    Attributes:
        campaign: the part of it that is on this data set.
        found: its studies laid side by side; ``decision``: what to do; ``names``: what its studies are called.
        rankings: defenses below caps of leakage; ``attacks``: what attacks find in them.
        failures: trials without a result, by reason.
    """

    campaign: CampaignRecord
    found: Joint
    decision: Decision
    names: Names
    rankings: tuple[Ranking, ...]
    attacks: AttackTable
    failures: tuple[Failure, ...]


def gather(campaign: CampaignRecord) -> Iterator[Gathered]:
    """Yield the data sets of a campaign, in its order."""
    from tune_vfl.campaign.deciding import decide
    from tune_vfl.campaign.joint import joint_of
    from tune_vfl.campaign.rankings import attack_table, rankings
    from tune_vfl.campaign.tables import failures

    for dataset in campaign.datasets:
        part, found = campaign.on(dataset), joint_of(campaign, dataset)
        yield Gathered(
            campaign=part,
            found=found,
            decision=decide(part, found),
            names=names_of(found),
            rankings=rankings(found),
            attacks=attack_table(found),
            failures=failures(found.parts),
        )
