"""Parts of the GPU benchmark: rows of a table, what was left out and why, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from tune_vfl.evaluation.attempts import OutOfTimeError, time_limit

T = TypeVar("T")
Cell = float | str | None
GPU, CPU = "cuda", "cpu"
NAMES = {GPU: "the GPU", CPU: "the CPU"}


@dataclass
class BenchmarkPart:
    """One part's table.

    Attributes:
        name: in the JSON file.
        title: above the table.
        columns: its head.
        rows: a cell a column; None where nothing was measured.
        left_out: what is not in the table, or only in part, and why.
        notes: what the figures mean, below the table.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the part as Markdown."""
        yield f"**{self.title}**"
        yield ""
        if self.rows:
            yield f"| {' | '.join(self.columns)} |"
            yield "|---" * len(self.columns) + "|"
            yield from (f"| {' | '.join(map(said, row))} |" for row in self.rows)
            yield ""
        yield from self.notes
        yield from (f"Left out: {what}: {why}." for what, why in self.left_out.items())
        yield ""

    def record(self) -> dict[str, object]:
        """Return the part for a JSON file."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "left_out": self.left_out, "notes": list(self.notes)}

    def attempt(self, what: str, seconds: float, work: Callable[[], T]) -> T | None:
        """Return what ``work`` returns; None, with the reason among what is left out, if it fails or takes too long."""
        if seconds < 1:
            self.left_out[what] = "no time was left"
            return None
        try:
            with time_limit(seconds):
                return work()
        except OutOfTimeError:
            self.left_out[what] = f"not done within {seconds:.0f} s"
        except Exception as error:  # a card without room, an attack that mixes devices: the next ones may run
            first = next(iter(str(error).splitlines()), "")
            self.left_out[what] = f"failed, {type(error).__name__}: {first}"
        return None


@dataclass(frozen=True)
class Until:
    """A moment after which nothing more is begun, shared out among what is still to be done."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> Until:
        """Return the moment in so many seconds."""
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.moment - time.monotonic()

    def share(self, among: int) -> Until:
        """Return the end of the first of so many equal shares of what is left."""
        return Until.after(self.left / among)


def said(cell: Cell) -> str:
    """Return a cell as text: three digits of a number."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if abs(cell) >= 100 or cell == int(cell) else f"{cell:.3g}"


def timed(work: Callable[[], T], device: str = GPU) -> tuple[float, T]:
    """Return the seconds of some work and what it returns.

    Of the CPU, so that neighbors do not count; on a GPU, for which the CPU only waits, of the wall, with all that was
    started there.
    """
    clock = time.process_time if device == CPU else time.perf_counter
    settle()
    begun = clock()
    result = work()
    settle()
    return clock() - begun, result


def settle() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def mib(size: float | None) -> float | None:
    """Return bytes in MiB."""
    return None if size is None else size / 2**20
