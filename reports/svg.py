"""The frontier as inline SVG, without a library, in the page's light or dark colors, with details under the pointer."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from reports import words
from reports.frontier import FrontierInfo, Point, Undefended, ticks
from reports.layout import Canvas, Layer, Layout, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence


def frontier_svg(infos: Sequence[FrontierInfo], width: float = 860, height: float = 520, font: float = 13) -> str:
    """Draw the frontiers of one or more studies as an ``<svg>`` element; the page's style sheet colors it."""
    layout = lay_out(infos, width, height, font)
    canvas = layout.canvas
    parts = [
        (
            f'<svg class="chart" viewBox="0 0 {canvas.width:g} {canvas.height:g}" role="img" '
            f'font-size="{canvas.font:g}" aria-label="{escape(describe(infos))}">'
        ),
        *_axes(canvas, _utility_name(infos)),
        *_guess(layout),
        *_alone(layout),
        *(line for k, layer in enumerate(layout.layers) for line in _steps(layer, canvas, fill=len(infos) == 1, k=k)),
        *_undefended(layout),
        *(line for k, layer in enumerate(layout.layers) for line in _points(layer, canvas, k)),
        *_labels(layout),
        "</svg>",
    ]
    return "\n".join(parts)


def describe(infos: Sequence[FrontierInfo]) -> str:
    """Return what the figure shows in one sentence, for those who cannot see it."""
    parts = [f"{i.study}: {words.count(len(i.front), 'point')} on the front of {len(i.points)}" for i in infos]
    return "Utility against leakage. " + "; ".join(parts) + "."


def _utility_name(infos: Sequence[FrontierInfo]) -> str:
    names = list(dict.fromkeys(i.metric for i in infos))
    return names[0] if len(names) == 1 else "utility"


def _axes(canvas: Canvas, utility: str) -> list[str]:
    box, lines = canvas.plot, []
    bottom = box.y + box.height
    for value in ticks(*canvas.limits.y):
        y = canvas.y(value)
        lines.append(f'<line class="grid" x1="{box.x:.1f}" x2="{box.x + box.width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(
            f'<text class="tick" x="{box.x - 8:.1f}" y="{y:.1f}" dy=".35em" text-anchor="end">{value:g}</text>'
        )
    for value in ticks(*canvas.limits.x, about=max(3, int(box.width / 90))):
        x = canvas.x(value)
        lines.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{box.y:.1f}" y2="{bottom:.1f}"/>')
        where = f'x="{x:.1f}" y="{bottom + canvas.font * 1.5:.1f}"'
        lines.append(f'<text class="tick" {where} text-anchor="middle">{value:g}</text>')
    middle, below = box.y + box.height / 2, bottom + canvas.font * 3.4
    lines.append(
        f'<line class="axis" x1="{box.x:.1f}" x2="{box.x + box.width:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>'
    )
    lines.append(f'<text class="name" x="{box.x:.1f}" y="{below:.1f}">← better</text>')
    lines.append(
        f'<text class="name" x="{box.x + box.width:.1f}" y="{below:.1f}" text-anchor="end">'
        "leakage: advantage of the worst attack</text>"
    )
    turned = f'transform="translate({canvas.font * 1.0:.1f} {middle:.1f}) rotate(-90)"'
    lines.append(f'<text class="name" {turned} text-anchor="middle">{escape(utility)} → better</text>')
    return lines


def _guess(layout: Layout) -> list[str]:
    box, canvas = layout.canvas.plot, layout.canvas
    if layout.guess_utility is None:
        return []
    name = f"the best guess, {layout.guess_utility:.3g}"
    if layout.guess_y is None:
        y, name = box.y + box.height, f"↓ {name}, lies below this view"
        line = ""
    else:
        y = layout.guess_y
        line = f'<line class="guess" x1="{box.x:.1f}" x2="{box.x + box.width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    text = f'x="{box.x + box.width - 4:.1f}" y="{y - canvas.font * 0.5:.1f}" text-anchor="end"'
    return [line, f'<text class="note" {text}>{name}</text>']


def _alone(layout: Layout) -> list[str]:
    """Draw the line of the label party's own model, where it is in view."""
    if layout.alone_y is None or layout.alone_utility is None:
        return []
    box, canvas, y = layout.canvas.plot, layout.canvas, layout.alone_y
    line = f'<line class="guess" x1="{box.x:.1f}" x2="{box.x + box.width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    text = f'x="{box.x + box.width - 4:.1f}" y="{y - canvas.font * 0.5:.1f}" text-anchor="end"'
    return [line, f'<text class="note" {text}>the label party alone, {layout.alone_utility:.3g}</text>']


def _steps(layer: Layer, canvas: Canvas, *, fill: bool, k: int) -> list[str]:
    if len(layer.steps) < 2:
        return []
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in layer.steps)
    lines = [f'<path class="steps s{k}" d="{path}"/>']
    if fill:
        bottom = canvas.plot.y + canvas.plot.height
        closed = f"{path} L{layer.steps[-1][0]:.1f} {bottom:.1f} L{layer.steps[0][0]:.1f} {bottom:.1f} Z"
        lines.insert(0, f'<path class="area s{k}" d="{closed}"/>')
    return lines


