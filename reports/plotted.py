"""Drawing of a :class:`reports.figure.Figure` with plotly, for the page and for notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from reports.figure import Axis, Figure, Label, Mark, Marks, Polyline, Span
from reports.looks import COLORS

# A color that begins with a dollar is a CSS variable of the page, with another value in the dark theme.
INK, SOFT, LINE, MUTED, CARD = "$ink", "$soft", "$line", "$muted", "$card"
LIGHT = {INK: "#1d2733", SOFT: "#5b6773", LINE: "#e1e5e9", MUTED: "#9aa5b1", CARD: "#ffffff"} | {
    f"$c{k}": color for k, color in enumerate(COLORS)
}
"""The light theme's values of the variables, for figures outside of a page."""

_SYMBOLS = {"triangle": "triangle-up", "down": "triangle-down", "plus": "cross"}
_SIZES = {"front": 10, "behind": 6, "muted": 5, "chosen": 20, "undefended": 10}
_WIDEST = 46  # characters in a line of the tooltip, about the width of a phone


def plotly_dict(figure: Figure, command: Callable[[str], str] | None = None) -> dict[str, Any]:
    """Return a figure as plotly's ``{"data", "layout"}``, with the page's CSS variables for colors.

    Args:
        figure: the figure to draw.
        command: returns the command that exports a point, by its key, for the tooltip.
    """
    data = [_line(line) for line in figure.lines]
    for group in figure.groups:
        if group.rank in ("front", "undefended"):
            data += _bars(group)
        data.append(_group(group, command))
    layout = {
        "font": {"color": INK, "family": "inherit", "size": 14},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 14, "t": 14, "b": 54},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": SOFT, "activecolor": INK},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": CARD, "bordercolor": SOFT, "font": {"color": INK, "size": 13}},
        "xaxis": _axis(figure.x),
        "yaxis": _axis(figure.y),
        "annotations": [_label(label, figure.x.limits) for label in figure.labels if label.weight != "plain"],
    }
    return {"data": data, "layout": layout}


def plotly_figure(figure: Figure) -> Any:
    """Return a figure as ``plotly.graph_objects.Figure`` in light colors, for notebooks."""
    import plotly.graph_objects as go

    drawn = go.Figure(in_light(plotly_dict(figure)))
    return drawn.update_layout(showlegend=True, template="none", title=figure.title, margin={"t": 60})


def in_light(value: Any) -> Any:
    """Replace CSS variables in plotly data by the light theme's colors."""
    if isinstance(value, str):
        return LIGHT.get(value, "sans-serif" if value == "inherit" else value)
    if isinstance(value, dict):
        return {k: in_light(v) for k, v in value.items()}
    return [in_light(v) for v in value] if isinstance(value, list) else value


def _axis(axis: Axis) -> dict[str, Any]:
    # No zoom beyond the range of the metric.
    low, high = axis.reach
    return {
        "title": {"text": axis.title, "standoff": 8},
        "range": list(axis.limits),
        "minallowed": low,
        "maxallowed": high,
        "gridcolor": LINE,
        "zeroline": False,
        "tickcolor": LINE,
        "tickfont": {"color": SOFT},
        "nticks": 8,
        "automargin": True,
    }


def _line(line: Polyline) -> dict[str, Any]:
    dash = {"alone": "dash", "guess": "dot"}.get(line.kind, "solid")
    main = line.kind in ("front", "growth")
    return {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "x": [c[0] for c in line.corners],
        "y": [c[1] for c in line.corners],
        "line": {"color": INK if main else SOFT, "width": 2 if main else 1.4, "dash": dash},
        "opacity": 0.75 if main else 1,
        "hoverinfo": "x+y" if line.kind == "growth" else "skip",
        "showlegend": line.kind != "growth",
    }


