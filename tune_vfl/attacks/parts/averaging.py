"""What attacks share that read one epoch's gradients: they may read each row's mean over epochs too."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from tune_vfl.attacks.base import Attack
from tune_vfl.protocol.view import Average
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from tune_vfl.protocol.view import Answer, Moment, Recording, View

AVERAGED = "@averaged"
"""Put behind the name of a variant that reads means."""


class AveragingParams(Strict):
    """Parameters of :class:`AveragingAttack`."""

    average: int = Field(
        0,
        ge=0,
        description="attack each row's mean gradient over this many last epochs too, in which noise that is drawn anew "
        "at each step averages out: a variant @averaged beside each; 0: the last epoch alone",
    )


A_co = TypeVar("A_co", bound=AveragingParams, covariant=True)


class AveragingAttack(Attack[A_co]):
    """Base of attacks that read the gradients of the last epoch, and their means over several where that is asked.

    An attacker sees every row once an epoch. Of noise with variance v that a defense draws anew each time, the mean
    over R epochs keeps v / R, while the gradient itself changes little late in training.
    """

    def moments(self) -> tuple[Moment, ...]:
        """Return the last epoch, and the mean over several."""
        return ("last", *([Average(self.params.average)] if self.params.average else []))

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variants of :meth:`read` on the last epoch; on the means with ``@averaged`` behind the name."""
        last, *means = (self.read(view, view.recording(moment)) for moment in self.moments())
        return last | {variant + AVERAGED: answer for mean in means for variant, answer in mean.items()}

    @abstractmethod
    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Attack one recording; an answer per variant."""


def plain_variant(variant: str) -> str:
    """Return a variant's name without what says that it reads means."""
    return variant.removesuffix(AVERAGED)
