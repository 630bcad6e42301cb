"""Training rows mixed with others: partners, shares and labels of the mixture, the same at every party."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.defenses.base import Defense
from tune_vfl.defenses.parts.by_id import RowTable
from tune_vfl.protocol.granted import Mixtures
from tune_vfl.protocol.hooks import RowsById
from tune_vfl.protocol.members import Batch
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict

LARGEST_SHARE = 0.65
"""No row of a mixture has a larger share."""
REDRAWS = 40
"""A draw for two rows fits with probability .371, for more rows more often: all of these fail once in 1e8 mixtures."""


class MixingParams(Strict):
    """Parameters of every mixing defense."""

    mix: int = Field(2, ge=1, description="rows in a mixture, the row itself included; 1 mixes nothing")
    remix: Literal["epoch", "once"] = Field("epoch", description="draw partners and shares each epoch, or once")


def draw_shares(stream: Stream, rows: int, mix: int) -> Tensor:
    """Draw the shares of mixtures: |n| / sum |n| of normal n, drawn again where one exceeds ``LARGEST_SHARE``.

    A mixture without a fitting draw after ``REDRAWS`` of them gets equal shares: always as many draws for all mixtures,
    so that no shape depends on what was drawn.

    Returns:
        ``(*trials, rows, mix)``, each row's summing to 1.
    """
    shares = _share_out(stream.normal(rows, mix))
    if mix == 1:
        return shares
    for _ in range(REDRAWS - 1):
        shares = torch.where(_fits(shares), shares, _share_out(stream.normal(rows, mix)))
    return torch.where(_fits(shares), shares, torch.full_like(shares, 1 / mix))


def _share_out(draws: Tensor) -> Tensor:
    magnitudes = draws.abs()
    return magnitudes / magnitudes.sum(-1, keepdim=True)


def _fits(shares: Tensor) -> Tensor:
    return shares.amax(-1, keepdim=True) <= LARGEST_SHARE


class Mixing(Defense[MixingParams]):
    """Base: the bottom models train on mixtures of rows, the loss on the mixtures of their labels.

    Every party draws the same partners and shares, from a seed that all of them know. The second rows of all mixtures
    are a permutation of the training rows, as are the third and so on, so that each row is used equally often. A
    mixture carries the id of its first row, also for an attacker. Test rows are never mixed. In the horizontal setting
    a client mixes its own rows with each other, by draws of its own.
    """

    Params = MixingParams

    @classmethod
    def structure(cls, params: MixingParams) -> tuple[object, ...]:
        """What members of one pack must share: also the number of rows in a mixture."""
        return tuple(params.model_dump().items())

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: draw the mixtures of the first epoch."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        self.mix, self._once = self.shared.mix, self.shared.remix == "once"
        self._ids, self._y, self._table = ids, y, RowTable(ids)
        self._draw(0)

    def _draw(self, epoch: int) -> None:
        self._epoch, self._mixtures = epoch, self._drawn(epoch)

    def _drawn(self, epoch: int) -> Mixtures:
        stream = self.streams.fresh(f"mix/{epoch}")
        count = self._table.count
        own = torch.arange(count, device=self._device).expand_as(self._ids)
        orders = [own, *(stream.permutation(count).expand_as(own) for _ in range(self.mix - 1))]
        return Mixtures(torch.stack(orders, dim=-1), draw_shares(stream, count, self.mix))

    def mixtures(self, epoch: int) -> Mixtures:
        """Return partners, as positions in the set-up's order, and shares; of another epoch drawn once more."""
        return self._mixtures if self._once or epoch == self._epoch else self._drawn(epoch)

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """H2: the mixtures that these rows are the first of, of every party's columns."""
        if epoch != self._epoch and not self._once:
            self._draw(epoch)
        positions = self._table.positions(batch.ids)
        shares = _at(self._mixtures.shares, positions)
        partners = self._ids.gather(-1, _at(self._mixtures.partners, positions).flatten(-2)).view(shares.shape)
        mixed = [x * _like(shares[..., 0], x) for x in batch.features]
        for j in range(1, self.mix):
            taken = rows.take(partners[..., j])
            mixed = [x + other * _like(shares[..., j], other) for x, other in zip(mixed, taken, strict=True)]
        return batch.with_features(self.encoded(mixed, positions))

    def encoded(self, mixed: list[Tensor], positions: Tensor) -> list[Tensor]:
        """Return what becomes of the mixtures ``(*trials, B, ...)`` of every party; by default nothing."""
        return mixed

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: the labels ``(*trials, B, K)`` of the current mixtures, in their shares; ``y`` where nothing is mixed."""
        if self.mix == 1:
            return y
        positions = self._table.positions(ids)
        partners = _at(self._mixtures.partners, positions)
        classes = self._y.gather(-1, partners.flatten(-2)).view(partners.shape)
        return (one_hot(classes, self.num_classes) * _at(self._mixtures.shares, positions).unsqueeze(-1)).sum(-2)

    def notes(self, member: int = 0) -> list[str]:
        """Return what mixing leaves open, and what attacks on features read."""
        mixed = (
            f"{self.name}: whoever mixes knows partners and shares, so that a passive party of a vertical federation "
            "can undo the mixing of labels in the gradients it receives; the attack 'unmix' does"
        )
        once = (
            f"{self.name}: mixtures that are drawn once are as many equations as there are rows, some of them all but "
            "dependent, so that 'unmix' recovers the gradients of single rows in part only"
        )
        plain = f"{self.name}: attacks on features read embeddings of rows as they are at inference, unmixed"
        return [*([mixed] if self.mix > 1 else []), *([once] if self.mix > 1 and self._once else []), plain]


def _at(table: Tensor, positions: Tensor) -> Tensor:
    """Return the rows ``(*trials, B, mix)`` of a table ``(*trials, N, mix)``."""
    return table.gather(-2, positions.unsqueeze(-1).expand(*positions.shape, table.shape[-1]))


def _like(per_row: Tensor, x: Tensor) -> Tensor:
    return per_row.view(*per_row.shape, *[1] * (x.dim() - per_row.dim()))


class Signs:
    """A random sign for each entry of each row, held for all rows; members that share a seed share them.

    Args:
        seeds: the seed of the one trial, or of each member.
        prefix: of the streams' names.
        rows: N.
        device: where the signs live.
    """

    def __init__(self, seeds: int | Sequence[int], prefix: str, rows: int, device: torch.device) -> None:
        members = [seeds] if isinstance(seeds, int) else list(seeds)
        distinct = list(dict.fromkeys(members))
        self._of_member = torch.tensor([distinct.index(seed) for seed in members], device=device)
        self._streams = Streams(distinct, device, prefix)
        self._rows = rows
        self._stacked = not isinstance(seeds, int)
        self._held: dict[tuple[int, int], Tensor] = {}

    def of(self, party: int, epoch: int, positions: Tensor, shape: Sequence[int]) -> Tensor:
        """Return ``(*trials, B, *shape)`` of -1 and 1 for the rows at these positions."""
        key = (party, epoch)
        if key not in self._held:
            self._held = {k: v for k, v in self._held.items() if k[1] == epoch}
            self._held[key] = self._streams.fresh(f"signs/{party}/{epoch}").uniform(self._rows, *shape) < 0.5
        held = self._held[key]
        flipped = held[self._of_member.unsqueeze(-1), positions] if self._stacked else held[0][positions]
        return 1 - 2 * flipped.float()