def _group(group: Marks, command: Callable[[str], str] | None) -> dict[str, Any]:
    color = _color(group)
    filled = group.rank in ("front",)
    shape = _SYMBOLS.get(group.look.shape, group.look.shape)
    symbols = {"chosen": "circle-open", "undefended": "x-thin", "front": shape}
    edge = {"front": CARD, "chosen": INK, "undefended": INK}.get(group.rank, color)
    marker = {
        "symbol": symbols.get(group.rank, f"{shape}-open"),
        "size": _SIZES[group.rank],
        "color": color if filled else INK if group.rank in ("chosen", "undefended") else color,
        "line": {"color": edge, "width": {"front": 1, "chosen": 2.2, "undefended": 2.6}.get(group.rank, 1)},
    }
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": group.name,
        "legendgroup": group.name,
        "showlegend": group.rank in ("front", "undefended"),
        "x": [m.x for m in group.marks],
        "y": [m.y for m in group.marks],
        "marker": marker,
        "opacity": {"behind": 0.5, "muted": 0.35}.get(group.rank, 1),
        "cliponaxis": False,
        "meta": group.rank,
    }
    if group.rank == "chosen":
        return {**trace, "hoverinfo": "skip"}
    texts = ["<br>".join(_wrapped(m, command)) for m in group.marks]
    return {
        **trace,
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "customdata": [m.key for m in group.marks],
    }


def _color(group: Marks) -> str:
    return MUTED if group.look.color is None else f"$c{group.look.color}"


def _wrapped(mark: Mark, command: Callable[[str], str] | None) -> Iterator[str]:
    lines = [*mark.says, *([command(mark.key)] if command is not None and mark.key else [])]
    for line in lines:
        yield from (escape(part, quote=False) for part in wrapped(line))  # plotly interprets some tags


def wrapped(line: str) -> list[str]:
    """Wrap a line to the width of a phone, ten times as fast as ``textwrap``."""
    words = line.split(" ")
    if not all(0 < len(word) <= _WIDEST and word.isprintable() for word in words):
        return textwrap.wrap(line, _WIDEST, break_on_hyphens=False) or [""]
    parts, part = [], words[0]
    for word in words[1:]:
        if len(part) + 1 + len(word) <= _WIDEST:
            part = f"{part} {word}"
        else:
            parts.append(part)
            part = word
    return [*parts, part]


def _bars(group: Marks) -> list[dict[str, Any]]:
    """Draw error bars as lines: plotly's own begin at the mark, which may lie outside its interval."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for mark in group.marks:
        for x, y in ((mark.x_bar, (mark.y, mark.y)), ((mark.x, mark.x), mark.y_bar)):
            if x is not None and y is not None:
                xs += [*x, None]
                ys += [*y, None]
    color = INK if group.rank == "undefended" else _color(group)
    look = {"mode": "lines", "line": {"color": color, "width": 1.2}, "opacity": 0.45, "hoverinfo": "skip"}
    grouped = {"name": group.name, "legendgroup": group.name, "showlegend": False, "meta": "bars"}
    return [{"type": "scatter", "x": xs, "y": ys, **look, **grouped}] if xs else []


def _label(label: Label, across: Span) -> dict[str, Any]:
    """Return a label beside a point or on a line as a plotly annotation."""
    here = {"x": label.x, "y": label.y, "text": escape(label.text, quote=False), "font": {"size": 13, "color": INK}}
    if label.weight == "line":
        return {**here, "showarrow": False, "xanchor": "right", "yanchor": "top", "font": {"size": 12, "color": SOFT}}
    # The space above a front is free; a point far to the right has its text on the left.
    right = label.x > (across[0] + across[1]) / 2
    name = label.text.partition(":")[0]  # fits a narrow drawing
    up = label.text != name
    away = {"ax": -16 if right else 20, "ay": -40 if up else 34, "xanchor": "right" if right else "left"}
    text = f"<b>{here['text']}</b>" if label.text != name else here["text"]
    return {
        **here,
        "text": text,
        "name": name,
        "arrowcolor": SOFT,
        "arrowwidth": 1,
        "arrowhead": 0,
        "standoff": 9,
        **away,
    }
