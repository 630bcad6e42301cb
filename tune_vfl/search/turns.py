"""Whose turn it is: which study of a search asks the next pack, and how many trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from tune_vfl.campaign.allocation import race

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tune_vfl.search.part import Part


class Turn(NamedTuple):
    """A study, and how many trials it asks; None is a pack of those that it owes."""

    part: Part
    trials: int | None = None


class Turns(Protocol):
    """Says whose turn it is."""

    def next(self) -> Turn | None:
        """Return who asks the next pack; None while nobody can."""


class Evenly:
    """All studies get on alike: the one that has had the fewest trials of those that owe some.

    Args:
        parts: the studies.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def next(self) -> Turn | None:
        """Return who asks the next pack; None while nobody can."""
        part = min((p for p in self._parts if p.owes), key=lambda p: p.taken, default=None)
        return None if part is None else Turn(part)


class Racing:
    """Trials go to the studies that can still change the answer, see :func:`tune_vfl.campaign.allocation.race`.

    Args:
        parts: the studies, each of which owes what is published of its defense, and lost trials.
        totals: how many finished trials the studies of each data set are to have together.
        tell: is told who is retired and why, by study, whenever that changes.
    """

    def __init__(
        self, parts: Sequence[Part], totals: Mapping[str, int], tell: Callable[[dict[str, str]], None]
    ) -> None:
        self._parts, self._totals, self._tell = parts, totals, tell
        self._retired: dict[str, dict[str, str]] = {}

    def next(self) -> Turn | None:
        """Return who asks the next pack; None while nobody can."""
        for dataset, total in self._totals.items():
            parts = {p.name: p for p in self._parts if p.dataset == dataset}
            owed = total - sum(p.taken for p in parts.values())
            given = race([p.state for p in parts.values()], owed, next(iter(parts.values())).reference_point)
            if given.retired is not None and given.retired != self._retired.get(dataset, {}):
                self._retired[dataset] = given.retired
                self._tell({name: why for found in self._retired.values() for name, why in found.items()})
            if given.part is not None:
                return Turn(parts[given.part], given.trials)
        return None
