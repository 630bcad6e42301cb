"""Placement of labels in a figure without overlaps of labels, points and edges, in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Box(NamedTuple):
    """A rectangle; y grows downward."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Box) -> float:
        """Return the area shared with another box."""
        across = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        down = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return max(0.0, across) * max(0.0, down)

    def inside(self, other: Box) -> bool:
        """Return whether this box lies within another."""
        return (
            self.x >= other.x
            and self.y >= other.y
            and self.x + self.width <= other.x + other.width
            and self.y + self.height <= other.y + other.height
        )


class Wish(NamedTuple):
    """A label to place beside a point; wishes come in order of importance."""

    x: float
    y: float
    text: str
    width: float
    height: float


class Placed(NamedTuple):
    """A placed label and its box; ``anchor`` is its point."""

    text: str
    box: Box
    anchor: tuple[float, float]


# The space above a front is free, so labels are tried there first.
_DIRECTIONS = ((0.0, -1.0), (-1.0, -1.0), (-1.0, 0.0), (1.0, -1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (-1.0, 1.0))
_DISTANCES = (9.0, 18.0, 30.0, 44.0)


def place(wishes: Sequence[Wish], bounds: Box, obstacles: Sequence[Box] = ()) -> list[Placed]:
    """Place each label at the nearest free position around its point; drop a label without one.

    Args:
        wishes: the labels, most important first.
        bounds: the drawing area.
        obstacles: boxes that labels must not cover (points, lines of text).
    """
    crowd = _edges(obstacles)
    placed: list[Placed] = []
    for wish in wishes:
        written = _edges([label.box for label in placed])
        inside = (box for box in _spots(wish) if box.inside(bounds))
        free = (box for box in inside if not _covers(box, crowd) and not _covers(box, written))
        spot = next((box for box in free if not _is_crossed(box, wish, placed)), None)
        if spot is not None:
            placed.append(Placed(wish.text, spot, (wish.x, wish.y)))
    return placed


def _spots(wish: Wish) -> list[Box]:
    return [
        Box(
            wish.x + dx * distance + (dx - 1) / 2 * wish.width,
            wish.y + dy * distance + (dy - 1) / 2 * wish.height,
            wish.width,
            wish.height,
        )
        for distance in _DISTANCES
        for dx, dy in _DIRECTIONS
    ]


def _edges(boxes: Sequence[Box]) -> NDArray[np.float64]:
    """Return left, top, right and bottom of each box: ``(4, n)``."""
    x, y, width, height = np.asarray(boxes, dtype=np.float64).reshape(-1, 4).T
    return np.stack([x, y, x + width, y + height])


def _covers(box: Box, others: NDArray[np.float64]) -> bool:
    """Return whether a box overlaps any of the others, given by their edges; there may be thousands."""
    left, top, right, bottom = others
    across = np.minimum(right, box.x + box.width) > np.maximum(left, box.x)
    return bool((across & (np.minimum(bottom, box.y + box.height) > np.maximum(top, box.y))).any())


def _is_crossed(box: Box, wish: Wish, placed: Sequence[Placed]) -> bool:
    """Return whether the line from a point to its label would cross another label."""
    to_x = min(max(wish.x, box.x), box.x + box.width)
    to_y = min(max(wish.y, box.y), box.y + box.height)
    steps = [k / 8 for k in range(1, 8)]
    dots = [Box(wish.x + (to_x - wish.x) * s, wish.y + (to_y - wish.y) * s, 1, 1) for s in steps]
    return any(dot.overlap(other.box) > 0 for dot in dots for other in placed)


def boxes_around(points: Sequence[tuple[float, float]], radius: float) -> list[Box]:
    """Return a square box around each point, as an obstacle for :func:`place`."""
    return [Box(x - radius, y - radius, 2 * radius, 2 * radius) for x, y in points]
