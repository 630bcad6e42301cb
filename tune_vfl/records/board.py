"""Entries of the board: what one search found of one defense on one data set, as compressed JSON, no rows in it."""

from __future__ import annotations

import gzip
import json
import shlex
import zlib
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from tune_vfl.errors import ParcelError, shortened
from tune_vfl.machine.plain_json import rounded
from tune_vfl.machine.version import VERSION
from tune_vfl.records.packed import Packed
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spaces.space import point_key
from tune_vfl.spec import Strict, explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


SUFFIX = ".json.gz"
"""Of an entry's file, after the name of its defense."""

MOST_BYTES = 16 * 2**20
"""Of an entry's text; today's have up to 90,000."""

ENTRY_SCHEMA: Literal["tune-vfl/board-entry/1"] = "tune-vfl/board-entry/1"

_OWN = ("study", "defense", "sampler")
"""What an entry's spec has of its own; the rest is that of the conditions, but for the number of trials."""


class Entry(Strict):
    """One defense on one data set, as a search measured it under the board's conditions.

    Attributes:
        schema_: the version of the format.
        program: the version of tune-vfl that wrote it.
        command: the search that measures it again.
        paper_attacks: the attacks by which the defense's paper measured it.
        packed: the study, as the ledger holds it.
    """

    schema_: Literal["tune-vfl/board-entry/1"] = Field(ENTRY_SCHEMA, alias="schema")
    program: str
    command: str
    paper_attacks: tuple[str, ...] = ()
    packed: Packed

    @classmethod
    def of(cls, packed: Packed, conditions: Path, paper_attacks: Sequence[str]) -> Entry:
        """Return the entry of a packed study.

        Args:
            packed: a single study.
            conditions: the file of the conditions that it was searched under, as a command names it.
            paper_attacks: the attacks by which the defense's paper measured it.
        """
        settings = [f"--set {shlex.quote(setting)}" for setting in settings_of(packed)]
        command = " ".join([f"tune-vfl search {conditions}", *settings])
        of = {"program": VERSION, "command": command, "paper_attacks": tuple(paper_attacks), "packed": _slim(packed)}
        return cls(schema=ENTRY_SCHEMA, **of)

    @classmethod
    def read(cls, path: Path) -> Entry:
        """Read an entry's file, also one that is not compressed, as those of 0.1.0.

        Raises:
            ParcelError: when it is not an entry of this schema; the message names the file and what is wrong.
        """
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                body = file.read(MOST_BYTES + 1)
            if len(body) > MOST_BYTES:
                raise ParcelError(f"{path}: is not an entry of the board: it holds more than {MOST_BYTES} bytes")
            found = cls.model_validate_json(body)
        except ValidationError as error:
            raise ParcelError(f"{path}: is not an entry of the board: {shortened(explain(error), 3, '; ')}") from error
        except (OSError, EOFError, zlib.error) as error:
            raise ParcelError(f"{path}: cannot be read ({error}); give a file that `board add` wrote") from error
        if found.packed.campaign is not None:
            raise ParcelError(f"{path}: is not an entry of the board: expected one study, got a campaign")
        return found

    def text(self) -> str:
        """Return what its file holds: JSON, a line for the study and for each trial."""
        tables = {
            name: [f"\n   {json.dumps(row, allow_nan=False)}" for row in found]
            for name, found in self.packed.plain().items()
        }
        rows = (f'  "{name}": [{",".join(lines)}]' for name, lines in tables.items())
        head = self.model_dump(mode="json", by_alias=True, exclude={"packed"})
        return json.dumps(head, indent=1)[:-2] + ',\n "packed": {\n' + ",\n".join(rows) + "\n }\n}\n"

    def compressed(self) -> bytes:
        """Return the content of its file: the text, compressed, of the same bytes each time."""
        return gzip.compress(self.text().encode(), mtime=0)

    @property
    def measure(self) -> int:
        """The measure of its numbers, see :data:`tune_vfl.spec.cell.MEASURE`."""
        return self.packed.studies[0].measure

    @property
    def date(self) -> str:
        """The day of its last trial, in UTC."""
        return max((t.finished for t in self.record.trials), default=datetime.fromtimestamp(0, UTC)).date().isoformat()

    @cached_property
    def sources(self) -> dict[str, str]:
        """The sources of the published settings, by :func:`tune_vfl.spaces.space.point_key` of their parameters."""
        space = self.packed.studies[0].planned.space
        return {point_key(p.params): p.source for p in space.published}

    def source_of(self, number: int) -> str | None:
        """Return where a trial's setting was published; None for one that the search proposed."""
        space = self.packed.studies[0].planned.space
        params = next(t.params for t in self.packed.trials if t.number == number)
        return self.sources.get(point_key(params), None if space.params else "its only setting")

    @cached_property
    def record(self) -> StudyRecord:
        """The study's record, as if the ledger had been read."""
        study = self.packed.studies[0]
        fixed = study.planned.cell.fixed
        return study.record(study.planned, [row.record(fixed) for row in self.packed.trials if row.result is not None])


def settings_of(packed: Packed) -> Iterator[str]:
    """Yield the ``--set`` settings that make a study's spec of its conditions: its own fields, its number of trials."""
    spec: Mapping[str, Any] = packed.studies[0].spec
    yield from (f"{name}={_shortest(spec[name])}" for name in _OWN if name in spec)
    yield f"budget.trials={packed.studies[0].trials}"


def _shortest(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"name"}:
        value = value["name"]
    return value if isinstance(value, str) else json.dumps(value)


def _slim(packed: Packed) -> Packed:
    """Return a study without what no page of the board shows, its measured numbers with six digits.

    Left out are the numbers of each variant, those beside a success, and the seeds of a confirmation.
    """
    rows = packed.plain()
    rows["confirmations"] = []
    for row, place in [*((s, "baseline") for s in rows["studies"]), *((t, "result") for t in rows["trials"])]:
        for score in row.get(place, {}).get("attacks", {}).values():
            for one in (score, *score["parties"].values()):
                one |= {"variants": {}, "extra": {}}
        measured = {name: row[name] for name in (place, "reference_scores", "confirmation") if name in row}
        row.update(rounded(measured, but=("params",)))
    return Packed.checked(rows, packed.name)
