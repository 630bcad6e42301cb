"""Named random streams: a seed fixes split, weights, order, auxiliary labels and noise, each by a stream of its own.

So switching a defense on changes no other draw. And a trial gives the same outcome by itself or in a pack: members of a
pack that share a seed share every draw, so a stream draws once per seed and hands the draw to all of them.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

END = 1 - 2**-24
"""The largest number below 1 in single precision."""


def derive(seed: int, name: str) -> int:
    """Return the 63-bit seed of the stream ``name`` under ``seed``; stable across processes, platforms and versions."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, name: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a fresh torch generator for the stream ``name`` under ``seed``."""
    return torch.Generator(device=device).manual_seed(derive(seed, name))


def numpy_rng(seed: int, name: str) -> np.random.Generator:
    """Return a fresh numpy generator for the stream ``name`` under ``seed``."""
    return np.random.default_rng(derive(seed, name))


def whole_turns(members: Sequence[int]) -> int:
    """Return how often the same seeds come one after the other, in the same order; 0 where they do not."""
    unique = list(dict.fromkeys(members))
    turns = len(members) // len(unique)
    return turns if list(members) == unique * turns else 0


def sorted_normals(uniform: Tensor) -> Tensor:
    """Return n independent N(0, 1) numbers, sorted upward, from n + 1 uniform ones, without sorting.

    The first n partial sums of n + 1 exponential numbers, divided by their total, are distributed as n sorted uniform
    numbers.

    Args:
        uniform: ``(..., n + 1)`` in [0, 1).
    """
    sums = uniform.neg().log1p_().cumsum(-1)
    ordered = sums[..., :-1] / sums[..., -1:].clamp(max=-torch.finfo(uniform.dtype).tiny)
    # At -1 and 1 the result would be infinite; at the numbers next to them it is 5.4 standard deviations.
    return ordered.mul_(2).sub_(1).clamp_(-END, END).erfinv_().mul_(math.sqrt(2))


class Stream:
    """One named stream for all members of a pack.

    Args:
        seeds: an int for one trial (draws have the asked shape), or the seeds of the members of a pack, in the order of
            the leading axis (draws have shape ``(len(seeds), *shape)``).
        name: the stream's name.
        device: where the draws live.
    """

    def __init__(self, seeds: int | Sequence[int], name: str, device: torch.device | str = "cpu") -> None:
        self._seeds, self._name = seeds, name
        self._stacked = not isinstance(seeds, int)
        members = [seeds] if isinstance(seeds, int) else list(seeds)
        unique = list(dict.fromkeys(members))
        self._generators = [generator(seed, name, device) for seed in unique]
        self._device = torch.device(device)
        position = [unique.index(seed) for seed in members]
        # Packs list their members trial by trial, so that the same seeds repeat in the same order. Draws are then
        # repeated as a whole, which is faster than picking them member by member.
        self._repeats = whole_turns(members)
        self._position = torch.tensor(position, device=self._device)

    def child(self, name: str) -> Stream:
        """Open a stream of the same seeds, named below this one, at its beginning."""
        return Stream(self._seeds, f"{self._name}/{name}", self._device)

    def member(self, index: int) -> Stream:
        """Return a stream that continues the draws of one member of a pack from here, without the leading axis."""
        if isinstance(self._seeds, int):
            raise ValueError(f"stream {self._name!r} belongs to one trial and has no members")
        single = Stream(int(self._seeds[index]), self._name, self._device)
        single._generators = [copy.deepcopy(self._generators[int(self._position[index])])]
        return single

    def _hand_out(self, draws: list[Tensor]) -> Tensor:
        if not self._stacked:
            return draws[0]
        stacked = torch.stack(draws)
        if self._repeats == 1:
            return stacked
        if self._repeats:
            return stacked.repeat(self._repeats, *([1] * (stacked.dim() - 1)))
        return stacked.index_select(0, self._position)

    def normal(self, *shape: int) -> Tensor:
        """Draw independent N(0, 1) numbers."""
        return self._hand_out([torch.randn(shape, generator=g, device=self._device) for g in self._generators])

    def uniform(self, *shape: int) -> Tensor:
        """Draw independent U[0, 1) numbers."""
        return self._hand_out([torch.rand(shape, generator=g, device=self._device) for g in self._generators])

    def laplace(self, *shape: int) -> Tensor:
        """Draw independent Laplace(0, 1) numbers, by the inverse distribution function.

        That takes an eighth of the time of torch's own.
        """
        draws = []
        for g in self._generators:
            # At -1 and 1 the result would be infinite; the numbers next to them give about 16.6, the largest draw.
            signed = torch.empty(shape, device=self._device).uniform_(-END, END, generator=g)
            draws.append(signed.abs().neg_().log1p_().copysign_(signed))
        return self._hand_out(draws)

    def sorted_normal(self, rows: int, n: int) -> Tensor:
        """Draw ``rows`` times n independent N(0, 1) numbers, each row sorted upward: ``(rows, n)``."""
        draws = [torch.rand(rows, n + 1, generator=g, device=self._device) for g in self._generators]
        return self._hand_out([sorted_normals(uniform) for uniform in draws])

    def permutation(self, n: int) -> Tensor:
        """Draw a random order of ``0..n-1``."""
        return self._hand_out([torch.randperm(n, generator=g, device=self._device) for g in self._generators])


class Streams:
    """All streams of one run: ``streams["noise/0"]`` is opened at its first use and continues at the next.

    Args:
        seeds: an int for one trial, or the members' seeds of a pack.
        device: where the draws live.
        prefix: put before every name, so that two users of the same seed have different draws.
    """

    def __init__(self, seeds: int | Sequence[int], device: torch.device | str = "cpu", prefix: str = "") -> None:
        self.seeds = seeds
        self._device = device
        self._prefix = prefix
        self._open: dict[str, Stream] = {}

    def __getitem__(self, name: str) -> Stream:
        if name not in self._open:
            self._open[name] = self.fresh(name)
        return self._open[name]

    def restarted(self) -> Streams:
        """Return the same streams, each at its beginning."""
        return Streams(self.seeds, self._device, self._prefix)

    def fresh(self, name: str) -> Stream:
        """Open the stream ``name`` at its beginning, and do not keep it; for a name that is used once."""
        return Stream(self.seeds, self._prefix + name, self._device)
