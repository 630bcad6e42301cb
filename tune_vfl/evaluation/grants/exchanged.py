"""Pairs of sent embedding and received gradient of each row, from the same steps of the first epochs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import Exchange
from tune_vfl.protocol.hooks import RowsById
from tune_vfl.protocol.members import Batch
from tune_vfl.spec import Strict, Training

EPOCHS = 3
"""The first ones: the top model has not learned the rows yet, and what comes back differs by class above all."""


class FirstExchanges(Keeper):
    """Records embeddings as sent and the gradients received for them, in the first epochs."""

    _step: tuple[Tensor, int] | None = None

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._epochs = min(EPOCHS, training.epochs)
        self._kept: dict[tuple[str, int, int], Tensor] = {}

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of one party's exchanges."""
        return 2 * EPOCHS * members * rows * width * 4

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """Note the rows of this step; rows sent outside of a step, such as test rows, are not recorded."""
        self._step = (batch.ids, epoch) if epoch < self._epochs else None
        return batch

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """Record the embedding after every hook that changes it."""
        if self._step is not None:
            ids, epoch = self._step
            self._put(("sent", party, epoch), ids, embedding)
        return embedding

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Record the gradient of each row's own loss: the received one times the rows of its batch."""
        self._step = None
        if epoch < self._epochs:
            self._put(("received", party, epoch), ids, gradient * ids.shape[-1])

    def _put(self, key: tuple[str, int, int], ids: Tensor, values: Tensor) -> None:
        if key not in self._kept:
            self._kept[key] = torch.zeros(*values.shape[:-2], self.rows, values.shape[-1])
        values, ids = values.detach().cpu(), ids.cpu()
        self._kept[key].scatter_(-2, ids.unsqueeze(-1).expand(values.shape), values)

    def of(self, party: int) -> Exchange:
        """Return a passive party's sent embeddings and received gradients."""
        sent, received = (
            torch.stack([self._kept[what, party, epoch] for epoch in range(self._epochs)], -3)
            for what in ("sent", "received")
        )
        return Exchange(self.part(sent), self.part(received))


@grant("exchanged")
class Exchanged(Grant):
    """Embeddings as sent, and the gradients received for them, by epoch, of the first epochs."""

    keeps = (FirstExchanges,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Exchange:
        """Return the exchanges."""
        return run.kept(FirstExchanges).of(run.parties[0])
