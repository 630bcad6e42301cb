"""Trials that could not be sent to MLflow yet: one JSON line each, in a file per study under the home.

If the file is lost, no trial is: the ledger has them all, and the recorder's ``sync`` writes what MLflow lacks.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tune_vfl.ledger.records import TrialRecord
from tune_vfl.machine.places import home
from tune_vfl.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "tune-vfl/outbox/1"


class Outbox:
    """The unsent trials of one study.

    Args:
        study: its name.
    """

    def __init__(self, study: str) -> None:
        self.path: Path = home() / "outbox" / f"{study}.jsonl"

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return self.path.exists()

    def put(self, trial: TrialRecord) -> None:
        """Append a trial; the line is on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_to_json(trial)) + "\n")

    def waiting(self) -> list[TrialRecord]:
        """Return the unsent trials, the last line of each; a line cut short by a crash is skipped."""
        if not self.path.exists():
            return []
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                trial = _from_json(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
            found[trial.number] = trial
        return list(found.values())

    def clear(self) -> None:
        """Remove the file, once all of its trials have been sent."""
        self.path.unlink(missing_ok=True)


def _to_json(trial: TrialRecord) -> dict[str, Any]:
    fields = asdict(trial) | {"outcome": trial.outcome.model_dump(mode="json")}
    moments = {"started": trial.started.isoformat(), "finished": trial.finished.isoformat()}
    return {"schema": SCHEMA, **fields, **moments}


def _from_json(fields: dict[str, Any]) -> TrialRecord:
    if fields.pop("schema") != SCHEMA:
        raise ValueError("another schema")
    moments = {name: datetime.fromisoformat(fields[name]) for name in ("started", "finished")}
    return TrialRecord(**{**fields, **moments, "outcome": Outcome.model_validate(fields["outcome"])})
