"""What a campaign's ledgers hold of its confirmation: each study its own settings, and what it shares with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.confirmation.jobs import Place, undefended_of
from tune_vfl.ledger.confirmations import UNDEFENDED, SeedRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.joint import Setting
    from tune_vfl.ledger.ledger import Ledger
    from tune_vfl.outcome import TunedAttack


class Kept:
    """The records of a campaign, by place.

    The undefended model that several studies have in common is measured in the name of the first of them, and kept with
    each: a study that is read, packed or confirmed alone lacks nothing.

    Args:
        campaign: as it stands.
        ledgers: of each of its studies, to write.

    Attributes:
        records: everything that is known of settings that are still there.
        tuned: the attackers that were tuned.
    """

    def __init__(self, campaign: CampaignRecord, ledgers: Mapping[str, Ledger]) -> None:
        self._ledgers = ledgers
        self._shared = undefended_of(campaign.studies)
        self.records: dict[Place, SeedRecord] = {}
        self.tuned: dict[Setting, TunedAttack] = {}
        for study in campaign.studies:
            there = {UNDEFENDED, *(t.number for t in study.trials)}
            held = ledgers[study.name].confirmations
            for (number, seed), record in held.records().items():
                if number in there:
                    self.records.setdefault((self._name(study.name, number), number, seed), record)
            self.tuned |= {(study.name, number): found for number, found in held.tuned().items()}
        self._share()

    def keep(self, place: Place, record: SeedRecord) -> None:
        """Keep what came of one setting with one seed."""
        study, number, seed = place
        self.records[place] = record
        for name in self._sharing(study, number):
            self._ledgers[name].confirmations.keep((number, seed), record)

    def keep_tuned(self, setting: Setting, found: TunedAttack) -> None:
        """Keep the best attacker that was found against a setting."""
        study, number = setting
        self.tuned[setting] = found
        self._ledgers[study].confirmations.keep_tuned(number, found)

    def _name(self, study: str, number: int) -> str:
        return self._shared[study] if number == UNDEFENDED else study

    def _sharing(self, study: str, number: int) -> Iterator[str]:
        """Yield the studies with which a record of this one is kept."""
        yield from (s for s, first in self._shared.items() if first == study) if number == UNDEFENDED else (study,)

    def _share(self) -> None:
        """Give every study what those it shares a model with have measured, or had, when a run of them was killed."""
        for name, ledger in self._ledgers.items():
            held = ledger.confirmations.records()
            for (study, number, seed), record in self.records.items():
                if number == UNDEFENDED and self._shared[name] == study and (number, seed) not in held:
                    ledger.confirmations.keep((number, seed), record)
