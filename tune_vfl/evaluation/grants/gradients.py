"""The cut gradients that the first passive party received, by the moments that attacks ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.protocol.granted import Moment, Recording
from tune_vfl.protocol.recorder import GradientRecorder, recording_bytes

if TYPE_CHECKING:
    from tune_vfl.attacks.base import Attack
    from tune_vfl.evaluation.run import Run
    from tune_vfl.seeds import Streams
    from tune_vfl.spec import Strict, Training


def moments_of(attacks: Sequence[Attack[Strict]]) -> set[Moment]:
    """Return the moments that any of these attacks wants recorded."""
    return {moment for attack in attacks for moment in attack.moments()}


class ReceivedGradients(Keeper):
    """Records what the first passive party receives at the moments that attacks ask for."""

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._recorder = GradientRecorder(moments_of(attacks), rows=rows, epochs=training.epochs)
        self._noise: Mapping[Moment, Recording] = {}
        self._member: int | None = None

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of the recordings."""
        return recording_bytes(members, rows, width, moments_of(attacks))

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Record it if it is wanted."""
        self._recorder.gradient_received(gradient, party=party, ids=ids, epoch=epoch, step=step)

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Keep N(0, 1) as the gradient of each row's own loss, by itself at each moment, in the recipe's batches."""
        self._noise = {moment: self._of_noise(moment, width, streams) for moment in moments_of(self.attacks)}

    def _of_noise(self, moment: Moment, width: int, streams: Streams) -> Recording:
        size = self.training.batch_size
        count = min(size, self.rows) if moment == "first_batch" else self.rows
        batches = tuple((start, min(start + size, count)) for start in range(0, count, size))
        gradients = streams[f"received/{moment}"].normal(count, width)
        sizes = torch.cat([torch.full((stop - start, 1), stop - start) for start, stop in batches])
        return Recording(torch.arange(count).expand(gradients.shape[:-1]), gradients / sizes, batches)

    def recordings(self) -> Mapping[Moment, Recording]:
        """Return what was received, by moment."""
        whole = self._noise or self._recorder.recordings()
        return whole if self._member is None else {m: r.member(self._member) for m, r in whole.items()}

    def member(self, index: int) -> Self:
        """Return one member's recordings."""
        alone = type(self)(self.attacks, self.training, self.rows)
        alone._recorder, alone._noise, alone._member = self._recorder, self._noise, index
        return alone


@grant("gradients")
class Gradients(Grant):
    """Recordings by moment, exactly as they were received."""

    keeps = (ReceivedGradients,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Mapping[Moment, Recording]:
        """Return the recordings."""
        return run.kept(ReceivedGradients).recordings()
