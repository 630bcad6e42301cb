"""A table with one odd column or row, in each format and place, and what is made of it: right, told, refused, wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.check import Facts, examine
from tune_vfl.errors import TuneVflError
from tune_vfl.spec import Named

N = 240
RNG = np.random.default_rng(7)
Y = RNG.integers(0, 2, N)
STEPS = RNG.integers(0, 300, N) + 150 * Y
OTHERS = {"a": RNG.normal(size=N).round(4), "b": RNG.choice(["u", "v", "w"], N)}


def _csv(**how: Any) -> Callable[[pd.DataFrame, Path], None]:
    return lambda frame, path: frame.to_csv(path, index=False, **how)


FORMATS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    "csv": _csv(),
    "tsv": _csv(sep="\t"),
    "csv of semicolons": _csv(sep=";"),
    "csv in gz": _csv(compression="gzip"),
    "csv in zip": _csv(compression={"method": "zip", "archive_name": "t.csv"}),
    "csv in bz2": _csv(compression="bz2"),
    "csv of Windows": _csv(lineterminator="\r\n", encoding="utf-8-sig"),
    "Parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "Feather": lambda frame, path: frame.to_feather(path),
}
PLACES = ("the passive party's", "the label party's", "a file of its own")


@dataclass(frozen=True)
class Odd:
    """An input: its kind, its name, and a function that reads it in a folder and says what became of it."""

    kind: str
    name: str
    tried: Callable[[Path], str]

    def outcome(self) -> str:
        """Return ``right``, ``told``, ``refused``, or ``wrong`` and why."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                return self.tried(Path(folder))
            except Exception as error:  # a traceback for the user
                return f"wrong: {type(error).__name__}: {error}"


@dataclass(frozen=True)
class Seen:
    """A table as it was read."""

    data: Dataset

    @cached_property
    def facts(self) -> Facts:
        """What ``data check`` says."""
        return examine(self.data, excluded=())

    def oddities(self, column: str = "t") -> list[str]:
        """Return what stands out in a column, the worst first."""
        return [f.oddity for f in self.facts.findings if f.column == column]

    def of(self, column: str = "t") -> Any:
        """Return what is known of a column."""
        return next(c for party in self.facts.parties for c in party.columns if c.name == column)

    def has_note(self, words: Sequence[str]) -> bool:
        """Whether one note or warning has all these words."""
        said = (*self.facts.notes, *self.facts.warnings)
        return any(all(word in note for word in words) for note in said)


Judge = Callable[[Seen], str]


def write(folder: Path, frame: pd.DataFrame, form: str, place: str = PLACES[0]) -> dict[str, Any]:
    """Write a table with columns t, a, b and y; return the options that read it."""
    if place != PLACES[2]:
        FORMATS[form](frame, folder / "t.csv")
        held = {"p": ["t"], "active": ["a", "b"]} if place == PLACES[0] else {"p": ["a", "b"], "active": ["t"]}
        return {"path": str(folder / "t.csv"), "label": "y", "parties": held}
    numbered = frame.assign(i=[f"c{k}" for k in range(len(frame))])
    FORMATS[form](numbered[["i", "t"]], folder / "p.csv")
    FORMATS["csv"](numbered.drop(columns="t").iloc[::-1], folder / "q.csv")
    return {"id": "i", "label": "y", "parties": {name: {"path": str(folder / f"{name}.csv")} for name in "pq"}}


def table(cells: Sequence[object], labels: Sequence[object] = ()) -> pd.DataFrame:
    """Return a table whose column t has these cells, as text."""
    frame = pd.DataFrame({"t": [str(cell) for cell in cells], **OTHERS, "y": list(labels) or Y})
    return frame.astype(str)


def judged(options: dict[str, Any], judge: Judge, words: Sequence[str] = ()) -> str:
    """Read a table and judge it; a refusal with these words is right, too, where there are any."""
    try:
        return judge(Seen(load(Named.model_validate({"name": "csv", **options}))))
    except TuneVflError as error:
        if words and all(word in str(error) for word in words):
            return "refused"
        return f"wrong: {error}"


def noted(*words: str) -> Judge:
    """Return a judge of tables of which a note must have all these words."""
    return lambda seen: "told" if seen.has_note(words) else f"wrong: {seen.facts.notes}"


def found(oddity: str, *, excluded: bool = False) -> Judge:
    """Return a judge of tables whose column t must stand out so, and be on the list of what to leave out."""

    def judge(seen: Seen) -> str:
        listed = not excluded or "t" in seen.facts.exclude
        return "told" if oddity in seen.oddities() and listed else f"wrong: {seen.oddities()}"

    return judge


def number(width: int = 1) -> Judge:
    """Return a judge of tables whose column t must be a number that tells what it tells."""

    def judge(seen: Seen) -> str:
        column = seen.of()
        right = column.kind == "number" and column.width == width and (column.alone or 0.0) > 0.75
        return "right" if right else f"wrong: {column}"

    return judge


def categories(values: Sequence[str]) -> Judge:
    """Return a judge of tables whose column t must have these categories."""

    def judge(seen: Seen) -> str:
        columns = next(c for c in seen.data.parties if any(source.name == "t" for source in c.sources))
        names = [name for name in columns.names if name.startswith("t=")]
        return "right" if names == [f"t={value}" for value in sorted(values)] else f"wrong: {names}"

    return judge


def classes(labels: Sequence[str]) -> Judge:
    """Return a judge of tables each row of which must have its own class."""

    def judge(seen: Seen) -> str:
        read = [seen.data.class_names[k] for k in seen.data.y.tolist()]
        return "right" if read == list(labels) else f"wrong: {seen.data.class_names}"

    return judge
