"""Recorder of the gradients that a passive party receives, at the moments that attacks request."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Collection

import torch
from torch import Tensor

from tune_vfl.kernels.rows import add_rows
from tune_vfl.protocol.granted import Average, Moment, Recording
from tune_vfl.protocol.hooks import Hooks

IN_MEMORY_BYTES = 512 * 2**20


def recording_bytes(members: int, rows: int, width: int, moments: Collection[Moment]) -> int:
    """Return the memory of recording ``moments``: float32 gradients and int64 ids of a whole epoch each."""
    return members * rows * (width * 4 + 8) * sum(m != "first_batch" for m in moments)


def _room(shape: tuple[int, ...], dtype: torch.dtype, *, on_disk: bool) -> Tensor:
    """Return an empty tensor; one too large for memory is mapped to an unlinked temporary file."""
    if not on_disk:
        return torch.empty(shape, dtype=dtype)
    count = math.prod(shape)
    with tempfile.NamedTemporaryFile(prefix="tune-vfl-recording-") as file:
        if hasattr(os, "posix_fallocate"):  # taken now: a full disk found out by writing would end the process
            os.posix_fallocate(file.fileno(), 0, count * dtype.itemsize)
        return torch.from_file(file.name, shared=True, size=count, dtype=dtype).view(shape)


class GradientRecorder(Hooks):
    """Recorder (H8) of gradients and ids: the first batch, the first and last epochs, and means of rows.

    Args:
        moments: what to keep.
        rows: N, the training rows.
        epochs: how many epochs there will be.
        party: the passive party that attacks.
        parties: how many passive parties have such a recorder; together they fill no more memory than one may.
    """

    def __init__(
        self, moments: Collection[Moment], *, rows: int, epochs: int, party: int = 0, parties: int = 1
    ) -> None:
        self._moments = set(moments)
        self._rows, self._epochs, self._party, self._parties = rows, epochs, party, parties
        self._gradients: dict[Moment, Tensor] = {}
        self._ids: dict[Moment, Tensor] = {}
        self._batches: dict[Moment, list[tuple[int, int]]] = {}

    def _due(self, epoch: int, step: int) -> list[Moment]:
        due: list[Moment] = [m for m in self._moments if isinstance(m, Average) and epoch >= self._epochs - m.epochs]
        if step == 0:
            due.append("first_batch")
        if epoch == 0:
            due.append("epoch0")
        if epoch == self._epochs - 1:
            due.append("last")
        return [m for m in due if m in self._moments]

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Record the tensor if this party and moment are requested."""
        if party == self._party:
            for moment in self._due(epoch, step):
                self._make_room(moment, gradient)
                if isinstance(moment, Average):
                    self._add(moment, gradient, ids, last=epoch == self._epochs - 1)
                else:
                    start = self._note(moment, ids)
                    self._gradients[moment][..., start : start + ids.shape[-1], :] = gradient.detach()

    def _make_room(self, moment: Moment, gradient: Tensor) -> None:
        if moment in self._gradients:
            return
        lead, (batch, width) = gradient.shape[:-2], gradient.shape[-2:]
        rows = batch if moment == "first_batch" else self._rows
        needed = recording_bytes(math.prod(lead), self._rows, width, self._moments)
        on_disk = self._parties * needed > IN_MEMORY_BYTES
        self._gradients[moment] = _room((*lead, rows, width), gradient.dtype, on_disk=on_disk)
        self._ids[moment] = _room((*lead, rows), torch.int64, on_disk=on_disk)
        self._batches[moment] = []
        if isinstance(moment, Average):
            self._gradients[moment].zero_()

    def _note(self, moment: Moment, ids: Tensor) -> int:
        """Record a batch's ids; return its start index."""
        batches, size = self._batches[moment], ids.shape[-1]
        start = batches[-1][1] if batches else 0
        self._ids[moment][..., start : start + size] = ids
        batches.append((start, start + size))
        return start

    def _add(self, moment: Average, gradient: Tensor, ids: Tensor, *, last: bool) -> None:
        """Add a batch to the sums, which are in order of ids until the last epoch sets another."""
        sums, size = self._gradients[moment], ids.shape[-1]
        add_rows(sums, ids.to(sums.device), gradient.detach().to(sums.device) * size)
        if last and self._note(moment, ids) + size == self._rows:
            self._finish(moment)

    def _finish(self, moment: Average) -> None:
        sums, epochs = self._gradients[moment], min(moment.epochs, self._epochs)
        rows = torch.cat([sums.new_full((stop - start, 1), stop - start) for start, stop in self._batches[moment]])
        members = sums.view(-1, *sums.shape[-2:])
        for member, order in zip(members, self._ids[moment].view(len(members), -1), strict=True):
            member.copy_(member[order] / (rows * epochs))  # one at a time: no second recording is ever in memory

    def recordings(self) -> dict[Moment, Recording]:
        """Return the recordings by moment; a mean only after its last epoch."""
        return {
            m: Recording(ids=self._ids[m], gradients=self._gradients[m], batches=tuple(self._batches[m]))
            for m in self._gradients
            if not isinstance(m, Average) or (self._batches[m] and self._batches[m][-1][1] == self._rows)
        }
