"""What an adversary knows of a defense whose name and setting it knows: plain numbers that attacks can use."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mechanism:
    """What a defense declares about how it works, for the members of one training. Secrets and draws are no part of it.

    Attributes:
        coin: ``(*trials)`` the magnitude of those gradient entries whose sign is nothing but noise, as they are sent;
            NaN where there are none. None: the defense sends no such entries.
        swaps: ``(*trials, K, K)`` at ``[i, j]`` the probability that the model is taught class j where the true class
            is i, the same for every row, drawn once; the loss is the cross-entropy with the class taught. None: the
            model is not taught other classes in this way.
    """

    coin: Tensor | None = None
    swaps: Tensor | None = None
