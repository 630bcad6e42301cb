"""The rows of a pack: members that share a seed share its split, its order and its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from tune_vfl.data.base import Split
from tune_vfl.seeds import Stream, whole_turns

_GATHERED_BYTES = 4 * 2**20


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch for every member: ``(*trials, B, ...)``."""

    passive: list[Tensor]
    own: Tensor | None
    y: Tensor
    ids: Tensor

    @property
    def features(self) -> list[Tensor]:
        """The rows of every party, the label party's own last."""
        return [*self.passive, *([] if self.own is None else [self.own])]

    @property
    def by_seed(self) -> list[Tensor]:
        """The rows of every party by member; or ``(S, B, ...)`` by seed, if unchanged: member i has seed i mod S."""
        return self.features

    def with_features(self, features: Sequence[Tensor]) -> Batch:
        """Return the same batch with other features, listed as :attr:`features` lists them."""
        count = len(self.passive)
        own = None if self.own is None else features[count]
        return Batch(passive=list(features[:count]), own=own, y=self.y, ids=self.ids)

    def with_rows(self, rows: Sequence[Tensor]) -> Batch:
        """Return the same batch with other rows, listed and shared as :attr:`by_seed` has them."""
        return self.with_features(rows)


class SharedBatch(Batch):
    """A batch whose members share their seed's rows; copies for each member are made on access.

    Args:
        rows: ``(*seeds, B, ...)`` of every party, listed as :attr:`features` lists them.
        pack: whose members they are for.
        parties: how many are passive parties'.
        y, ids: ``(*trials, B)``.
    """

    _rows: list[Tensor]
    _pack: Pack
    _parties: int

    def __init__(self, rows: list[Tensor], pack: Pack, parties: int, *, y: Tensor, ids: Tensor) -> None:
        given = {"y": y, "ids": ids, "_rows": rows, "_pack": pack, "_parties": parties}
        vars(self).update(given)  # a batch is frozen

    @cached_property
    def features(self) -> list[Tensor]:
        """The rows of every member."""
        return [self._pack.spread(x) for x in self._rows]

    @property
    def passive(self) -> list[Tensor]:
        """The rows of the passive parties."""
        return self.features[: self._parties]

    @property
    def own(self) -> Tensor | None:
        """The rows of the label party; None if it has none."""
        return self.features[self._parties] if len(self._rows) > self._parties else None

    @property
    def by_seed(self) -> list[Tensor]:
        """The rows by seed, as given."""
        return self._rows

    def with_rows(self, rows: Sequence[Tensor]) -> Batch:
        """Return the same batch with other rows, which the members of a seed share as well."""
        return SharedBatch(list(rows), self._pack, self._parties, y=self.y, ids=self.ids)


@dataclass(frozen=True)
class Pack:
    """The members of one training: seeds, and trials with leading axes.

    Attributes:
        seeds: the distinct seeds, in order.
        trials: trials per pack, each over all the seeds; None for one trial of one seed, without leading axes.

    Members are trial-major: member ``p * len(seeds) + s`` is trial p with seed s.
    """

    seeds: tuple[int, ...]
    trials: int | None

    @property
    def member_seeds(self) -> int | list[int]:
        """The seed of the one trial, or of each member."""
        return self.seeds[0] if self.trials is None else list(self.seeds) * self.trials

    @property
    def seed_of_each(self) -> list[int]:
        """The seed of each member; a trial without leading axes is one member."""
        return list(self.seeds) * (self.trials or 1)

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""
        return () if self.trials is None else (self.trials * len(self.seeds),)

    def spread(self, per_seed: Tensor) -> Tensor:
        """Expand ``(S, ...)`` per-seed rows to members ``(T, ...)``; without leading axes a no-op."""
        if self.trials is None or self.trials == 1:
            return per_seed
        return per_seed.repeat(self.trials, *([1] * (per_seed.dim() - 1)))


def alike(seeds: Sequence[int], rows: Sequence[NDArray[Any]]) -> dict[tuple[int, bytes], list[int]]:
    """Group members with the same seed and the same row of numbers, such as labels."""
    found: dict[tuple[int, bytes], list[int]] = {}
    for member, (seed, row) in enumerate(zip(seeds, rows, strict=True)):
        found.setdefault((seed, row.tobytes()), []).append(member)
    return found


