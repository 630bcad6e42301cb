"""Drawing of a :class:`reports.figure.Figure` with matplotlib, as PNG and SVG files for papers and slides."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.figure import Axis, Figure, Mark, Marks, Span, ticks
from reports.labels import Box, Placed, Wish, boxes_around, place
from reports.looks import COLORS, own_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


INK, SOFT, GRID, MUTED = "#1d2733", "#5b6773", "#e3e7eb", "#9aa5b1"
_DPI, _FONT = 100, 13.0
_WIDTH, _HEIGHT = 860.0, 540.0
_PLOT = Box(_FONT * 5.0, _FONT * 1.2, _WIDTH - _FONT * 6.4, _HEIGHT - _FONT * 5.4)
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "down": "v", "star": "*", "plus": "P"}
_DASHES: dict[str, Any] = {"front": "-", "alone": (0, (6, 3)), "guess": (0, (2, 3)), "growth": "-"}
_MOST_SHAPES = 1000
"""The largest number of marks in a group that an SVG file has as shapes; more are one raster image."""
_SIZES = {"front": 50.0, "behind": 17.0, "muted": 12.0, "chosen": 210.0, "undefended": 60.0}


class _PlotScale(NamedTuple):
    """Conversion of a figure's coordinates to pixels; y grows downward."""

    x: Span
    y: Span

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return _PLOT.x + across * _PLOT.width, _PLOT.y + (1 - up) * _PLOT.height

    def back(self, x: float, y: float) -> tuple[float, float]:
        across, down = (x - _PLOT.x) / _PLOT.width, (y - _PLOT.y) / _PLOT.height
        return self.x[0] + across * (self.x[1] - self.x[0]), self.y[1] - down * (self.y[1] - self.y[0])

    def holds(self, x: float, y: float) -> bool:
        return self.x[0] <= x <= self.x[1] and self.y[0] <= y <= self.y[1]


def drawn(figure: Figure) -> Drawing:
    """Draw a figure with matplotlib."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(_WIDTH / _DPI, _HEIGHT / _DPI), dpi=_DPI, facecolor="white")
    axes = drawing.add_axes(
        (_PLOT.x / _WIDTH, 1 - (_PLOT.y + _PLOT.height) / _HEIGHT, _PLOT.width / _WIDTH, _PLOT.height / _HEIGHT)
    )
    scale = _PlotScale(figure.x.limits, figure.y.limits)
    _frame(axes, figure)
    for line in figure.lines:
        xs, ys = [c[0] for c in line.corners], [c[1] for c in line.corners]
        main = line.kind in ("front", "growth")
        width, color = (1.5, INK) if main else (1.2, SOFT)
        axes.plot(
            xs, ys, color=color, linewidth=width, linestyle=_DASHES[line.kind], alpha=0.75 if main else 1, zorder=3
        )
    for group in figure.groups:
        _group(axes, group, scale)
    _labels(axes, figure, scale)
    _title(axes, figure)
    return drawing


def files_of(figure: Figure) -> dict[str, bytes]:
    """Return the figure as ``NAME.png`` (200 dpi) and ``NAME.svg``; the same figure gives the same bytes."""
    made = {}
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("png", {"dpi": 200, "metadata": {"Software": None}, "pil_kwargs": {"compress_level": 2}}),
        # The resolution of raster images in it.
        ("svg", {"dpi": 120, "metadata": {"Date": None, "Title": figure.title}}),
    )
    with own_settings():
        drawing = drawn(figure)
        drawing.draw_without_rendering()
        around = drawing.get_tightbbox().padded(0.15)
        for kind, how in kinds:
            written = BytesIO()
            drawing.savefig(written, format=kind, bbox_inches=around, **how)
            made[f"{figure.name}.{kind}"] = written.getvalue()
    return made


def _points(pixels: float) -> float:
    return pixels * 72 / _DPI


def _frame(axes: Axes, figure: Figure) -> None:
    axes.set_xlim(*figure.x.limits)
    axes.set_ylim(*figure.y.limits)
    axes.set_xticks(_ticks(figure.x, 8))
    axes.set_yticks(_ticks(figure.y, 6))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    size = _points(_FONT)
    axes.tick_params(colors=SOFT, length=0, labelsize=size)
    axes.set_xlabel(figure.x.title, color=INK, fontsize=size, labelpad=8)
    axes.set_ylabel(figure.y.title, color=INK, fontsize=size, labelpad=8)


def _ticks(axis: Axis, about: int) -> list[float]:
    return ticks(*axis.limits, about=about)


def _group(axes: Axes, group: Marks, scale: _PlotScale) -> None:
    color = MUTED if group.look.color is None else COLORS[group.look.color]
    shown = [m for m in group.marks if scale.holds(m.x, m.y)]
    xs, ys = [m.x for m in shown], [m.y for m in shown]
    look: dict[str, Any] = {"s": _SIZES[group.rank], "clip_on": False, "rasterized": len(shown) > _MOST_SHAPES}
    if group.rank in ("front", "undefended"):
        bars, ink = [m for m in shown if m.x_bar or m.y_bar], color if group.rank == "front" else INK
        _bars(axes, bars, ink)
    if group.rank == "front":
        marker = _MARKERS[group.look.shape]
        axes.scatter(xs, ys, marker=marker, color=color, edgecolors="white", linewidths=0.8, zorder=5, **look)
    elif group.rank == "chosen":
        axes.scatter(xs, ys, marker="o", facecolors="none", edgecolors=INK, linewidths=1.8, zorder=6, **look)
    elif group.rank == "undefended":
        axes.scatter(xs, ys, marker="x", color=INK, linewidths=2.2, zorder=6, **look)
    else:
        marker, alpha = _MARKERS[group.look.shape], 0.55 if group.rank == "behind" else 0.4
        axes.scatter(
            xs, ys, marker=marker, facecolors="none", edgecolors=color, alpha=alpha, linewidths=0.9, zorder=2, **look
        )


def _bars(axes: Axes, marks: Sequence[Mark], color: str) -> None:
    """Draw error bars as lines: matplotlib's own begin at the mark, which may lie outside its interval."""
    from matplotlib.collections import LineCollection

    ends = [b for m in marks for b in ((m.x_bar, (m.y, m.y)), ((m.x, m.x), m.y_bar))]
    bars = [list(zip(xs, ys, strict=True)) for xs, ys in ends if xs is not None and ys is not None]
    axes.add_collection(
        LineCollection(
            bars,
            colors=color,
            linewidths=0.9,
            alpha=0.4,
            zorder=2.5,
            capstyle="butt",
            rasterized=len(marks) > _MOST_SHAPES,
        ),
        autolim=False,
    )


