"""What a sampler is, and the registry of samplers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from tune_vfl.errors import UnknownNameError
from tune_vfl.registry import Registry
from tune_vfl.seeds import derive

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler

    from tune_vfl.spaces.space import Space

SAMPLERS: Registry[Sampler] = Registry("sampler", "tune_vfl.samplers")


class Sampler(ABC):
    """Proposes settings for two objectives, utility (up) and leakage (down), several of them at a time."""

    name: ClassVar[str]
    """The registered name."""

    summary: ClassVar[str]
    """One line."""

    reference: ClassVar[str] = "Optuna"
    """Where it comes from."""

    @classmethod
    @abstractmethod
    def build(cls, seed: int, *, budget: int) -> BaseSampler:
        """Return Optuna's sampler.

        Args:
            seed: below 2**32, another one at each start of a search: see :func:`sampler_seed`.
            budget: the study's number of trials.

        Raises:
            SpecError: when Optuna cannot run it here.
        """

    @classmethod
    def points(cls, space: Space, budget: int) -> list[dict[str, Any]] | None:
        """Return all the points it ever tries, for a sampler that works off a list; None where there is no list.

        A search takes the points of a list in an order that its seed shuffles, without published settings before them,
        and ends when they are used up.

        Args:
            space: what is searched.
            budget: the study's number of trials.
        """
        return None


def sampler(name: str) -> Callable[[type[Sampler]], type[Sampler]]:
    """Class decorator that registers a sampler under ``name``."""
    return SAMPLERS.register(name)


def sampler_seed(seed: int, position: int) -> int:
    """Return the seed of a sampler that goes on after ``position`` trials.

    A fixed seed would make a resumed search repeat its start-up points.
    """
    return derive(seed, f"sampler/{position}") % 2**32


def unknown_sampler(name: str) -> list[str]:
    """Return what is wrong with a sampler's name: nothing, or a sentence with the known names and the nearest."""
    try:
        SAMPLERS[name]
    except UnknownNameError as error:
        return error.problems
    return []


def listed_points(name: str, space: Space, budget: int) -> list[dict[str, Any]] | None:
    """Return a sampler's points as :meth:`Sampler.points` does; None too for a plug-in that is not installed here.

    A ledger is read without the plug-ins that filled it.
    """
    return SAMPLERS[name].points(space, budget) if name in SAMPLERS else None
