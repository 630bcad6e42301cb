"""Even allocation of a campaign's trials to its studies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tune_vfl.errors import SpecError


def even_shares(first: Sequence[int], most: Sequence[float], trials: int) -> list[int]:
    """Return the studies' numbers of trials: settings that come first, then equal shares up to the size of a space.

    Trials that a small space cannot use go to the other studies; a remainder goes to the first ones.

    Args:
        first: the number of each study's own and published settings, each of which is tried.
        most: the number of different settings; infinite with a float range.
        trials: in all.

    Returns:
        The shares. Their sum is ``trials``, or less where all spaces are exhausted.

    Raises:
        SpecError: when there are fewer trials than own and published settings, or than studies.
    """
    sizes = [trials if math.isinf(size) else int(size) for size in most]
    shares = [min(max(1, least), size) for least, size in zip(first, sizes, strict=True)]
    if sum(shares) > trials:
        raise SpecError(
            f"budget.trials: {trials} are fewer than the {sum(shares)} that {len(shares)} defenses need for their "
            f"own and published settings; give at least {sum(shares)}, or list fewer defenses"
        )
    for _ in range(trials - sum(shares)):
        hungry = [i for i, share in enumerate(shares) if share < most[i]]
        if not hungry:
            break
        shares[min(hungry, key=shares.__getitem__)] += 1
    return shares
