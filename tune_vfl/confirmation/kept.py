"""The store of a campaign's confirmation: each study's records, and shared ones of undefended models."""

from __future__ import annotations

from collections.abc import Mapping

from tune_vfl.confirmation.jobs import Place, undefended_of
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import UNDEFENDED, SeedRecord
from tune_vfl.records.joint_confirmation import SettingKey


class Kept:
    """The confirmation records of a campaign, by place, synchronized with the ledger.

    An undefended model common to several studies is measured once and stored with each, so that every study can be
    read, packed or confirmed without the others.

    Args:
        campaign: its current record.
        ledgers: a writable ledger for each of its studies.

    Attributes:
        records: the results so far, of existing trials.
        tuned: the tuned attackers.
    """

    def __init__(self, campaign: CampaignRecord, ledgers: Mapping[str, Ledger]) -> None:
        self._ledgers = ledgers
        self._shared = undefended_of(campaign.studies)
        self.records: dict[Place, SeedRecord] = {}
        self.tuned: dict[SettingKey, TunedAttack] = {}
        for study in campaign.studies:
            there = {UNDEFENDED, *(t.number for t in study.trials)}
            held = ledgers[study.name].confirmations
            for (number, seed), record in held.records().items():
                if number in there:
                    name = self._shared[study.name] if number == UNDEFENDED else study.name
                    self.records.setdefault((name, number, seed), record)
            self.tuned |= {(study.name, number): found for number, found in held.tuned().items()}
        self._share()

    def keep(self, place: Place, record: SeedRecord) -> None:
        """Store the result of one setting with one seed."""
        study, number, seed = place
        self.records[place] = record
        shared = [name for name, first in self._shared.items() if first == study]
        for name in shared if number == UNDEFENDED else [study]:
            self._ledgers[name].confirmations.keep((number, seed), record)

    def keep_tuned(self, setting: SettingKey, found: TunedAttack) -> None:
        """Store the best tuned attacker against a setting."""
        study, number = setting
        self.tuned[setting] = found
        self._ledgers[study].confirmations.keep_tuned(number, found)

    def _share(self) -> None:
        """Copy missing records between studies that share a model, such as after a killed run."""
        for name, ledger in self._ledgers.items():
            held = ledger.confirmations.records()
            for (study, number, seed), record in self.records.items():
                if number == UNDEFENDED and self._shared[name] == study and (number, seed) not in held:
                    ledger.confirmations.keep((number, seed), record)
