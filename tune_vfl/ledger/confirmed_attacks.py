"""What a confirmation says of each attack by itself: the source of a constraint on one of them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bounded(_Plain):
    """A number on fresh seeds, in [0, 1].

    Attributes:
        value: with its 90% ``interval``.
        upper_90: what it is at most, with one-sided 90% confidence.
    """

    value: float
    interval: tuple[float, float]
    upper_90: float

    def raised(self, other: Bounded) -> Bounded:
        """Return the larger of two in everything."""
        return Bounded(
            value=max(self.value, other.value),
            interval=(max(self.interval[0], other.interval[0]), max(self.interval[1], other.interval[1])),
            upper_90=max(self.upper_90, other.upper_90),
        )


class ConfirmedAttack(_Plain):
    """One attack on fresh seeds: of several passive parties and candidates the one that the other seeds choose."""

    advantage: Bounded
    success: Bounded