def equal_trials(seeds: int | Sequence[int], *rows: Tensor) -> int:
    """Return the number of trials in a pack whose trials have the same seeds, order and rows.

    Args:
        seeds: the seed of the one trial, or of each member, trial by trial.
        rows: ``(*trials, ...)`` of the members.

    Returns:
        1 where trials differ, so that each member counts by itself.
    """
    trials = 1 if isinstance(seeds, int) else whole_turns(seeds)
    if trials < 2:
        return 1
    turns = [x.reshape(trials, -1, *x.shape[1:]) for x in rows]
    return trials if all(bool((x == x[:1]).all()) for x in turns) else 1


def gather_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return the rows of ``x (*seeds, n, ...)`` in the order ``(*seeds, m)``."""
    if order.dim() == 1:
        return x.index_select(0, order)
    # A seed at a time: that copies whole rows, five times as fast as `gather`, which looks up every number by itself.
    rows = x.new_empty(*order.shape, *x.shape[2:])
    for source, chosen, into in zip(x, order, rows, strict=True):
        torch.index_select(source, 0, chosen, out=into)
    return rows


class Rows:
    """The training rows of a pack, batch by batch.

    Args:
        split: the split of the one seed, or the splits of the pack's seeds stacked.
        pack: the members of the training.
    """

    def __init__(self, split: Split, pack: Pack) -> None:
        self._split, self.pack = split, pack
        self._order = Stream(pack.seeds[0] if pack.trials is None else pack.seeds, "order")
        self.count = split.y_train.shape[-1]

    def features(self) -> list[Tensor]:
        """Return the features ``(*trials, N, ...)`` of all rows, listed as a batch lists them."""
        return [self.pack.spread(x) for x in self._split.features("train")]

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield one epoch of batches, in a fresh order; the last one may be smaller."""
        order = self._order.permutation(self.count).to(self._split.y_train.device)
        split, parties = self._split, len(self._split.passive_train)
        for first in range(0, self.count, at_once := self._gathered_at_once(size)):
            chosen = self._cut(order, first, first + at_once)
            rows = [gather_rows(x, chosen) for x in split.features("train")]
            y, ids = self.pack.spread(gather_rows(split.y_train, chosen)), self.pack.spread(chosen)
            for start in range(0, chosen.shape[-1], size):
                cut = [self._cut(x, start, start + size) for x in rows]
                at = {"y": self._cut(y, start, start + size), "ids": self._cut(ids, start, start + size)}
                yield SharedBatch(cut, self.pack, parties, **at)

    def pass_over(self, epochs: int) -> None:
        """Draw and discard the orders of some epochs."""
        for _ in range(epochs):
            self._order.permutation(self.count)

    def _gathered_at_once(self, size: int) -> int:
        """Return the number of rows to gather at once: few calls without a second copy of a large data set."""
        bytes_of_row = sum(x.nbytes for x in self._split.features("train")) / max(1, self.count)
        return size * max(1, int(_GATHERED_BYTES / max(1.0, bytes_of_row * size)))

    def take(self, ids: Tensor) -> list[Tensor]:
        """Return the features ``(*trials, B, ...)`` of the rows ``(*trials, B)``, listed as a batch lists them.

        Or of ``(S, B)`` rows of each seed.
        """
        features = self._split.features("train")
        if self.pack.trials is None:
            return [x[ids] for x in features]
        if len(ids) == len(self.pack.seeds):
            return [gather_rows(x, ids) for x in features]
        seed = torch.arange(len(ids), device=ids.device).remainder(len(self.pack.seeds)).unsqueeze(-1)
        return [x[seed, ids] for x in features]

    def labels(self, ids: Tensor) -> Tensor:
        """Return the labels ``(*trials, B)`` of the rows ``(*trials, B)``."""
        return self.pack.spread(self._split.y_train).gather(-1, ids)

    def _cut(self, x: Tensor, start: int, stop: int) -> Tensor:
        return x[start:stop] if self.pack.trials is None else x[:, start:stop]
