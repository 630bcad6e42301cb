"""A campaign as a person holds it: its studies, its joint front, its decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.campaign.select import select as choose
from tune_vfl.campaign.summary import frontier, frontier_against, summary
from tune_vfl.ledger.exporting import exported
from tune_vfl.ledger.reading import open_campaign
from tune_vfl.ledger.study import Study

if TYPE_CHECKING:
    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.reading import CampaignReader


class Campaign:
    """One campaign, read from the ledger when it is asked.

    Args:
        held: as :func:`tune_vfl.ledger.reading.open_campaign` gives it.
        stopped: it was stopped in this run, before its budget was used up.
    """

    def __init__(self, held: CampaignReader, *, stopped: bool = False) -> None:
        self.name = held.name
        self.storage: str | None = held.place.url
        self.stopped = stopped
        self.held = held

    def record(self) -> CampaignRecord:
        """Return the campaign as it stands in the ledger."""
        return self.held.record()

    def studies(self) -> list[Study]:
        """Return its parts, in the order of its spec."""
        return [Study.reading(part) for part in self.held.parts()]

    def frontier(self, attack: str | None = None) -> list[dict[str, Any]]:
        """Return the joint front of each data set as plain data, see :func:`tune_vfl.campaign.summary.front_of`.

        Args:
            attack: take this attack's advantage for the leakage instead of the worst attack's.
        """
        return frontier(self.record()) if attack is None else frontier_against(self.record(), attack)

    def summary(self, record: CampaignRecord | None = None) -> dict[str, Any]:
        """Return what ``search --json`` and ``status --json`` print.

        Args:
            record: as :meth:`record` has just given it; None reads it.
        """
        record, studies = record or self.record(), {study.name: study for study in self.studies()}
        return summary(record, {part.name: studies[part.name].summary(part) for part in record.studies})

    def export(self, select: str | None = None, path: str | Path | None = None, dataset: str | None = None) -> Any:
        """Choose a setting and write it for other code.

        Args:
            select: see :func:`tune_vfl.campaign.select.select`, which says what it raises.
            path: a JSON file; None writes nothing.
            dataset: on which of several data sets.

        Returns:
            The configuration, as :func:`tune_vfl.load_config` gives it back.
        """
        return export(self.record(), select, path, dataset)

    def overdue(self) -> dict[str, list[int]]:
        """Return the running trials that take longer than they are allowed, by study."""
        return {study.name: late for study in self.studies() if (late := study.overdue())}


def export(
    campaign: CampaignRecord, select: str | None = None, path: str | Path | None = None, dataset: str | None = None
) -> Any:
    """Choose a setting of a campaign, or of a lone study as one, and write it; see :meth:`Campaign.export`."""
    from tune_vfl.config import save_config

    chosen = choose(campaign, select, dataset)
    rule = select or ("decision" if campaign.constraints else "knee")
    config = exported(chosen.study, chosen.trial, rule)
    if path is not None:
        save_config(config, Path(path))
    return config


def named(name: str, storage: str | None = None) -> Study | Campaign:
    """Return what has a name in the ledger, a study or a campaign.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when there is nothing of this name; the message names the nearest.
        UnreachableError: when the database does not answer.
    """
    held = open_campaign(name, storage)
    return Study(name, storage) if held is None else Campaign(held)
