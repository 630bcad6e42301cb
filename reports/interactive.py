"""The frontier as a plotly figure, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.layout import COLORS
from reports.svg import tip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.frontier import FrontierInfo, Point

_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "pentagon", "hexagon")


def interactive(infos: Sequence[FrontierInfo]) -> Any:
    """Return the frontiers of one or more studies as a ``plotly.graph_objects.Figure``."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for k, info in enumerate(infos):
        look = {"color": COLORS[k % len(COLORS)], "symbol": _SYMBOLS[k % len(_SYMBOLS)]}
        behind = [p for p in info.points if not p.on_front]
        figure.add_trace(
            _trace(info, behind, name=f"{info.study}: dominated", mode="markers", opacity=0.4, marker=look)
        )
        bars = {
            "error_x": _errors([(p.leakage, p.leakage_span) for p in info.front]),
            "error_y": _errors([(p.utility, p.utility_span) for p in info.front]),
        }
        line = {"shape": "hv", "color": look["color"], "width": 1.5}
        front = {"mode": "lines+markers", "line": line, "marker": {**look, "size": 10}, **bars}
        figure.add_trace(_trace(info, info.front, name=f"{info.study}: front", **front))
    for known in dict.fromkeys(i.undefended for i in infos):
        if known is not None:
            cross = {"symbol": "x", "size": 11, "color": "#1d2733"}
            figure.add_trace(
                go.Scatter(x=[known.leakage], y=[known.utility], mode="markers", name="undefended", marker=cross)
            )
    for guess in {i.guess_utility for i in infos}:
        figure.add_hline(y=guess, line_dash="dot", annotation_text="the best guess")
    for alone in {i.trust.alone.utility for i in infos if i.trust.alone}:
        figure.add_hline(y=alone, line_dash="dash", annotation_text="the label party alone")
    figure.update_layout(template="plotly_white", xaxis_title="leakage", yaxis_title="utility")
    return figure


def _errors(marks: Sequence[tuple[float, tuple[float, float]]]) -> dict[str, Any]:
    below, above = [max(0.0, at - low) for at, (low, _) in marks], [max(0.0, high - at) for at, (_, high) in marks]
    return {"type": "data", "array": above, "arrayminus": below, "symmetric": False, "thickness": 1}


def _trace(info: FrontierInfo, points: Sequence[Point], **look: Any) -> Any:
    import plotly.graph_objects as go

    texts = ["<br>".join(tip(info, p)) for p in points]
    xs, ys = [p.leakage for p in points], [p.utility for p in points]
    return go.Scatter(x=xs, y=ys, text=texts, hoverinfo="text", **look)
