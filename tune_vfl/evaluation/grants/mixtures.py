"""Partners and shares of a passive party's mixed rows, and the gradients received for the mixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import MixedGradients, Mixtures
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training

SPANS = ("epoch0", "early", "late", "mean")


def spans_of(epochs: int) -> Mapping[str, range]:
    """Return the epochs of each sum: the first one, the first quarter, the last quarter, all of them."""
    quarter = max(1, epochs // 4)
    of_each = (range(1), range(quarter), range(epochs - quarter, epochs), range(epochs))
    return dict(zip(SPANS, of_each, strict=True))


class ReceivedForMixtures(Keeper):
    """Sums, for each training row, the gradients received for its mixtures, weighted by its share in them.

    Least squares for the gradients of single rows need no more of what was received than these sums: a few matrices of
    N rows in the place of one for each epoch. Partners and shares are not kept either: the defense draws those of an
    epoch again on request.
    """

    _defense: Defense | None = None
    _now: tuple[int, Mixtures | None] = (-1, None)
    _noise: tuple[int, Streams] | None = None

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        super().__init__(attacks, training, rows)
        self._sums: dict[tuple[int, str], Tensor] = {}
        self._spans = spans_of(training.epochs)

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of one party's sums."""
        return len(SPANS) * members * rows * width * 4

    def begin(self, loop: SplitTraining) -> None:
        """Store the defense, which knows the mixtures."""
        self._defense = next(h for h in loop.hooks if isinstance(h, Defense))

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """Add the gradient to the sums of the rows in its mixtures."""
        assert self._defense is not None  # noqa: S101 - remembered before the first step
        if self._now[0] != epoch:
            self._now = epoch, self._defense.mixtures(epoch)
        own, width = gradient.detach() * ids.shape[-1], gradient.shape[-1]
        at, parts = ids, own
        if (mixed := self._now[1]) is not None:
            where = ids.unsqueeze(-1).expand(*ids.shape, mixed.shares.shape[-1])
            at = mixed.partners.gather(-2, where).flatten(-2)
            parts = (own.unsqueeze(-2) * mixed.shares.gather(-2, where).unsqueeze(-1)).flatten(-3, -2)
        at, parts = at.cpu(), parts.cpu()
        for span, epochs in self._spans.items():
            if epoch in epochs:
                empty = (*ids.shape[:-1], self.rows, width)
                sums = self._sums.setdefault((party, span), torch.zeros(()).expand(empty).clone())
                sums.scatter_add_(-2, at.unsqueeze(-1).expand(parts.shape), parts)

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Record N(0, 1) as the gradient of each row's own loss, the same in each epoch of a span, without mixing."""
        self._noise = width, streams

    def of(self, parties: Sequence[int]) -> Mapping[str, MixedGradients]:
        """Return the sums of passive parties by span; several parties' side by side."""
        totals = {span: torch.cat([self._total(party, span) for party in parties], -1) for span in self._spans}
        rows = next(iter(totals.values())).shape[:-1]
        alone = Mixtures(torch.arange(rows[-1]).expand(rows).unsqueeze(-1), torch.ones(*rows, 1))
        drawn = [self._defense and self._defense.mixtures(epoch) for epoch in range(self.training.epochs)]
        known = {id(mixed): self._own(mixed) if mixed else alone for mixed in drawn}
        mixtures = [known[id(mixed)] for mixed in drawn]
        return {span: MixedGradients([mixtures[e] for e in self._spans[span]], total) for span, total in totals.items()}

    def _total(self, party: int, span: str) -> Tensor:
        if self._noise is not None:
            width, streams = self._noise
            name = f"mixed/{span}/{party}"
            sums = streams.fresh(name).normal(self.rows, width) * len(self._spans[span])
        else:
            sums = self._sums[party, span]
        return self.part(sums)

    def _own(self, mixed: Mixtures) -> Mixtures:
        return Mixtures(self.part(mixed.partners.cpu()), self.part(mixed.shares.cpu()))


@grant("mixtures")
class RowMixtures(Grant):
    """Partners and shares of every mixed row, with the gradients received for the mixtures.

    The passive party mixes its own rows, as every other party mixes its own, by draws that all of them know: partners
    and shares are no secret of the label party's. Where a defense mixes nothing each row is its own mixture.
    """

    keeps = (ReceivedForMixtures,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Mapping[str, MixedGradients]:
        """Return the sums over the first epoch, the first quarter, the last one, and all epochs."""
        return run.kept(ReceivedForMixtures).of(run.parties)
