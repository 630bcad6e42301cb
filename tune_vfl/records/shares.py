"""Even allocation of a campaign's trials to its studies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tune_vfl.errors import SpecError


class Demand(NamedTuple):
    """The number of trials that one study can use.

    Attributes:
        first: the number of its own and published settings, each of which is tried.
        most: the number of different settings; infinite with a float range.
    """

    first: int
    most: float


def even_shares(demands: Sequence[Demand], trials: int) -> list[int]:
    """Return the studies' numbers of trials: settings that come first, then equal shares up to the size of a space.

    Trials that a small space cannot use go to the other studies; a remainder goes to the first ones.

    Args:
        demands: of the studies.
        trials: in all.

    Returns:
        The shares. Their sum is ``trials``, or less where all spaces are exhausted.

    Raises:
        SpecError: when there are fewer trials than own and published settings, or than studies.
    """
    shares = [min(max(1, d.first), trials if math.isinf(d.most) else int(d.most)) for d in demands]
    if sum(shares) > trials:
        raise SpecError(
            f"budget.trials: {trials} are fewer than the {sum(shares)} that {len(demands)} defenses need for their "
            f"own and published settings; give at least {sum(shares)}, or list fewer defenses"
        )
    return filled(shares, [d.most for d in demands], trials)


def filled(had: Sequence[int], most: Sequence[float], total: int) -> list[int]:
    """Raise all shares to one level within their limits; the first ones get the remainder.

    Args:
        had: the lower limits.
        most: the upper limits.
        total: the sum of the shares.

    Returns:
        The shares; their sum is ``total``, or less where all upper limits are reached.
    """
    given = list(had)
    for _ in range(total - sum(had)):
        hungry = [i for i, count in enumerate(given) if count < most[i]]
        if not hungry:
            break
        given[min(hungry, key=given.__getitem__)] += 1
    return given
