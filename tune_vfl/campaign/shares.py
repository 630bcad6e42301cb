"""How a campaign's trials are spread over its studies before anything is known: to all of them alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tune_vfl.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Demand(NamedTuple):
    """What one study can do with trials.

    Attributes:
        published: how many published settings it has, each of which is tried.
        most: how many different settings there are; infinite with a float range.
    """

    published: int
    most: float


def even_shares(demands: Sequence[Demand], trials: int) -> list[int]:
    """Return how many trials each study gets: its published settings, then as many as the others, while it has more.

    What a small space leaves over goes to the other studies; what one trial too many leaves goes to the first ones.

    Args:
        demands: of the studies.
        trials: in all.

    Returns:
        A share each. They add up to ``trials``, or to less where all spaces are used up before.

    Raises:
        SpecError: when there are fewer trials than published settings, or than studies.
    """
    shares = [min(max(1, d.published), _whole(d.most, trials)) for d in demands]
    if sum(shares) > trials:
        raise SpecError(
            f"budget.trials: {trials} are fewer than the {sum(shares)} that {len(demands)} defenses need for their "
            f"published settings; give at least {sum(shares)}, or list fewer defenses"
        )
    for _ in range(trials - sum(shares)):
        hungry = [i for i, d in enumerate(demands) if shares[i] < d.most]
        if not hungry:
            break
        shares[min(hungry, key=lambda i: shares[i])] += 1
    return shares


def _whole(most: float, limit: int) -> int:
    return limit if math.isinf(most) else int(most)
