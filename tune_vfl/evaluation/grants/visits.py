"""Embeddings and gradients of every training row at many epochs: a visit of a row is one epoch's pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

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
"""Number of first epochs, all recorded, and limit of recorded epochs; the others are spread evenly."""
SPANS = 3
"""Number of parts of the training, about equally long, over which each row's mean visit is recorded."""
MEMBER_BYTES = 128 * 2**20
"""Memory limit of one network's single visits; wide embeddings of many rows are recorded at fewer epochs."""
_NAMES = ("sent", "received", "sent_means", "received_means", "direction_means")


def kept_epochs(epochs: int, *, rows: int, width: int) -> tuple[int, ...]:
    """Return the recorded epochs in order: the first four, and others evenly spaced up to the last one.

    Args:
        epochs: of the training.
        rows: N, the training rows.
        width: d, columns of an embedding.
    """
    room = max(FIRST + 1, min(MOST, MEMBER_BYTES // (2 * 4 * rows * width)))
    if epochs <= room:
        return tuple(range(epochs))
    late = torch.linspace(FIRST, epochs - 1, room - FIRST).round().long().tolist()
    return (*range(FIRST), *late)


class KeptVisits(Keeper):
    """Records embeddings as passive parties sent them, and the gradients received for them."""

    _step: tuple[Tensor, int] | None = None
    _noise: tuple[int, Streams] | None = None
    _member: int | None = None
    _mechanism: Mechanism | None = None

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._places: dict[int, int] | None = None
        self._kept: dict[tuple[str, int], Tensor] = {}

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of one party's visits and means."""
        return members * (min(MEMBER_BYTES, 2 * MOST * rows * width * 4) + 3 * SPANS * rows * width * 4)

    def begin(self, loop: SplitTraining) -> None:
        """Store the defense's mechanism, which the attacker knows from its name and setting."""
        self._mechanism = next((h.mechanism() for h in loop.hooks if isinstance(h, Defense)), None)

    @property
    def _spans(self) -> int:
        return min(SPANS, self.training.epochs)

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """Note the rows of this step; rows that are sent outside of a step are not recorded."""
        self._step = (batch.ids, epoch)
        return batch

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """Record the embedding after every hook that changes it."""
        if self._step is not None:
            ids, epoch = self._step
            values = embedding.detach().flatten(ids.dim()).cpu()
            self._put("sent", party, ids, values, self._place_of(epoch, values))
            self._add("sent_means", party, ids, values, epoch)
        return embedding

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Record the gradient of each row's own loss: the received one times the rows of its batch.

        What is known of the defense's noise is taken away before it enters any mean.
        """
        self._step = None
        values = gradient.detach().flatten(ids.dim()).cpu().nan_to_num(0.0, 0.0, 0.0)
        if self._mechanism is not None:
            values = self._mechanism.without_noise(values)
        values = values * ids.shape[-1]
        self._put("received", party, ids, values, self._place_of(epoch, values))
        self._add("received_means", party, ids, values, epoch)
        lengths = torch.linalg.vector_norm(values, dim=-1, keepdim=True)
        self._add("direction_means", party, ids, torch.where(lengths > 0, values / lengths, 0.0), epoch)

    def _place_of(self, epoch: int, values: Tensor) -> int | None:
        if self._places is None:
            kept = kept_epochs(self.training.epochs, rows=self.rows, width=values.shape[-1])
            self._places = {e: place for place, e in enumerate(kept)}
        return self._places.get(epoch)

    def _room(self, name: str, party: int, values: Tensor, count: int) -> Tensor:
        if (name, party) not in self._kept:
            self._kept[name, party] = torch.zeros(*values.shape[:-2], count, self.rows, values.shape[-1])
        return self._kept[name, party]

    def _put(self, name: str, party: int, ids: Tensor, values: Tensor, place: int | None) -> None:
        if place is not None and self._places is not None:
            room = self._room(name, party, values, len(self._places)).select(-3, place)
            room.scatter_(-2, ids.cpu().unsqueeze(-1).expand(values.shape), values.to(room.dtype))

    def _add(self, name: str, party: int, ids: Tensor, values: Tensor, epoch: int) -> None:
        epochs, spans = self.training.epochs, self._spans
        span = epoch * spans // epochs
        begin, end = (-(-s * epochs // spans) for s in (span, span + 1))
        room = self._room(name, party, values, spans).select(-3, span)
        room.scatter_add_(-2, ids.cpu().unsqueeze(-1).expand(values.shape), values.to(room.dtype) / (end - begin))

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Record N(0, 1) in the place of every embedding and every gradient."""
        self._noise = width, streams

    def of(self, parties: Sequence[int] = (0,)) -> Visits:
        """Return the visits of passive parties; several parties' side by side."""
        mechanism = self._mechanism
        if mechanism is not None and self._member is not None:
            mechanism = mechanism.member(self._member)
        exchanged = {name: torch.cat([self._of(name, party) for party in parties], -1) for name in _NAMES}
        return Visits(**exchanged, mechanism=mechanism)

    def _of(self, name: str, party: int) -> Tensor:
        if self._noise is None:
            kept = self._kept[name, party]
        else:
            width, streams = self._noise
            single = len(kept_epochs(self.training.epochs, rows=self.rows, width=width))
            count = self._spans if name.endswith("means") else single
            kept = streams.fresh(f"visits/{name}/{party}").normal(count, self.rows, width)
        return kept if self._member is None else kept[self._member]

    def member(self, index: int) -> Self:
        """Return one member's visits."""
        alone = type(self)(self.attacks, self.training, self.rows)
        alone._kept, alone._noise, alone._member = self._kept, self._noise, index
        alone._mechanism = self._mechanism
        return alone


@grant("visits")
class RowVisits(Grant):
    """Embeddings as sent, and the gradients received for them: of single epochs, and as means over several."""

    keeps = (KeptVisits,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Visits:
        """Return the visits."""
        return run.kept(KeptVisits).of(run.parties)
