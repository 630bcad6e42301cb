"""What a figure shows, as plain data: it is described once, and drawn for the page and for print.

A coordinate is that of the metric; what lies where on the paper is left to who draws.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from reports.looks import Look

if TYPE_CHECKING:
    from collections.abc import Iterable

Span = tuple[float, float]

Rank = Literal["front", "behind", "muted", "chosen", "undefended"]
"""What marks stand for: points of the joint front, other points of a defense that stands out, points of one that does
not, the ring around what is recommended, and the undefended model."""

Weight = Literal["strong", "line", "plain"]
"""What a label is: one that every drawing has room for, the name of a line, and one that is left out where it is
crowded."""


class Axis(NamedTuple):
    """An axis: its title, the part that is shown at first, and what its metric can reach; nothing lies beyond that."""

    title: str
    limits: Span
    reach: Span


class Mark(NamedTuple):
    """One point.

    Attributes:
        x, y: where it is.
        x_bar, y_bar: the ends of its bars, within reach; None without.
        says: what is shown under the pointer, by line.
        key: by which it is exported, ``STUDY#21``; empty where it cannot be.
    """

    x: float
    y: float
    x_bar: Span | None = None
    y_bar: Span | None = None
    says: tuple[str, ...] = ()
    key: str = ""


class Marks(NamedTuple):
    """Points that look alike; ``name`` is that of their defense or study, by which a reader hides and shows them."""

    name: str
    rank: Rank
    look: Look
    marks: tuple[Mark, ...]


class Line(NamedTuple):
    """A line through corners; ``kind`` says what it stands for."""

    name: str
    kind: Literal["front", "alone", "guess", "growth"]
    corners: tuple[tuple[float, float], ...]


class Label(NamedTuple):
    """Text beside a point, the most important first."""

    x: float
    y: float
    text: str
    weight: Weight


class Figure(NamedTuple):
    """A figure.

    Attributes:
        name: of its files.
        title, note: above it in print; the page has headings of its own.
        alt: what it shows, for those who cannot see it.
        x, y: the axes.
        groups: marks, in the order in which they are drawn.
        lines: under the marks.
        labels: the most important first.
        beyond: what lies outside of the part that is shown at first, a sentence each.
    """

    name: str
    title: str
    note: str
    alt: str
    x: Axis
    y: Axis
    groups: tuple[Marks, ...] = ()
    lines: tuple[Line, ...] = ()
    labels: tuple[Label, ...] = ()
    beyond: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[tuple[str, Look], ...]:
        """Names and looks of the defenses in it: those on the front first, then those near it, then the rest."""
        looks = {g.name: g.look for rank in ("front", "behind", "muted") for g in self.groups if g.rank == rank}
        return tuple(looks.items())


SHARE = (0.0, 1.0)
"""What a leakage, an AUC, an accuracy or an F1 can reach."""


def within(span: Span, reach: Span = SHARE) -> Span:
    """Return a span without what lies out of reach."""
    return min(max(span[0], reach[0]), reach[1]), max(min(span[1], reach[1]), reach[0])


def room(values: Iterable[float], reach: Span, *, below: float = 0.06, above: float = 0.06) -> Span:
    """Return limits around values, never out of reach, with some room for marks.

    Args:
        values: at least one.
        reach: what the metric can reach.
        below: the room under them, as a share of what they span.
        above: the room over them.
    """
    found = list(values)
    low, high = min(found), max(found)
    span = max(high - low, 0.02 * (reach[1] - reach[0] if math.isfinite(reach[1] - reach[0]) else max(high, 1.0)))
    return max(reach[0], low - below * span), min(reach[1], high + above * span)


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return round numbers between two limits, about so many."""
    raw = (high - low) / max(1, about)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def staircase(points: Iterable[tuple[float, float]], right: float) -> tuple[tuple[float, float], ...]:
    """Return the corners ``(leakage, utility)`` of the line that bounds what a front attains.

    The line is a staircase: between the leakages of two points, the best utility is that of the point to the left.

    Args:
        points: ``(leakage, utility)`` of the front, by rising leakage.
        right: the leakage at which the last step ends.
    """
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return (*corners, (max(right, corners[-1][0]), corners[-1][1])) if corners else ()
