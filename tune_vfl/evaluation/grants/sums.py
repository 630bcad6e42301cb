"""Sums over batches: residual times own columns, as a passive party was told them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.sums import BatchSums
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict

MEMBER_BYTES = 128 * 2**20
"""Memory limit of the order of the rows in one training; of a longer one the first epochs are kept."""


class KeptSums(Keeper):
    """Stores the sums that each passive party was told, and the order of the rows."""

    _told: Mapping[tuple[str, int], list[list[Tensor]]] = MappingProxyType({})  # a list of each epoch's batches
    _untold: tuple[Tensor, int] | None = None

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the most memory that the order of the rows may take."""
        return members * min(MEMBER_BYTES, 4 * rows * 100)

    def begin(self, loop: SplitTraining) -> None:
        """Forget what another training was told."""
        self._told = defaultdict(list)

    def sums_told(self, sums: Tensor, weights: Tensor, *, party: int, ids: Tensor, epoch: int) -> None:
        """Store a batch's sums, the party's weights and the rows."""
        if epoch and epoch >= MEMBER_BYTES // (4 * self.rows):
            return
        kept = {("values", party): sums, ("weights", party): weights}
        if party == 0:
            kept["order", 0] = ids.int()
        for name, value in kept.items():
            if len(self._told[name]) == epoch:
                self._told[name].append([])
            self._told[name][epoch].append(value.cpu().clone())

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Store that no party was told anything: there was no epoch."""
        self._untold = torch.zeros_like(streams.fresh("told").uniform(0, self.rows), dtype=torch.long), width

    def of(self, parties: Sequence[int], columns: int) -> BatchSums | None:
        """Return what passive parties know together; None where residuals were not summed.

        Args:
            parties: by position.
            columns: of all of them together.
        """
        if self._untold is not None:
            order, width = self._untold
            nothing = torch.zeros(*order.shape[:-1], 1, width, columns)
            return self._of_member(BatchSums(nothing, nothing, order, self.training.batch_size))
        if not self._told:
            return None
        order = torch.stack([torch.cat(epoch, -1) for epoch in self._told["order", 0]], -2).long()
        values, weights = (
            torch.cat([torch.stack([torch.stack(e, -3) for e in self._told[name, p]], -4) for p in parties], -1)
            for name in ("values", "weights")
        )
        held = tuple(self._told["values", p][0][0].shape[-1] for p in parties)
        return self._of_member(BatchSums(values, weights, order, self._told["order", 0][0][0].shape[-1], held))

    def _of_member(self, whole: BatchSums) -> BatchSums:
        return whole if self._members is None else whole.of_members(self._members)


@grant("sums")
class ToldSums(Grant):
    """Sums over each batch of residual times own columns; no row's residual, and nothing of other parties' columns."""

    keeps = (KeptSums,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> BatchSums | None:
        """Return the sums; None if no residuals were summed."""
        return run.kept(KeptSums).of(run.parties, run.x_train.flatten(len(run.pack.lead) + 1).shape[-1])
