"""The best compromise among the settings of a data set, on a scale that does not change with their front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.evaluation.certainty import advantages_of, names_of
from tune_vfl.metrics import pareto
from tune_vfl.outcome import Outcome
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.statistics.arrays import Floats
from tune_vfl.statistics.choosing import Scale, knee, middle_of_the_best

_HALF_WIDTH = 1.645
"""Half of a 90% interval from many seeds, in standard errors."""


def knee_of(settings: SettingsTable, front: Sequence[int]) -> int | None:
    """Return the best compromise: of the confirmed settings on the front, else of the search's front.

    Args:
        settings: side by side.
        front: the places of those on the joint front.

    Returns:
        Its index; None without a point. Where the scale is not known, the point that is farthest from the chord
        between the front's ends.
    """
    stayed = [i for i, confirmed in enumerate(settings.confirmed) if confirmed]
    if stayed and (confirmed := _confirmed_knee(settings, stayed)) is not None:
        return confirmed
    places = sorted(front)
    outcomes = [settings.rows[i].trial.outcome for i in places]
    # A setting without attacks has no leakage to weigh.
    attacked = all(outcome.attacks for outcome in outcomes)
    gains = None if settings.whole is None else settings.whole.gains[:, places]
    position = compromise_of(outcomes, settings.scale if attacked else None, gains)
    return None if position is None else places[position]


def compromise_of(front: Sequence[Outcome], scale: Scale | None, gains: Floats | None = None) -> int | None:
    """Return the place of the best compromise among the settings of a front; None for an empty one.

    Args:
        front: their outcomes, ok and with the same seeds.
        scale: on which they are weighed; without one, or without attacks, it is the point that is farthest from the
            chord between the front's ends.
        gains: ``(K, N, S)`` their :func:`tune_vfl.evaluation.certainty.advantages_of`, if already computed.
    """
    seeds = {len(o.utility.values) for o in front if o.utility}
    if gains is None and scale is not None and len(seeds) == 1:
        gains = advantages_of(front, names_of(front))
    if scale is None or gains is None or not len(gains):
        return pareto.knee([o.objectives for o in front])
    utilities = np.asarray([o.utility.values if o.utility else [] for o in front])
    return knee(range(len(front)), utilities, gains, scale)


def _confirmed_knee(settings: SettingsTable, stayed: Sequence[int]) -> int | None:
    """Return a joint confirmation's knee; for studies confirmed separately that of the settings on their fronts."""
    single = settings.parts[0].confirmation if len(settings.parts) == 1 else None
    for answer in (settings.campaign.confirmation, single):
        for point in answer.knee.values() if answer else ():
            if point.setting in settings.place:
                return settings.place[point.setting]
    if single is not None:
        return None
    known = settings.known[stayed]
    if settings.scale is None:
        position = pareto.knee(known)
        return None if position is None else stayed[position]
    low, high, most = settings.scale
    widths = np.asarray([high - low if high > low else 1.0, most if most > 0 else 1.0])
    balance = known[:, 0] / widths[0] - known[:, 1] / widths[1]
    halves = [_halves(settings.rows[i].again) for i in stayed]
    se = np.hypot(*(np.asarray(halves) / widths).T) / _HALF_WIDTH
    position = middle_of_the_best(range(len(stayed)), balance, se, known[:, 1])
    return None if position is None else stayed[position]


def _halves(again: ConfirmedPoint | None) -> tuple[float, float]:
    """Return half of both intervals of a confirmed setting."""
    ends = (None, None) if again is None else (again.utility_interval, again.leakage_interval)
    utility, leakage = (0.0 if end is None else (end[1] - end[0]) / 2 for end in ends)
    return utility, leakage
