"""The interface of a sampler, and the registry of samplers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tune_vfl.errors import UnknownNameError
from tune_vfl.registry import Registry
from tune_vfl.spaces.space import Space, point_key

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial


SAMPLERS: Registry[Sampler] = Registry("sampler", "tune_vfl.samplers")


ConstraintsOf: TypeAlias = Callable[["FrozenTrial"], Sequence[float]]
"""Function from a trial to one number per constraint, at most 0 if the constraint holds."""


class Sampler(ABC):
    """Proposes settings for two objectives, utility (up) and leakage (down), several of them at a time."""

    name: ClassVar[str]
    """The registered name."""

    summary: ClassVar[str]
    """One line."""

    reference: ClassVar[str] = "Optuna"
    """Where it comes from."""

    blind: ClassVar[float] = 0
    """How many trials it asks for before it looks at what came of any; so many may be asked for at once."""

    @classmethod
    @abstractmethod
    def build(cls, seed: int, *, budget: int, constraints: ConstraintsOf | None = None) -> BaseSampler:
        """Return Optuna's sampler.

        Args:
            seed: below 2**32, another one at each start of a search: see :func:`sampler_seed`.
            budget: the study's number of trials.
            constraints: how far a trial is from keeping the study's constraints; None without any.

        Raises:
            SpecError: when Optuna cannot run it here.
        """

    @classmethod
    def points(cls, space: Space, budget: int) -> list[dict[str, Any]] | None:
        """Return the fixed list of points of a sampler; None for a sampler without one.

        A search takes its own and published settings first, as with any sampler, then the points of the list in an
        order that its seed shuffles, and ends when they are used up.

        Args:
            space: what is searched.
            budget: how many points are wanted.
        """
        return None


def sampler(name: str) -> Callable[[type[Sampler]], type[Sampler]]:
    """Class decorator that registers a sampler under ``name``."""
    return SAMPLERS.register(name)


def sampler_seed(seed: int, position: int) -> int:
    """Return the seed of a sampler that goes on after ``position`` trials.

    A fixed seed would make a resumed search repeat its start-up points.
    """
    from tune_vfl.seeds import derive  # torch comes along, and a ledger is read without it

    return derive(seed, f"sampler/{position}") % 2**32


def unknown_sampler(name: str) -> list[str]:
    """Return problems of a sampler's name: none, or a sentence with the known names and the nearest one."""
    try:
        SAMPLERS[name]
    except UnknownNameError as error:
        return error.problems
    return []


def listed_points(
    name: str, space: Space, budget: int, first: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]] | None:
    """Return all that a search with a list of points ever tries: its first settings, then the list.

    The list is the shortest one that makes ``budget`` points together with the first settings, of which some may
    stand on it.

    Args:
        name: of a sampler.
        first: the settings that are tried before the list.
        space: what is searched.
        budget: the study's number of trials.

    Returns:
        Each point once; None for a sampler without a list, and for a plug-in that is not installed here: a ledger is
        read without the plug-ins that filled it.
    """
    if name not in SAMPLERS:
        return None
    every: dict[str, dict[str, Any]] = {}
    for wanted in range(max(1, budget - len(first)), budget + 1):
        listed = SAMPLERS[name].points(space, wanted)
        if listed is None:
            return None
        every = {point_key(p): dict(p) for p in [*first, *map(space.typed, listed)]}
        if len(every) >= budget:
            break
    return list(every.values())
