"""The rows of a pack: members that share a seed share its split, its order and its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tune_vfl.data.base import Split
from tune_vfl.seeds import Stream


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch for every member: ``(*trials, B, ...)``."""

    passive: list[Tensor]
    own: Tensor | None
    y: Tensor
    ids: Tensor

    @property
    def features(self) -> list[Tensor]:
        """The rows of every party, the label party's own last where it has any."""
        return [*self.passive, *([] if self.own is None else [self.own])]

    def with_features(self, features: Sequence[Tensor]) -> Batch:
        """Return the same batch with other features, listed as :attr:`features` lists them."""
        count = len(self.passive)
        return replace(self, passive=list(features[:count]), own=None if self.own is None else features[count])


@dataclass(frozen=True)
class Pack:
    """Who trains together.

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
        """The seed of each member, of which a trial without leading axes is one."""
        return list(self.seeds) * (self.trials or 1)

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""
        return () if self.trials is None else (self.trials * len(self.seeds),)

    def spread(self, per_seed: Tensor) -> Tensor:
        """Hand ``(S, ...)`` per-seed rows to the members ``(T, ...)``; without leading axes nothing changes."""
        if self.trials is None or self.trials == 1:
            return per_seed
        return per_seed.repeat(self.trials, *([1] * (per_seed.dim() - 1)))


def gather_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return the rows of ``x (*seeds, n, ...)`` in the order ``(*seeds, m)``."""
    if order.dim() == 1:
        return x.index_select(0, order)
    index = order.view(*order.shape, *([1] * (x.dim() - 2))).expand(*order.shape, *x.shape[2:])
    return x.gather(1, index)


class Rows:
    """The training rows of a pack, batch by batch.

    Args:
        split: the split of the one seed, or the splits of the pack's seeds stacked.
        pack: who trains together.
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
        split, spread = self._split, self.pack.spread
        passive = [gather_rows(x, order) for x in split.passive_train]
        own = None if split.active_train is None else gather_rows(split.active_train, order)
        y = gather_rows(split.y_train, order)
        for start in range(0, self.count, size):
            stop = min(start + size, self.count)
            yield Batch(
                passive=[spread(self._cut(x, start, stop)) for x in passive],
                own=None if own is None else spread(self._cut(own, start, stop)),
                y=spread(self._cut(y, start, stop)),
                ids=spread(self._cut(order, start, stop)),
            )

    def take(self, ids: Tensor) -> list[Tensor]:
        """Return the features ``(*trials, B, ...)`` of the rows ``(*trials, B)``, listed as a batch lists them."""
        features = self._split.features("train")
        if self.pack.trials is None:
            return [x[ids] for x in features]
        seed = torch.arange(len(ids), device=ids.device).remainder(len(self.pack.seeds)).unsqueeze(-1)
        return [x[seed, ids] for x in features]

    def _cut(self, x: Tensor, start: int, stop: int) -> Tensor:
        return x[start:stop] if self.pack.trials is None else x[:, start:stop]