def _undefended(layout: Layout) -> list[str]:
    lines = []
    references = {i.undefended: i for i in (layer.info for layer in layout.layers) if i.undefended is not None}
    for reference, info in references.items():
        x, y = layout.canvas.x(reference.leakage), layout.canvas.y(reference.utility)
        size = layout.canvas.font * 0.5
        tip = [
            "undefended model",
            f"{info.metric} {words.span(reference.utility, reference.utility_span)}",
            f"leakage {words.span(reference.leakage, reference.leakage_span)}",
        ]
        lines += _bars(layout.canvas, reference)
        arm = f"{2 * size:.1f}"
        cross = f"M{x - size:.1f} {y - size:.1f} l{arm} {arm} m0 -{arm} l-{arm} {arm}"
        lines.append(
            f'<g class="mark" {_tip(tip)}><path class="halo" d="{cross}"/><path class="bare" d="{cross}"/></g>'
        )
    return lines


def _points(layer: Layer, canvas: Canvas, k: int) -> list[str]:
    lines = []
    behind = [p for p in layer.info.points if not p.on_front]
    for point in [*behind, *layer.info.front]:
        x, y = canvas.at(point)
        kind = f"s{k} " + ("front" if point.on_front else "behind")
        radius = canvas.font * (0.42 if point.on_front else 0.3)
        if point.on_front:
            lines += _bars(canvas, point, kind=f"s{k}")
        ring = (
            f'<circle class="ring s{k}" cx="{x:.1f}" cy="{y:.1f}" r="{canvas.font * 0.8:.1f}"/>'
            if point.is_knee
            else ""
        )
        mark = f'<path class="{kind}" d="{shape(layer.shape, x, y, radius)}"/>'
        key = f'data-trial="{escape(layer.info.study)}/{point.number}"'
        lines.append(f'<g class="mark" tabindex="0" {key} {_tip(tip(layer.info, point))}>{ring}{mark}</g>')
    return lines


def tip(info: FrontierInfo, point: Point) -> list[str]:
    """Return the lines shown under the pointer."""
    standing = "knee of the front" if point.is_knee else "on the front" if point.on_front else "dominated"
    lines = [
        f"{info.study}, trial {point.number}: {standing}",
        words.setting(point.params),
        f"{info.metric} {words.span(point.utility, point.utility_span)}",
        f"leakage {words.span(point.leakage, point.leakage_span)}",
    ]
    return [*lines, f"attack too weak: {', '.join(point.weak)}"] if point.weak else lines


def _tip(lines: Sequence[str]) -> str:
    return f'data-tip="{escape(chr(10).join(lines))}"'


def _bars(canvas: Canvas, mean: Point | Undefended, kind: str = "plain") -> list[str]:
    """Draw the bars, cut at the edge of the plot."""
    (low_x, high_x), (low_y, high_y) = canvas.limits
    left, right = canvas.x(max(low_x, mean.leakage_span[0])), canvas.x(min(high_x, mean.leakage_span[1]))
    top, bottom = canvas.y(min(high_y, mean.utility_span[1])), canvas.y(max(low_y, mean.utility_span[0]))
    across, down = canvas.x(mean.leakage), canvas.y(mean.utility)
    return [f'<path class="bar {kind}" d="M{left:.1f} {down:.1f}H{right:.1f}M{across:.1f} {top:.1f}V{bottom:.1f}"/>']


def _labels(layout: Layout) -> list[str]:
    lines = []
    for label in layout.labels:
        box = label.box
        middle_x, middle_y = box.x + box.width / 2, box.y + box.height / 2
        x, y = label.anchor
        gap = math.hypot(max(box.x - x, 0, x - box.x - box.width), max(box.y - y, 0, y - box.y - box.height))
        if gap > 14:
            near_x = min(max(x, box.x), box.x + box.width)
            near_y = min(max(y, box.y), box.y + box.height)
            lines.append(f'<line class="lead" x1="{x:.1f}" y1="{y:.1f}" x2="{near_x:.1f}" y2="{near_y:.1f}"/>')
        place = f'x="{middle_x:.1f}" y="{middle_y:.1f}" dy=".35em" text-anchor="middle"'
        strong = " strong" if label.text.startswith("knee") else ""
        lines.append(f'<text class="label{strong}" {place}>{escape(label.text)}</text>')
    return lines


def shape(name: str, x: float, y: float, r: float) -> str:
    """Return the path of a marker of radius ``r`` around (x, y)."""
    sides = {"square": (4, 45), "triangle": (3, -90), "diamond": (4, 0), "pentagon": (5, -90), "hexagon": (6, 0)}
    if name not in sides:
        return f"M{x - r:.2f} {y:.2f}a{r:.2f} {r:.2f} 0 1 0 {2 * r:.2f} 0a{r:.2f} {r:.2f} 0 1 0 {-2 * r:.2f} 0Z"
    corners, turn = sides[name]
    angles = [math.radians(turn + 360 * c / corners) for c in range(corners)]
    return "M" + " L".join(f"{x + 1.2 * r * math.cos(a):.2f} {y + 1.2 * r * math.sin(a):.2f}" for a in angles) + "Z"
