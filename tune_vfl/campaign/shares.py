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
    return filled(shares, [d.most for d in demands], trials)


def filled(had: Sequence[int], most: Sequence[float], total: int) -> list[int]:
    """Fill all up to one level, none below what it had or above what it can take; the first ones get the rest.

    Args:
        had: how many each has in any case.
        most: how many each can take.
        total: of all together.

    Returns:
        How many each has then; ``total`` together, or fewer where nobody can take more.
    """
    given = list(had)
    for _ in range(total - sum(had)):
        hungry = [i for i, count in enumerate(given) if count < most[i]]
        if not hungry:
            break
        given[min(hungry, key=given.__getitem__)] += 1
    return given


def _whole(most: float, limit: int) -> int:
    return limit if math.isinf(most) else int(most)