def _labels(axes: Axes, figure: Figure, scale: _PlotScale) -> None:
    size = _points(_FONT * 0.9)
    for placed, strong in _placed(figure, scale):
        box, (x, y) = placed.box, placed.anchor
        nearest = (min(max(x, box.x), box.x + box.width), min(max(y, box.y), box.y + box.height))
        if abs(nearest[0] - x) + abs(nearest[1] - y) > 16:
            ends = [scale.back(x, y), scale.back(*nearest)]
            axes.plot([e[0] for e in ends], [e[1] for e in ends], color=SOFT, linewidth=0.7, zorder=2)
        where, weight = scale.back(box.x + box.width / 2, box.y + box.height / 2), "bold" if strong else "normal"
        axes.text(*where, placed.text, ha="center", va="center", color=INK, fontsize=size, weight=weight, zorder=7)
    for label in figure.labels:
        if label.weight == "line":
            where = (figure.x.limits[1], label.y)
            axes.annotate(
                label.text, where, (-4, 4), textcoords="offset points", ha="right", color=SOFT, fontsize=size, zorder=4
            )
    said = "; ".join(figure.beyond)
    axes.annotate(
        f"↓ {said}" if said else "", (1, 0), (-4, 5), xycoords="axes fraction", textcoords="offset points", ha="right",
        color=SOFT, fontsize=size, zorder=4,
    )  # fmt: skip


def _placed(figure: Figure, scale: _PlotScale) -> list[tuple[Placed, bool]]:
    """Return labels beside points without overlaps, each with a flag for the setting that is marked."""
    wishes = []
    for label in figure.labels:
        if label.weight != "line" and scale.holds(label.x, label.y):
            font = _FONT * (1.0 if label.weight == "strong" else 0.92)
            wishes.append(Wish(*scale.at(label.x, label.y), label.text, text_width(label.text, font), font * 1.25))
    placed = place(wishes, _PLOT, list(_obstacles(figure, scale)) if wishes else [])
    return [(p, p.text.startswith(("recommended: ", "compromise: "))) for p in placed]


def text_width(text: str, font: float) -> float:
    """Return a safe estimate of a text's width in a common sans-serif font."""
    return len(text) * font * 0.56 + 2


def _obstacles(figure: Figure, scale: _PlotScale) -> Iterator[Box]:
    """Yield boxes that labels must not cover: marks, the steps of the front, the names of lines."""
    sizes = {"front": 0.45, "undefended": 0.55, "chosen": 0.8}
    for group in figure.groups:
        shown = [scale.at(m.x, m.y) for m in group.marks if scale.holds(m.x, m.y)]
        yield from boxes_around(shown, _FONT * sizes.get(group.rank, 0.25))
    for line in figure.lines:
        corners = [scale.at(*c) for c in line.corners]
        if line.kind in ("alone", "guess"):
            yield Box(_PLOT.x, corners[0][1] - _FONT * 1.5, _PLOT.width, _FONT * 1.7)
            continue
        for (x1, y1), (x2, y2) in pairwise(corners):
            yield Box(min(x1, x2) - 1, min(y1, y2) - 1, abs(x2 - x1) + 2, abs(y2 - y1) + 2)
    if figure.beyond:
        yield Box(_PLOT.x, _PLOT.y + _PLOT.height - _FONT * 1.6, _PLOT.width, _FONT * 1.6)


def _title(axes: Axes, figure: Figure) -> None:
    """Write the title and, below the axes' title, a key of the defenses where there are several."""
    from matplotlib.lines import Line2D

    axes.set_title(figure.title, loc="left", color=INK, fontsize=_points(16), weight="bold", pad=12)
    axes.set_title(figure.note, loc="right", color=SOFT, fontsize=_points(12), pad=13)
    if len(figure.keys) < 2:
        return
    keys = [(n, look) for n, look in figure.keys if look.color is not None]
    handles = [
        Line2D(
            [], [], linestyle="", marker=_MARKERS[look.shape], color=COLORS[look.color or 0], label=name, markersize=7
        )
        for name, look in keys
    ]
    if rest := len(figure.keys) - len(keys):
        text = f"{rest} others" if rest > 1 else next(n for n, look in figure.keys if look.color is None)
        face: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": MUTED}
        handles.append(Line2D([], [], linestyle="", marker="o", markersize=5, label=text, **face))
    axes.legend(
        handles=handles, frameon=False, fontsize=_points(12), loc="upper center", bbox_to_anchor=(0.5, -0.13),
        ncols=min(len(handles), 6), handletextpad=0.2, columnspacing=1.4,
    )  # fmt: skip
