"""A frontier laid out on a canvas: a pixel for every mark and label. The SVG and the matplotlib figure draw from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from reports import words
from reports.frontier import FrontierInfo, Limits, Point, limits, staircase
from reports.labels import Box, Placed, Wish, boxes_around, place

if TYPE_CHECKING:
    from collections.abc import Sequence

# Colors that the color-blind can tell apart (Okabe and Ito 2008), each lighter or darker than the next. The shape of
# the marks tells studies apart a second time, for prints without color.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_MOST_LABELS = 20
SHAPES = ("circle", "square", "triangle", "diamond", "pentagon", "hexagon")


class Canvas(NamedTuple):
    """The drawing area and its scales; y grows downward."""

    width: float
    height: float
    plot: Box
    limits: Limits
    font: float

    def x(self, leakage: float) -> float:
        """Return the pixel of a leakage."""
        low, high = self.limits.x
        return self.plot.x + (leakage - low) / (high - low) * self.plot.width

    def y(self, utility: float) -> float:
        """Return the pixel of a utility."""
        low, high = self.limits.y
        return self.plot.y + (high - utility) / (high - low) * self.plot.height

    def at(self, point: Point) -> tuple[float, float]:
        """Return the pixel of a trial."""
        return self.x(point.leakage), self.y(point.utility)


class Layer(NamedTuple):
    """One study on the canvas."""

    info: FrontierInfo
    color: str
    shape: str
    steps: list[tuple[float, float]]


class Layout(NamedTuple):
    """A figure ready to be drawn.

    Attributes:
        canvas: the drawing area and its scales.
        layers: the studies, in the order given.
        labels: what is written beside points; no label covers another.
        undefended: the pixels of the undefended models; a model that studies share is there once.
        guess_y: the pixel of the line of the best guess; None when it lies below the view.
        guess_utility: the utility of that guess; None when the studies have different ones.
        alone_y, alone_utility: the same of the label party's own model; None also where it is not in view.
    """

    canvas: Canvas
    layers: list[Layer]
    labels: list[Placed]
    undefended: list[tuple[float, float]]
    guess_y: float | None
    guess_utility: float | None
    alone_y: float | None = None
    alone_utility: float | None = None


def lay_out(infos: Sequence[FrontierInfo], width: float = 860, height: float = 520, font: float = 13) -> Layout:
    """Lay out the frontiers of one or more studies.

    Args:
        infos: the studies; colors follow their order.
        width: of the whole figure.
        height: of the whole figure.
        font: the size of the text; margins and labels follow it.
    """
    plot = Box(font * 4.6, font * 1.0, width - font * 5.6, height - font * 5.0)
    canvas = Canvas(width, height, plot, limits(infos), font)
    layers = [
        Layer(
            info,
            COLORS[k % len(COLORS)],
            SHAPES[k % len(SHAPES)],
            [(canvas.x(x), canvas.y(y)) for x, y in staircase(info.front, canvas.limits.x[1])],
        )
        for k, info in enumerate(infos)
    ]
    references = list(dict.fromkeys(i.undefended for i in infos if i.undefended is not None))
    undefended = [(canvas.x(u.leakage), canvas.y(u.utility)) for u in references]
    guesses = {i.guess_utility for i in infos}
    value = guesses.pop() if len(guesses) == 1 else None
    shown = value is not None and canvas.limits.y[0] <= value <= canvas.limits.y[1]
    guess_y = canvas.y(value) if shown and value is not None else None
    own = {i.trust.alone.utility if i.trust.alone else None for i in infos}
    alone = own.pop() if len(own) == 1 else None
    alone_y = canvas.y(alone) if alone is not None and canvas.limits.y[0] <= alone <= canvas.limits.y[1] else None
    lines = [y for y in (guess_y, alone_y) if y is not None]
    labels = place(_wishes(canvas, layers, undefended), plot, _obstacles(canvas, layers, undefended, lines))
    return Layout(canvas, layers, labels, undefended, guess_y, value, alone_y, alone)


def text_width(text: str, font: float) -> float:
    """Return a safe estimate of a text's width in a common sans-serif font."""
    return len(text) * font * 0.56 + 2


def _wishes(canvas: Canvas, layers: Sequence[Layer], undefended: Sequence[tuple[float, float]]) -> list[Wish]:
    """Return the labels by importance: knees, the undefended models, and for a single study the points of its front."""
    font = canvas.font * 0.92

    def wish(x: float, y: float, text: str) -> Wish:
        return Wish(x, y, text, text_width(text, font), font * 1.25)

    knees = [
        wish(*canvas.at(layer.info.knee), f"knee: {words.setting(layer.info.knee.params, layer.info.moved)}")
        for layer in layers
        if layer.info.knee
    ]
    references = [wish(x, y, "undefended") for x, y in undefended]
    others = [
        wish(*canvas.at(p), p.label)
        for layer in layers
        for p in _ends_first(layer.info.front)
        if not p.is_knee and len(layers) == 1
    ]
    return [*knees, *references, *others]


def _ends_first(front: Sequence[Point]) -> list[Point]:
    """Return the front's two ends, then points between them, evenly spread, as many as a figure has room for."""
    if len(front) < 3:
        return list(front)
    stride = math.ceil((len(front) - 2) / _MOST_LABELS)
    return [front[0], front[-1], *front[1:-1:stride]]


def _obstacles(
    canvas: Canvas, layers: Sequence[Layer], undefended: Sequence[tuple[float, float]], lines: Sequence[float]
) -> list[Box]:
    """Return what labels must not cover: points, the undefended models, the front's steps, the lines across."""
    fronts = [canvas.at(p) for layer in layers for p in layer.info.front]
    boxes = [*boxes_around(fronts, canvas.font * 0.45), *boxes_around(undefended, canvas.font * 0.55)]
    rest = [canvas.at(p) for layer in layers for p in layer.info.points if not p.on_front]
    boxes += boxes_around(rest, canvas.font * 0.25)
    for layer in layers:
        for (x1, y1), (x2, y2) in zip(layer.steps, layer.steps[1:], strict=False):
            boxes.append(Box(min(x1, x2) - 1, min(y1, y2) - 1, abs(x2 - x1) + 2, abs(y2 - y1) + 2))
    for line in lines or [canvas.plot.y + canvas.plot.height]:
        boxes.append(Box(canvas.plot.x, line - canvas.font * 1.5, canvas.plot.width, canvas.font * 1.7))
    return boxes
