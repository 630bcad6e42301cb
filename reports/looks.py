"""The looks of figures: a color and a marker shape for each defense, distinct in color-blind and in gray print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#882255")
"""Six colors of Okabe and Ito (2008) that are visible on white, and Tol's wine."""

DARK = (*COLORS[:-1], "#f0e442")
"""The same for a dark page, with Okabe and Ito's yellow in the place of wine."""

SHAPES = ("circle", "square", "triangle", "diamond", "down", "star", "plus")
SIGNS = {"circle": "●", "square": "■", "triangle": "▲", "diamond": "◆", "down": "▼", "star": "★", "plus": "✚"}
"""The shapes as characters, for keys in a text."""


class Look(NamedTuple):
    """A color, by its place in :data:`COLORS`, and a shape of :data:`SHAPES`; a muted look has no color."""

    color: int | None
    shape: str


PLAIN = Look(None, "circle")


def looks(names: Sequence[str], standing_out: Sequence[str]) -> dict[str, Look]:
    """Return a style for each name; the first seven prominent ones share no color and no shape.

    Args:
        names: distinct names.
        standing_out: the prominent names, drawn in color; the rest are muted.
    """
    ordered = [*(n for n in names if n in standing_out), *(n for n in names if n not in standing_out)]
    many, shapes = len(COLORS), len(SHAPES)
    # Each round pairs every color with the next shape.
    found = {name: Look(k % many, SHAPES[(k + k // many) % shapes]) for k, name in enumerate(ordered)}
    return {name: found[name] if name in standing_out else found[name]._replace(color=None) for name in names}


@contextmanager
def own_settings() -> Iterator[None]:
    """Draw with matplotlib's defaults in a block, whatever a ``matplotlibrc`` of the working folder or the user says.

    One that another account has planted could run TeX, and figures of two machines would differ.
    """
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = "tune-vfl", "none"
        yield
