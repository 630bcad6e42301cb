"""Data classes of a figure, drawn by ``plotted`` for the page and by ``printed`` for files.

Coordinates are values of the metric; the drawing modules compute positions on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

from reports.looks import Look

Span = tuple[float, float]

Rank = Literal["front", "behind", "muted", "chosen", "undefended"]
"""Kinds of marks: points of the joint front, other points of a colored defense, points of a muted one, the ring around
the recommended setting or the compromise, and the undefended model."""

Weight = Literal["strong", "line", "plain"]
"""Kinds of labels: one shown in every drawing, the name of a line, and one dropped for lack of space."""


class Axis(NamedTuple):
    """An axis: its title, its initial limits, and the range of its metric."""

    title: str
    limits: Span
    reach: Span


class Mark(NamedTuple):
    """One point.

    Attributes:
        x, y: the coordinates.
        x_bar, y_bar: the ends of its error bars, within the metric's range; None without.
        says: the lines of its tooltip.
        key: the name for an export, ``STUDY#21``; empty for a point without one.
    """

    x: float
    y: float
    x_bar: Span | None = None
    y_bar: Span | None = None
    says: tuple[str, ...] = ()
    key: str = ""


class Marks(NamedTuple):
    """Points of one style; ``name`` is their defense or study in the legend, where a click hides them."""

    name: str
    rank: Rank
    look: Look
    marks: tuple[Mark, ...]


class Polyline(NamedTuple):
    """A line through corners; ``kind`` is its meaning."""

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
    """A figure, independent of the drawing library.

    Attributes:
        name: the files' name.
        title, note: printed above it; the page has headings of its own.
        alt: the alternative text.
        x, y: the axes.
        groups: marks, in the order of drawing.
        lines: drawn under the marks.
        labels: the most important first.
        beyond: sentences on points outside of the initial limits.
    """

    name: str
    title: str
    note: str
    alt: str
    x: Axis
    y: Axis
    groups: tuple[Marks, ...] = ()
    lines: tuple[Polyline, ...] = ()
    labels: tuple[Label, ...] = ()
    beyond: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[tuple[str, Look], ...]:
        """Names and styles of the figure's defenses: those on the front first, then those near it, then the rest."""
        looks = {g.name: g.look for rank in ("front", "behind", "muted") for g in self.groups if g.rank == rank}
        return tuple(looks.items())


SHARE = (0.0, 1.0)
"""The range of a leakage, an AUC, an accuracy or an F1."""
_MARGIN = 0.06  # of the span of the values


def within(span: Span, reach: Span = SHARE) -> Span:
    """Clip a span to the range of the metric."""
    return min(max(span[0], reach[0]), reach[1]), max(min(span[1], reach[1]), reach[0])


def room(values: Iterable[float], reach: Span) -> Span:
    """Return axis limits around values, with a margin for marks, within the range of the metric.

    Args:
        values: at least one.
        reach: the range of the metric.
    """
    found = list(values)
    low, high = min(found), max(found)
    span = max(high - low, 0.02 * (reach[1] - reach[0] if math.isfinite(reach[1] - reach[0]) else max(high, 1.0)))
    return max(reach[0], low - _MARGIN * span), min(reach[1], high + _MARGIN * span)


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return about this many round numbers between two limits."""
    raw = (high - low) / max(1, about)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def staircase(points: Iterable[tuple[float, float]], right: float) -> tuple[tuple[float, float], ...]:
    """Return the corners ``(leakage, utility)`` of a front's attainment line.

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
