"""What tells one state of a campaign from another, as a short text: whoever kept something made of it can compare."""

from __future__ import annotations

import hashlib
import json
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.records import StudyRecord


def state_of(campaign: CampaignRecord) -> str:
    """Return it: equal for campaigns of which a page says the same; the order of studies does not count."""
    answer = campaign.confirmation
    state = {
        "studies": {study.name: _study(study) for study in campaign.studies},
        "skipped": [str(left) for left in campaign.skipped],
        "confirmation": None if answer is None else answer.plain(),
    }
    return short_hash([json.dumps(state, sort_keys=True)])


def short_hash(texts: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that tell texts from others."""
    found = hashlib.sha256()
    for text in texts:
        found.update(f"{text}\n".encode())
    return found.hexdigest()[:16]


def _study(record: StudyRecord) -> str:
    confirmed = record.confirmation
    head = (
        record.spec.model_dump_json(),
        record.baseline.model_dump_json() if record.baseline else "",
        "" if confirmed is None else json.dumps(confirmed.plain(), sort_keys=True),
        f"{record.cost} {record.alone}",
    )
    return short_hash(chain(head, (f"{t.number} {t.outcome.model_dump_json()}" for t in record.trials)))
