"""A campaign as a person holds it: its studies, its joint front, its decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.ledger.reading import open_campaign
from tune_vfl.ledger.study import Study

if TYPE_CHECKING:
    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.reading import HeldCampaign


class Campaign:
    """One campaign, read from the ledger when it is asked.

    Args:
        held: as :func:`tune_vfl.ledger.reading.open_campaign` gives it.
        stopped: it was stopped in this run, before its budget was used up.
    """

    def __init__(self, held: HeldCampaign, *, stopped: bool = False) -> None:
        self.name = held.name
        self.stopped = stopped
        self._held = held

    def record(self) -> CampaignRecord:
        """Return the campaign as it stands in the ledger."""
        return self._held.record()

    def studies(self) -> list[Study]:
        """Return its parts, in the order of its spec."""
        return [Study.reading(part) for part in self._held.parts()]

    def overdue(self) -> dict[str, list[int]]:
        """Return the running trials that take longer than they are allowed, by study."""
        return {study.name: late for study in self.studies() if (late := study.overdue())}


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
