"""What a report in a folder was made of: of the same it need not be made again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING

from tune_vfl.ledger.state import short_hash, state_of
from tune_vfl.machine.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tune_vfl.ledger.campaigns import CampaignRecord

NAME = "report.json"
SCHEMA = "tune-vfl/report-files/1"


def made_of(campaign: CampaignRecord, *others: object) -> str:
    """Return a short text that tells what a report is made of: all of the records, whatever else, and the code."""
    return short_hash([state_of(campaign), *map(repr, others), *_told(campaign), _code()])


def manifest(made: str, files: Mapping[str, bytes]) -> bytes:
    """Return what is kept beside a report's files: what they were made of, and their digests."""
    digests = {name: _digest(content) for name, content in files.items()}
    return json.dumps({"schema": SCHEMA, "made_of": made, "files": digests}, indent=1).encode()


def holds(folder: Path, made: str) -> bool:
    """Say whether a folder has the report that is made of this, every file as it was written."""
    try:
        kept = json.loads((folder / NAME).read_bytes())
        if (kept["schema"], kept["made_of"]) != (SCHEMA, made):
            return False
        return all(_digest((folder / name).read_bytes()) == digest for name, digest in kept["files"].items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _told(campaign: CampaignRecord) -> Iterator[str]:
    """Yield all that records tell beside their trials' outcomes, which are a state's."""
    yield repr(replace(campaign, studies=()))
    for study in campaign.studies:
        yield repr(replace(study, trials=()))
        yield from (repr((t.number, t.params, t.started, t.finished, t.retry_of)) for t in study.trials)


@cache
def _code() -> str:
    """Return what tells one version of the program from another, also while somebody works on it."""
    return short_hash([VERSION, *(f"{path} {path.stat().st_mtime_ns}" for path in _sources())])


def _sources() -> list[Path]:
    """Return the program's own files; what Python compiles of them comes and goes while it runs."""
    roots = [Path(str(resources(package))) for package in ("reports", "tune_vfl")]
    found = (path for root in roots for path in root.rglob("*") if path.suffix)
    return sorted(path for path in found if "__pycache__" not in path.parts)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
