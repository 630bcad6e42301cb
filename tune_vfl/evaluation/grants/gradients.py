"""The cut gradients that passive parties received, by the moments that attacks ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import Moment, Recording
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.recorder import GradientRecorder, recording_bytes
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training


def moments_of(attacks: Sequence[Attack[Strict]]) -> set[Moment]:
    """Return the union of moments that these attacks request."""
    return {moment for attack in attacks for moment in attack.moments()}


class ReceivedGradients(Keeper):
    """Records the gradients that each passive party receives at the requested moments."""

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._recorders: list[GradientRecorder] = []
        self._noise: tuple[int, Streams] | None = None

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of one party's recordings."""
        return recording_bytes(members, rows, width, moments_of(attacks))

    def begin(self, loop: SplitTraining) -> None:
        """Make a recorder for each passive party."""
        wanted, parties, epochs = moments_of(self.attacks), len(loop.network.bottoms), self.training.epochs
        self._recorders = [
            GradientRecorder(wanted, rows=self.rows, epochs=epochs, party=k, parties=parties) for k in range(parties)
        ]

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Record the gradient if an attack requests this moment."""
        self._recorders[party].gradient_received(gradient, party=party, ids=ids, epoch=epoch, step=step)

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Record N(0, 1) as the gradient of each row's own loss, independently at each moment."""
        self._noise = width, streams

    def _of_noise(self, moment: Moment, party: int, width: int, streams: Streams) -> Recording:
        size = self.training.batch_size
        count = min(size, self.rows) if moment == "first_batch" else self.rows
        batches = tuple((start, min(start + size, count)) for start in range(0, count, size))
        name = f"received/{moment}/{party}" if party else f"received/{moment}"
        gradients = streams.fresh(name).normal(count, width)
        sizes = torch.cat([torch.full((stop - start, 1), stop - start) for start, stop in batches])
        return Recording(torch.arange(count).expand(gradients.shape[:-1]), gradients / sizes, batches)

    def recordings(self, parties: Sequence[int] = (0,)) -> Mapping[Moment, Recording]:
        """Return received gradients by moment; several parties' side by side."""
        found = [self._of(party) for party in parties]
        whole = {moment: Recording.joined([of[moment] for of in found]) for moment in found[0]}
        return whole if self._members is None else {m: r.of_members(self._members) for m, r in whole.items()}

    def _of(self, party: int) -> Mapping[Moment, Recording]:
        if self._noise is None:
            return self._recorders[party].recordings()
        return {moment: self._of_noise(moment, party, *self._noise) for moment in moments_of(self.attacks)}


@grant("gradients")
class Gradients(Grant):
    """Gradients exactly as the attacker received them, by the moment of the training."""

    keeps = (ReceivedGradients,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Mapping[Moment, Recording]:
        """Return the recordings."""
        return run.kept(ReceivedGradients).recordings(run.parties)
