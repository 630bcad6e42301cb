"""Embeddings and gradients of every training row at many epochs: a visit of a row is one epoch's pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.hooks import RowsById
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.members import Batch
from tune_vfl.protocol.visits import Visits
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training

FIRST, MOST = 4, 32
"""Number of first epochs, each recorded alone, and limit of entries; later epochs share entries, as means."""
MEMBER_BYTES = 128 * 2**20
"""Memory limit of one network's visits; wide embeddings of many rows share entries more."""
_NAMES = ("sent", "received")


def entries_of(epochs: int, *, rows: int, width: int) -> tuple[range, ...]:
    """Return the epochs of each recorded entry: the first four alone, later ones in parts of about equal length.

    Args:
        epochs: of the training.
        rows: N, the training rows.
        width: d, columns of an embedding.
    """
    room = max(FIRST + 1, min(MOST, MEMBER_BYTES // (2 * 4 * rows * width)))
    if epochs <= room:
        return tuple(range(e, e + 1) for e in range(epochs))
    late, parts = epochs - FIRST, room - FIRST
    cuts = [FIRST + late * part // parts for part in range(parts + 1)]
    return (*(range(e, e + 1) for e in range(FIRST)), *(range(a, b) for a, b in pairwise(cuts)))


class KeptVisits(Keeper):
    """Records embeddings as passive parties sent them, the gradients received for them, and the order of the rows."""

    _step: tuple[Tensor, int] | None = None
    _noise: tuple[int, Streams] | None = None
    _mechanism: Mechanism | None = None

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._entries: tuple[range, ...] | None = None
        self._kept: dict[tuple[str, int], Tensor] = {}

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of one party's visits and of the order."""
        return members * (min(MEMBER_BYTES, 2 * MOST * rows * width * 4) + 8 * MOST * rows)

    def begin(self, loop: SplitTraining) -> None:
        """Store the defense's mechanism, which the attacker knows from its name and setting."""
        self._mechanism = next((h.mechanism() for h in loop.hooks if isinstance(h, Defense)), None)

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """Note the rows of this step; rows that are sent outside of a step are not recorded."""
        self._step = (batch.ids, epoch)
        return batch

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """Record the embedding after every hook that changes it."""
        if self._step is not None:
            ids, epoch = self._step
            self._add("sent", party, ids, embedding.detach().flatten(ids.dim()).cpu(), epoch)
        return embedding

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Record the gradient of each row's own loss: the received one times the rows of its batch.

        What is known of the defense's noise is taken away before it enters any mean.
        """
        self._step = None
        values = gradient.detach().flatten(ids.dim()).cpu().nan_to_num(0.0, 0.0, 0.0)
        if self._mechanism is not None:
            values = self._mechanism.without_noise(values)
        self._add("received", party, ids, values * ids.shape[-1], epoch)
        if party == 0:
            batch = self.training.batch_size
            first = (step - epoch * -(-self.rows // batch)) * batch
            place = torch.arange(first, first + ids.shape[-1]).expand(ids.shape).unsqueeze(-1)
            room, _ = self._room("places", 0, place, epoch)
            room.scatter_(-2, ids.cpu().unsqueeze(-1), place)

    def _add(self, name: str, party: int, ids: Tensor, values: Tensor, epoch: int) -> None:
        room, count = self._room(name, party, values, epoch)
        room.scatter_add_(-2, ids.cpu().unsqueeze(-1).expand(values.shape), values.to(room.dtype) / count)

    def _room(self, name: str, party: int, values: Tensor, epoch: int) -> tuple[Tensor, int]:
        """Return the entry of an epoch ``(*trials, N, d)`` and the number of epochs that share it."""
        if self._entries is None:
            self._entries = entries_of(self.training.epochs, rows=self.rows, width=values.shape[-1])
        if (name, party) not in self._kept:
            dtype = values.dtype if not values.is_floating_point() else torch.float32
            shape = (*values.shape[:-2], len(self._entries), self.rows, values.shape[-1])
            self._kept[name, party] = torch.zeros(shape, dtype=dtype)
        at = next(i for i, epochs in enumerate(self._entries) if epoch in epochs)
        return self._kept[name, party].select(-3, at), len(self._entries[at])

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Record N(0, 1) in the place of every embedding and every gradient, and rows in any order."""
        self._noise = width, streams

    def of(self, parties: Sequence[int] = (0,)) -> Visits:
        """Return the visits of passive parties; several parties' side by side."""
        mechanism = self._mechanism
        if mechanism is not None and self._members is not None:
            mechanism = mechanism.of_members(self._members)
        sent, received = ([self._of(name, party) for party in parties] for name in _NAMES)
        widths = tuple(part.shape[-1] for part in sent)
        entries = self._entries or entries_of(self.training.epochs, rows=self.rows, width=sum(widths))
        times = tuple((epochs[0] + epochs[-1]) / 2 for epochs in entries)
        side_by_side = torch.cat(sent, -1), torch.cat(received, -1)
        return Visits(*side_by_side, self._order(len(times)), times, self.training.batch_size, widths, mechanism)

    def _of(self, name: str, party: int) -> Tensor:
        if self._noise is None:
            kept = self._kept[name, party]
        else:
            width, streams = self._noise
            count = len(entries_of(self.training.epochs, rows=self.rows, width=width))
            kept = streams.fresh(f"visits/{name}/{party}").normal(count, self.rows, width)
        return self.part(kept)

    def _order(self, count: int) -> Tensor:
        if self._noise is None:
            kept = self._kept["places", 0].squeeze(-1)
        else:
            kept = self._noise[1].fresh("visits/places").uniform(count, self.rows).argsort(-1)
        return self.part(kept)


@grant("visits")
class RowVisits(Grant):
    """Embeddings as sent, and the gradients received for them, over the whole training."""

    keeps = (KeptVisits,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Visits:
        """Return the visits."""
        return run.kept(KeptVisits).of(run.parties)
