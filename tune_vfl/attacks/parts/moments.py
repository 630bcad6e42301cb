"""Shared part of attacks on received gradients: one answer for each recorded moment of the training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, field_validator

from tune_vfl.attacks.base import Attack
from tune_vfl.protocol.granted import WHOLE_TRAINING, Average
from tune_vfl.protocol.view import Answer, Moment, Recording, View
from tune_vfl.spec import Strict

Name = Literal["first_batch", "epoch0", "last", "mean"]
NAMES: tuple[Name, ...] = ("last", "first_batch", "epoch0", "mean")
FEWEST_ROWS = 128
"""Rows that a first batch must have to be a variant beside others."""
AVERAGED = "averaged"
"""The moment that ``average`` asks for. Behind a variant's name and ``@`` stands the moment that it reads."""


class MomentParams(Strict):
    """Parameters of :class:`MomentAttack`."""

    moments: tuple[Name, ...] = Field(
        NAMES,
        description="when gradients are read, each by itself: the last epoch, the first batch, the first epoch, each "
        "row's mean over all epochs; a variant each, @MOMENT behind its name but for the last epoch",
    )
    average: int | None = Field(
        None,
        ge=0,
        description="read each row's mean over this many last epochs too, in which noise that is drawn anew at each "
        "step averages out: a variant @averaged; 0: not; none: half of the epochs where the defense draws such noise",
    )

    @field_validator("moments")
    @classmethod
    def _some_once(cls, moments: tuple[Name, ...]) -> tuple[Name, ...]:
        if not moments or len(set(moments)) < len(moments):
            raise ValueError(f"expected each moment at most once and at least one of {', '.join(NAMES)}, got {moments}")
        return moments


A_co = TypeVar("A_co", bound=MomentParams, covariant=True)


class MomentAttack(Attack[A_co]):
    """Base of attacks that read one recording of received gradients at a time.

    When gradients say most depends on the model and on the defense. With a top model it is often the first epoch, when
    embeddings do not tell classes apart yet and the gradients' directions are few. An attacker sees every row once an
    epoch; of noise with variance v that a defense draws anew each time, the mean over R epochs keeps v / R.
    """

    def settled(self, *, epochs: int, fresh_noise: bool) -> Self:
        """Return the attack with ``average`` decided."""
        if self.params.average is not None:
            return self
        return type(self)(self.params.model_copy(update={"average": epochs // 2 if fresh_noise else 0}))

    def moments(self) -> tuple[Moment, ...]:
        """Return the moments that the attack reads."""
        return tuple(self._read_at().values()) if "gradients" in self.sees() else ()

    def tunable(self, epochs: int) -> Mapping[str, Sequence[Any]]:
        """Return over how many last epochs a mean may be read."""
        return {"average": sorted({0, epochs // 4, epochs // 2})} if "gradients" in self.sees() else {}

    def _read_at(self) -> Mapping[str, Moment]:
        named: dict[str, Moment] = {name: WHOLE_TRAINING if name == "mean" else name for name in self.params.moments}
        return named | ({AVERAGED: Average(self.params.average)} if self.params.average else {})

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variants of :meth:`read` on each moment.

        Recordings that are one and the same are read once, and a first batch of a few dozen rows only where nothing
        else is: by luck alone it would often be the best variant.
        """
        answers: dict[str, Answer] = {}
        seen: list[Recording] = []
        for name, moment in self._read_at().items():
            recording = view.recording(moment)
            small = name == "first_batch" and recording.ids.shape[-1] < FEWEST_ROWS and len(self.params.moments) > 1
            if not small and not any(recording is before for before in seen):
                seen.append(recording)
                found = self.read(view, recording)
                answers |= {v if name == "last" else f"{v}@{name}": answer for v, answer in found.items()}
        return answers

    @abstractmethod
    def read(self, view: View, seen: Recording) -> Mapping[str, Answer]:
        """Attack one recording; an answer per variant."""


def plain_variant(variant: str) -> str:
    """Return a variant's name without the moment that it reads."""
    return variant.partition("@")[0]
