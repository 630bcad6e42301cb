"""The public ``Campaign`` object: studies, joint front, summary and export, read from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_vfl.analysis.exporting import exported
from tune_vfl.analysis.select import select as choose
from tune_vfl.analysis.summary import frontier, frontier_against, summary
from tune_vfl.campaign.study import Study
from tune_vfl.ledger.reading import open_campaign

if TYPE_CHECKING:
    from tune_vfl.ledger.reading import CampaignReader
    from tune_vfl.records.campaigns import CampaignRecord


class Campaign:
    """One campaign; every call reads the ledger again.

    Args:
        held: as :func:`tune_vfl.ledger.reading.open_campaign` gives it.
        stopped: whether this run was stopped before the budget was used up.
    """

    def __init__(self, held: CampaignReader, *, stopped: bool = False) -> None:
        self.name = held.name
        self.storage: str | None = held.place.url
        self.stopped = stopped
        self.held = held

    def record(self) -> CampaignRecord:
        """Read the campaign's current state from the ledger."""
        return self.held.record()

    def studies(self) -> list[Study]:
        """Return the studies, in the order of the spec."""
        return [Study.reading(part) for part in self.held.parts()]

    def frontier(self, attack: str | None = None) -> list[dict[str, Any]]:
        """Return the joint front of each data set as plain data, see :func:`tune_vfl.analysis.summary.front_of`.

        Args:
            attack: take this attack's advantage for the leakage instead of the worst attack's.
        """
        return frontier(self.record()) if attack is None else frontier_against(self.record(), attack)

    def summary(self, record: CampaignRecord | None = None) -> dict[str, Any]:
        """Return the output of ``search --json`` and ``status --json``.

        Args:
            record: a current result of :meth:`record`; None reads the ledger.
        """
        record, studies = record or self.record(), {study.name: study for study in self.studies()}
        return summary(record, {part.name: studies[part.name].summary(part) for part in record.studies})

    def export(self, select: str | None = None, path: str | Path | None = None, dataset: str | None = None) -> Any:
        """Choose a setting and write it as JSON.

        Args:
            select: see :func:`tune_vfl.analysis.select.select`, also for the errors.
            path: a JSON file; None writes nothing.
            dataset: the data set; required where there are several.

        Returns:
            The configuration that :func:`tune_vfl.load_config` reads.
        """
        return export(self.record(), select, path, dataset)

    def overdue(self) -> dict[str, list[int]]:
        """Return the running trials that exceed their timeout, by study."""
        return {study.name: late for study in self.studies() if (late := study.overdue())}


def export(
    campaign: CampaignRecord, select: str | None = None, path: str | Path | None = None, dataset: str | None = None
) -> Any:
    """Choose a setting of a campaign or study and write it to a file; see :meth:`Campaign.export`."""
    from tune_vfl.config import save_config

    chosen = choose(campaign, select, dataset)
    rule = select or ("decision" if campaign.constraints else "knee")
    config = exported(chosen.study, chosen.trial, rule)
    if path is not None:
        save_config(config, Path(path))
    return config


def named(name: str, storage: str | None = None) -> Study | Campaign:
    """Return the study or campaign of this name from the ledger.

    Args:
        name: its name.
        storage: the ledger's database; None is the one that the environment names.

    Raises:
        StudyError: when the ledger has no such name; the message suggests the nearest.
        UnreachableError: when the database does not answer.
    """
    held = open_campaign(name, storage)
    return Study(name, storage) if held is None else Campaign(held)
