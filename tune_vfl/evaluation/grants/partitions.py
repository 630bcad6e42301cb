"""The nodes of every tree whose training rows a passive party was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict


class KeptPartitions(Keeper):
    """Stores what each passive party was told of the trees."""

    _told: Mapping[int, Partitions] = MappingProxyType({})
    _nothing: Partitions | None = None

    def partitions_told(self, partitions: Partitions, *, party: int) -> None:
        """Store the nodes of one party."""
        self._told = {**self._told, party: partitions}

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Store that no party was told anything: one tree of which nothing but the root is known."""
        leaves = torch.zeros_like(streams.fresh("told").uniform(1, self.rows), dtype=torch.long)
        self._nothing = Partitions(leaves, torch.zeros(*leaves.shape[:-1], 3, dtype=torch.bool))

    def of(self, parties: Sequence[int]) -> Partitions | None:
        """Return what passive parties know together; None where no trees were grown."""
        told = [found for p in parties if (found := self._told.get(p, self._nothing)) is not None]
        if not told:
            return None
        whole = Partitions.joined(told)
        return whole if self._members is None else whole.of_members(self._members)


@grant("partitions")
class ToldPartitions(Grant):
    """Which training rows stand in the nodes of every tree; no gradients, weights of leaves or cuts of others."""

    keeps = (KeptPartitions,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Partitions | None:
        """Return the partitions; None if networks were trained."""
        return run.kept(KeptPartitions).of(run.parties)
