"""Advantages of attacks over their floors, by seed and as one number.

Advantages are signed here; they are clipped where they are shown, because a clipped mean is too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tune_vfl.errors import ShapeError
from tune_vfl.statistics.arrays import Floats, finite

LEAST_HEADROOM = 0.1
"""Below it an advantage magnifies a deviation of the success more than tenfold, and seeds cannot say that it is small:
see :func:`narrow`."""

GUESS = "guess"
"""The name of the best constant answer among what may be a floor."""


class Advantage(NamedTuple):
    """One attack's advantage over its floor.

    Attributes:
        value: ``(mean success - mean floor) / headroom``; at most 1, negative below the floor. It is what a search
            minimizes and what every interval is about.
        by_seed: ``(S,)`` pseudo-values: their mean is ``value``, their spread is that of the ratio. Intervals, bounds
            and the choice of attacks work on them.
        headroom: ``1 - mean floor``: what there is to gain.

    Example:
        >>> from tune_vfl.statistics import Advantage, advantage
        >>> found = advantage([0.8, 0.9], floor=[0.5, 0.5])
        >>> round(found.value, 3), found.by_seed.round(3).tolist(), found.headroom
        (0.7, [0.6, 0.8], 0.5)
    """

    value: float
    by_seed: Floats
    headroom: float


class Floor(NamedTuple):
    """The floor of an attack.

    Attributes:
        by: what reaches it: :data:`GUESS`, or a name among what was compared with it.
        by_seed: ``(S,)`` its success.

    Example:
        >>> import numpy as np
        >>> from tune_vfl.statistics import Floor
        >>> Floor("guess", np.array([0.5])).by
        'guess'
    """

    by: str
    by_seed: Floats


def narrow(floor: float) -> bool:
    """Return whether a mean floor leaves less than .1 above it; rounding does not count.

    Example:
        >>> from tune_vfl.statistics import narrow
        >>> narrow(0.95), narrow(0.5)
        (True, False)
    """
    return 1 - floor < LEAST_HEADROOM - 1e-9


def chosen_floor(guess: ArrayLike, without: Mapping[str, ArrayLike] | None = None) -> Floor:
    """Return the floor of an attack: the best on average of what needs no messages.

    The choice is made once, between means over the study: made for each seed it would take the larger of noisy
    numbers, come out up to .4 standard deviations too high, and flatter the defense.

    Args:
        guess: ``(S,)`` success of the best constant answer.
        without: by name ``(S,)`` successes on the same seeds of what the attacking party reaches by itself.

    Returns:
        The one with the largest mean, the guess among equals.

    Raises:
        ShapeError: for another number of seeds than the guess has.

    Example:
        >>> from tune_vfl.statistics import chosen_floor
        >>> chosen_floor(guess=[0.5, 0.5], without={"untrained": [0.6, 0.7], "own columns": [0.4, 0.8]}).by
        'untrained'
    """
    chosen = Floor(GUESS, finite(guess, "seeds", "guess"))
    for name, successes in (without or {}).items():
        found = finite(successes, "seeds", name)
        if found.shape != chosen.by_seed.shape:
            raise ShapeError(f"guess and {name}: one number a seed each, got {len(chosen.by_seed)} and {len(found)}")
        if found.mean() > chosen.by_seed.mean():
            chosen = Floor(name, found)
    return chosen


def advantage(success: ArrayLike, floor: ArrayLike) -> Advantage:
    """Return ``A = (mean a - mean f) / H`` with ``H = 1 - mean f``, and pseudo-values by seed.

    A ratio of means, because a mean of ratios lets one seed with a high floor decide. The pseudo-values are
    ``A + ((a_s - f_s) - A (1 - f_s)) / H``, the linearization of the ratio (the delta method).

    Args:
        success: ``(S,)`` in [0, 1].
        floor: ``(S,)`` in [0, 1], of the same seeds, from :func:`chosen_floor`.

    Returns:
        An :class:`Advantage`. With a mean floor of 1 there is nothing to gain: value and pseudo-values are 0.

    Raises:
        ShapeError: for different numbers of seeds.
        UsageError: for a number that is not finite.

    Example:
        >>> from tune_vfl.statistics import advantage
        >>> round(advantage([0.8, 0.9], floor=[0.5, 0.6]).value, 3)
        0.667
    """
    a, f = finite(success, "seeds", "success"), finite(floor, "seeds", "floor")
    if a.shape != f.shape:
        raise ShapeError(f"success and floor: one number a seed each, got {len(a)} and {len(f)}")
    gained = a - f
    headroom = float(1 - f.mean())
    if headroom <= 0:
        return Advantage(0.0, np.zeros_like(a), 0.0)
    value = float(gained.mean()) / headroom
    by_seed = value + (gained - value * (1 - f)) / headroom
    return Advantage(value, by_seed, headroom)


def pseudo_values(success: ArrayLike, floor: ArrayLike) -> Floats:
    """Return :attr:`Advantage.by_seed` of many settings at once, digit by digit that of :func:`advantage`.

    Args:
        success: ``(N, S)`` in [0, 1].
        floor: ``(N, S)`` in [0, 1], of the same settings and seeds.

    Returns:
        ``(N, S)``; zeros where a setting's mean floor is 1.

    Raises:
        ShapeError: for different shapes.
        UsageError: for a number that is not finite.

    Example:
        >>> from tune_vfl.statistics import pseudo_values
        >>> pseudo_values(success=[[0.8, 0.9]], floor=[[0.5, 0.5]]).round(3).tolist()
        [[0.6, 0.8]]
    """
    a, f = finite(success, "settings seeds", "success"), finite(floor, "settings seeds", "floor")
    if a.shape != f.shape:
        raise ShapeError(f"success and floor: one number a setting and seed each, got {a.shape} and {f.shape}")
    gained, headroom = a - f, (1 - f.mean(1))[:, None]
    room = np.where(headroom > 0, headroom, 1.0)
    value = gained.mean(1)[:, None] / room
    by_seed: Floats = np.where(headroom > 0, value + (gained - value * (1 - f)) / room, 0.0)
    return by_seed
