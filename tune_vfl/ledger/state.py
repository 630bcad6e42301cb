"""What tells one state of a campaign from another, as a short text: whoever kept something made of it can compare."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tune_vfl.ledger.campaigns import CampaignRecord
    from tune_vfl.ledger.records import StudyRecord


def state_of(campaign: CampaignRecord) -> str:
    """Return it: equal for campaigns of which a page says the same; the order of studies does not count."""
    answer = campaign.confirmation
    state = {
        "studies": {study.name: short_hash(_study(study)) for study in campaign.studies},
        "retired": dict(campaign.retired),
        "skipped": [str(left) for left in campaign.skipped],
        "confirmation": None if answer is None else answer.plain(),
    }
    return short_hash(json.dumps(state, sort_keys=True))


def short_hash(text: str) -> str:
    """Return 16 hexadecimal digits that tell a text from others."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _study(record: StudyRecord) -> str:
    """Return all that a study's part of a page is made of as one text."""
    confirmed = record.confirmation
    return "\n".join(
        (
            record.spec.model_dump_json(),
            record.baseline.model_dump_json() if record.baseline else "",
            "" if confirmed is None else json.dumps(confirmed.plain(), sort_keys=True),
            *(f"{t.number} {t.outcome.model_dump_json()}" for t in record.trials),
        )
    )
