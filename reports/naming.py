"""Names of studies and settings in figures and tables, and the choice of defenses drawn in color."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reports.looks import COLORS, Look, looks
from tune_vfl.analysis import formatting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.analysis.joint_front import Joint
    from tune_vfl.analysis.setting import Setting
    from tune_vfl.records.studies import StudyRecord
    from tune_vfl.statistics.arrays import Floats

NEAR = (0.01, 0.05)
"""The largest deficits in utility and leakage of a defense near the front."""


class Names(NamedTuple):
    """The studies' names and styles in the figures and tables of a data set.

    Attributes:
        called: by study: its defense, or the study's own name where several share the defense.
        moved: by study, the searched parameters.
        looks: the style by displayed name; a prominent one has a color.
    """

    called: Mapping[str, str]
    moved: Mapping[str, Sequence[str]]
    looks: Mapping[str, Look]

    def setting(self, point: Setting) -> str:
        """Return a setting with its defense: ``laplace scale=0.01``."""
        return f"{self.called[point.study]} {formatting.setting(point.params, self.moved[point.study])}"

    def short(self, point: Setting) -> str:
        """Return a setting without the defense; of a single searched parameter the value alone."""
        moved = [n for n in self.moved[point.study] if n in point.params]
        return formatting.number(point.params[moved[0]]) if len(moved) == 1 else formatting.setting(point.params, moved)


def names_of(found: Joint) -> Names:
    """Name the studies of a data set; those on its joint front get colors first, then those near it."""
    defenses = [part.cell.defense for part in found.parts]
    called = {p.name: d if defenses.count(d) == 1 else p.name for p, d in zip(found.parts, defenses, strict=True)}
    outstanding = [called[study] for study in _standing_out(found)]
    moved = {part.name: moving_params(part) for part in found.parts}
    return Names(called, moved, looks(list(called.values()), outstanding))


def moving_params(record: StudyRecord) -> list[str]:
    """Return the parameters that the spec does not fix, in the order of the trials."""
    names = dict.fromkeys(n for t in record.trials for n in t.params)
    return [n for n in names if n not in record.cell.fixed]


def _standing_out(found: Joint) -> list[str]:
    on, front = {p.study for p in found.front}, np.array([p.objectives for p in found.front]).reshape(-1, 2)
    others: dict[str, list[tuple[float, float]]] = {}
    for point in found.points:
        if point.study not in on:
            others.setdefault(point.study, []).append(point.objectives)
    gaps = {study: _gaps(np.array(points), front).min() for study, points in others.items()}
    first = [part.name for part in found.parts if part.name in on]
    near = [study for gap, study in sorted((gap, study) for study, gap in gaps.items()) if gap <= 1]
    return first + near[: max(0, len(COLORS) - len(first))]


def _gaps(points: Floats, front: Floats) -> Floats:
    """Return the distances of ``(N, 2)`` points from a front, in units of :data:`NEAR`; 1 is still near."""
    if not len(front):
        return np.full(len(points), math.inf)
    ahead = (front - points[:, None]) * (1 / NEAR[0], -1 / NEAR[1])
    return np.asarray(np.maximum(ahead.min(-1).max(-1), 0.0))
