"""The records of a campaign's confirmation: each study's, and shared ones of undefended models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tune_vfl.confirmation.jobs import undefended_of
from tune_vfl.records.confirmations import UNDEFENDED, SeedRecord

if TYPE_CHECKING:
    from tune_vfl.ledger.confirmation_store import Confirmations, Place
    from tune_vfl.outcome import TunedAttack
    from tune_vfl.records.answers import SettingKey
    from tune_vfl.records.campaigns import CampaignRecord


class Kept:
    """The confirmation records of a campaign, by place, synchronized with the ledger.

    An undefended model common to several studies is measured once and stored with each, so that every study can be
    read, packed or confirmed without the others.

    Args:
        campaign: its current record.
        store: that of the ledger.

    Attributes:
        records: the results so far, of existing trials.
        tuned: the tuned attackers.
        store: see above.
    """

    def __init__(self, campaign: CampaignRecord, store: Confirmations) -> None:
        self.store, self._shared = store, undefended_of(campaign.studies)
        self.records: dict[Place, SeedRecord] = {}
        self.tuned: dict[SettingKey, TunedAttack] = {}
        held = {study.name: store.records(study.name) for study in campaign.studies}
        for study in campaign.studies:
            there = {UNDEFENDED, *(t.number for t in study.trials)}
            for (name, number, seed), record in held[study.name].items():
                if number in there:
                    of = self._shared[name] if number == UNDEFENDED else name
                    self.records.setdefault((of, number, seed), record)
            self.tuned |= store.tuned(study.name)
        for name, first in self._shared.items():  # a killed run may have given what is shared to some of them
            for (study_name, number, seed), record in self.records.items():
                if (study_name, number) == (first, UNDEFENDED) and (name, number, seed) not in held[name]:
                    store.keep((name, number, seed), record)

    def keep(self, place: Place, record: SeedRecord) -> None:
        """Store the result of one setting with one seed."""
        study, number, seed = place
        self.records[place] = record
        shared = [name for name, first in self._shared.items() if first == study]
        for name in shared if number == UNDEFENDED else [study]:
            self.store.keep((name, number, seed), record)

    def keep_tuned(self, setting: SettingKey, found: TunedAttack) -> None:
        """Store the best tuned attacker against a setting."""
        self.tuned[setting] = found
        self.store.keep_tuned(setting, found)
