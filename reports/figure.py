"""The frontier as PNG and SVG files, for papers and slides (matplotlib)."""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING

from reports import words
from reports.frontier import FrontierInfo, ticks
from reports.layout import Canvas, Layer, Layout, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, GRID = "#1d2733", "#5b6773", "#e3e7eb"
_DPI = 100
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "pentagon": "p", "hexagon": "h"}


def draw_frontier(infos: Sequence[FrontierInfo]) -> Figure:
    """Draw the frontiers of one or more studies."""
    from matplotlib.figure import Figure

    layout = lay_out(infos, 860, 540, 13)
    canvas = layout.canvas
    figure = Figure(figsize=(canvas.width / _DPI, canvas.height / _DPI), dpi=_DPI, facecolor="white")
    box, head = canvas.plot, 26.0
    figure.set_size_inches(canvas.width / _DPI, (canvas.height + head) / _DPI)
    tall = canvas.height + head
    axes = figure.add_axes(
        (box.x / canvas.width, (canvas.height - box.y - box.height) / tall, box.width / canvas.width, box.height / tall)
    )
    _frame(axes, canvas, infos)
    _guess(axes, layout)
    _alone(axes, layout)
    for layer in layout.layers:
        _layer(axes, layer, canvas, fill=len(infos) == 1)
    _undefended(axes, layout)
    _labels(axes, layout)
    _title(axes, infos)
    return figure


def save_frontier(infos: Sequence[FrontierInfo], folder: Path, name: str = "frontier") -> list[Path]:
    """Write the figure as ``NAME.png`` (200 dpi) and ``NAME.svg``; the same study gives the same bytes.

    Returns:
        The files.
    """
    import matplotlib as mpl

    figure = draw_frontier(infos)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with mpl.rc_context({"svg.hashsalt": "tune-vfl", "svg.fonttype": "none"}):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            drawn = BytesIO()
            figure.savefig(drawn, format=kind, dpi=200, metadata=metadata, bbox_inches="tight", pad_inches=0.15)
            path = folder / f"{name}.{kind}"
            path.write_bytes(drawn.getvalue())
            files.append(path)
    return files


def _points(pixels: float) -> float:
    return pixels * 72 / _DPI


def _frame(axes: Axes, canvas: Canvas, infos: Sequence[FrontierInfo]) -> None:
    axes.set_xlim(*canvas.limits.x)
    axes.set_ylim(*canvas.limits.y)
    axes.set_xticks(ticks(*canvas.limits.x, about=8))
    axes.set_yticks(ticks(*canvas.limits.y))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(colors=SOFT, length=0, labelsize=_points(canvas.font))
    size = _points(canvas.font)
    axes.set_xlabel("leakage: advantage of the worst attack  (← better)", color=INK, fontsize=size, labelpad=8)
    names = list(dict.fromkeys(i.metric for i in infos))
    axes.set_ylabel(f"{names[0] if len(names) == 1 else 'utility'}  (→ better)", color=INK, fontsize=size, labelpad=8)


def _guess(axes: Axes, layout: Layout) -> None:
    if layout.guess_utility is None:
        return
    text = f"the best guess, {layout.guess_utility:.3g}"
    height = layout.guess_utility
    if layout.guess_y is None:
        height, text = layout.canvas.limits.y[0], f"↓ {text}, lies below this view"
    else:
        axes.axhline(height, color=SOFT, linestyle=(0, (2, 3)), linewidth=1.2)
    where = (layout.canvas.limits.x[1], height)
    size = _points(layout.canvas.font * 0.9)
    axes.annotate(text, where, (-4, 5), textcoords="offset points", ha="right", color=SOFT, fontsize=size)


def _alone(axes: Axes, layout: Layout) -> None:
    """Draw the line of the label party's own model, where it is in view."""
    if layout.alone_y is None or layout.alone_utility is None:
        return
    axes.axhline(layout.alone_utility, color=SOFT, linestyle=(0, (6, 3)), linewidth=1.2)
    where, size = (layout.canvas.limits.x[1], layout.alone_utility), _points(layout.canvas.font * 0.9)
    text = f"the label party alone, {layout.alone_utility:.3g}"
    axes.annotate(text, where, (-4, 5), textcoords="offset points", ha="right", color=SOFT, fontsize=size)


def _errors(marks: Sequence[tuple[float, tuple[float, float]]]) -> list[list[float]]:
    """Return how far bars reach below and above their marks; a mark may lie beyond an end of its interval."""
    return [[max(0.0, at - low) for at, (low, _) in marks], [max(0.0, high - at) for at, (_, high) in marks]]


def _layer(axes: Axes, layer: Layer, canvas: Canvas, *, fill: bool) -> None:
    info, color, marker = layer.info, layer.color, _MARKERS[layer.shape]
    behind = [p for p in info.points if not p.on_front]
    axes.scatter(
        [p.leakage for p in behind],
        [p.utility for p in behind],
        s=18,
        marker=marker,
        facecolors="none",
        edgecolors=color,
        alpha=0.45,
        linewidths=1.0,
        zorder=2,
    )
    if not info.front:
        return
    xs, ys = [p.leakage for p in info.front], [p.utility for p in info.front]
    edge_x, edge_y = [*xs, max(canvas.limits.x[1], xs[-1])], [*ys, ys[-1]]
    axes.step(edge_x, edge_y, where="post", color=color, linewidth=1.4, alpha=0.8, zorder=3)
    if fill:
        axes.fill_between(edge_x, edge_y, canvas.limits.y[0], step="post", color=color, alpha=0.07, linewidth=0)
    axes.errorbar(
        xs,
        ys,
        xerr=_errors([(p.leakage, p.leakage_span) for p in info.front]),
        yerr=_errors([(p.utility, p.utility_span) for p in info.front]),
        fmt="none",
        ecolor=color,
        elinewidth=1.0,
        alpha=0.55,
        zorder=3,
    )
    axes.scatter(
        xs, ys, s=46, marker=marker, color=color, edgecolors="white", linewidths=0.9, zorder=4, label=info.study
    )
    if info.knee:
        x, y = [info.knee.leakage], [info.knee.utility]
        axes.scatter(x, y, s=190, marker="o", facecolors="none", edgecolors=color, linewidths=1.6, zorder=4)


def _undefended(axes: Axes, layout: Layout) -> None:
    for known in dict.fromkeys(layer.info.undefended for layer in layout.layers):
        if known is None:
            continue
        axes.errorbar(
            [known.leakage],
            [known.utility],
            xerr=_errors([(known.leakage, known.leakage_span)]),
            yerr=_errors([(known.utility, known.utility_span)]),
            fmt="x",
            color=INK,
            markersize=8,
            markeredgewidth=2,
            elinewidth=1,
            zorder=5,
        )


def _labels(axes: Axes, layout: Layout) -> None:
    canvas = layout.canvas
    (low_x, high_x), (low_y, high_y) = canvas.limits

    def data(x: float, y: float) -> tuple[float, float]:
        across, down = (x - canvas.plot.x) / canvas.plot.width, (y - canvas.plot.y) / canvas.plot.height
        return low_x + across * (high_x - low_x), high_y - down * (high_y - low_y)

    for label in layout.labels:
        box = label.box
        x, y = label.anchor
        nearest = (min(max(x, box.x), box.x + box.width), min(max(y, box.y), box.y + box.height))
        if abs(nearest[0] - x) + abs(nearest[1] - y) > 16:
            ends = [data(x, y), data(*nearest)]
            axes.plot([e[0] for e in ends], [e[1] for e in ends], color=SOFT, linewidth=0.7, zorder=2)
        weight = "bold" if label.text.startswith("knee") else "normal"
        where = data(box.x + box.width / 2, box.y + box.height / 2)
        size = _points(canvas.font * 0.9)
        axes.text(*where, label.text, ha="center", va="center", color=INK, fontsize=size, weight=weight, zorder=6)


def _title(axes: Axes, infos: Sequence[FrontierInfo]) -> None:
    size = _points(16)
    if len(infos) == 1:
        info = infos[0]
        counts = f"{len(info.front)} of {words.count(len(info.points), 'setting')} on the front, bars: {info.bars}"
        if len(info.moved) == 1:
            counts += f", labels: {info.moved[0]}"
        axes.set_title(info.title, loc="left", color=INK, fontsize=size, weight="bold", pad=12)
        axes.set_title(counts, loc="right", color=SOFT, fontsize=_points(12), pad=13)
        return
    # The legend lies between the title and the axes, four names a row.
    rows = math.ceil(sum(bool(i.front) for i in infos) / 4)
    axes.set_title(f"{len(infos)} studies", loc="left", color=INK, fontsize=size, weight="bold", pad=12 + 16 * rows)
    if any(i.front for i in infos):
        axes.legend(frameon=False, fontsize=_points(12), loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderpad=0)
