"""Training rows mixed with others: partners, shares and labels of the mixture, the same at every party."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.defenses.base import Defense
from tune_vfl.defenses.parts.by_id import RowTable
from tune_vfl.protocol.granted import Mixtures
from tune_vfl.protocol.hooks import RowsById
from tune_vfl.protocol.members import Batch, equal_trials, gather_rows
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict

LARGEST_SHARE = 0.65
"""No row of a mixture has a larger share."""
REDRAWS = 40
"""A draw for two rows fits with probability .371, for more rows more often: all of these fail once in 1e8 mixtures."""


Rows = TypeVar("Rows", Tensor, Sequence[int])


class MixingParams(Strict):
    """Parameters of every mixing defense."""

    mix: int = Field(2, ge=1, description="rows in a mixture, the row itself included; 1 mixes nothing")
    remix: Literal["epoch", "once"] = Field("epoch", description="draw partners and shares each epoch, or once")


def draw_shares(stream: Stream, rows: int, mix: int) -> Tensor:
    """Draw the shares of mixtures: |n| / sum |n| of normal n, drawn again where one exceeds ``LARGEST_SHARE``.

    A mixture without a fitting draw after ``REDRAWS`` of them gets equal shares. Until all fit, all are drawn again, so
    that no shape depends on what was drawn; the stream is for nothing else.

    Returns:
        ``(*trials, rows, mix)``, each row's summing to 1.
    """
    shares = _share_out(stream.normal(rows, mix))
    if mix == 1:
        return shares
    for _ in range(REDRAWS - 1):
        fits = _fits(shares)
        if bool(fits.all()):
            return shares
        shares = torch.where(fits, shares, _share_out(stream.normal(rows, mix)))
    return torch.where(_fits(shares), shares, torch.full_like(shares, 1 / mix))


def _share_out(draws: Tensor) -> Tensor:
    magnitudes = draws.abs()
    return magnitudes / magnitudes.sum(-1, keepdim=True)


def _fits(shares: Tensor) -> Tensor:
    return shares.amax(-1, keepdim=True) <= LARGEST_SHARE


class _Found(NamedTuple):
    """Mixtures of rows: positions, and ids, classes and shares ``(*trials, B, mix)`` of the mixed rows."""

    positions: Tensor
    ids: Tensor
    classes: Tensor
    shares: Tensor


class Mixing(Defense[MixingParams]):
    """Base class: bottom models train on mixtures of rows, the loss on the mixtures of their labels.

    Every party draws the same partners and shares, from a seed that all of them know. The second rows of all mixtures
    are a permutation of the training rows, as are the third and so on, so that each row is used equally often. A
    mixture carries the id of its first row, also for an attacker. Test rows are never mixed. In the horizontal setting
    a client mixes its own rows with each other, by draws of its own.
    """

    Params = MixingParams
    _members: Mixtures | None

    @classmethod
    def structure(cls, params: MixingParams) -> tuple[object, ...]:
        """Parameters that members of one pack must share, the number of rows in a mixture included."""
        return tuple(params.model_dump().items())

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: draw the mixtures of the first epoch."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        self.mix, self._once = self.shared.mix, self.shared.remix == "once"
        # Mixtures are those of a seed: all trials of a pack have the same.
        self._trials = equal_trials(seed, ids, y)
        self._ids, self._y = self._once_each(ids), self._once_each(y)
        self._seeds = seed if isinstance(seed, int) else self._once_each(list(seed))
        self._table, self._draws = RowTable(self._ids), Streams(self._seeds, self._device, self.stream_prefix)
        self._draw(0)

    def _once_each(self, of_members: Rows) -> Rows:
        """Return the first trial's part of ``(*trials, ...)`` values that all trials share."""
        return of_members[: len(of_members) // self._trials] if self.stacked else of_members

    def _handed_out(self, of_seeds: Tensor, members: int) -> Tensor:
        """Expand ``(S, ...)`` to the members of each seed, ``(*trials, ...)``; values by member stay."""
        if not self.stacked or len(of_seeds) == members:
            return of_seeds
        return of_seeds.repeat(members // len(of_seeds), *[1] * (of_seeds.dim() - 1))

    def _draw(self, epoch: int) -> None:
        self._epoch, self._mixtures, self._members = epoch, self._drawn(epoch), None

    def _drawn(self, epoch: int) -> Mixtures:
        stream = self._draws.fresh(f"mix/{epoch}")
        count = self._table.count
        own = torch.arange(count, device=self._device).expand_as(self._ids)
        orders = [own, *(stream.permutation(count).expand_as(own) for _ in range(self.mix - 1))]
        return Mixtures(torch.stack(orders, dim=-1), draw_shares(stream, count, self.mix))

    def mixtures(self, epoch: int) -> Mixtures:
        """Return partners, as positions in the set-up's order, and shares; of another epoch drawn once more."""
        if not self._once and epoch != self._epoch:
            return self._of_members(self._drawn(epoch))
        self._members = self._members or self._of_members(self._mixtures)
        return self._members

    def _of_members(self, found: Mixtures) -> Mixtures:
        return Mixtures(*(self._handed_out(x, len(x) * self._trials) for x in (found.partners, found.shares)))

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """H2: the mixtures that these rows are the first of, of every party's columns."""
        if epoch != self._epoch and not self._once:
            self._draw(epoch)
        given = batch.by_seed
        found = self._found(batch.ids[: len(given[0])] if self.stacked else batch.ids)
        mixed = [x * _like(found.shares[..., 0], x) for x in given]
        for j in range(1, self.mix):
            taken = rows.take(found.ids[..., j])
            mixed = [x + other * _like(found.shares[..., j], other) for x, other in zip(mixed, taken, strict=True)]
        return batch.with_rows(self.encoded(mixed, found.positions))

    def _found(self, ids: Tensor) -> _Found:
        """Look the mixtures of rows ``(n, B)`` up: of each seed once, or of each member."""
        again = len(ids) // len(self._ids) if self.stacked else 1
        if again > 1:  # the rows of a seed's members beside each other, as one list
            ids = ids.reshape(again, -1, ids.shape[-1]).transpose(0, 1).flatten(1)
        positions = self._table.positions(ids)
        partners, shares = (_at(x, positions) for x in (self._mixtures.partners, self._mixtures.shares))
        own, classes = (x.gather(-1, partners.flatten(-2)).view(partners.shape) for x in (self._ids, self._y))
        found = _Found(positions, own, classes, shares)
        if again > 1:
            return _Found(*(x.reshape(len(x), again, -1, *x.shape[2:]).transpose(0, 1).flatten(0, 1) for x in found))
        return found

    def encoded(self, mixed: list[Tensor], positions: Tensor) -> list[Tensor]:
        """Return the mixtures ``(*trials, B, ...)`` of every party after an encoding; by default unchanged."""
        return mixed

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: the labels ``(*trials, B, K)`` of the current mixtures, in their shares; ``y`` where nothing is mixed."""
        if self.mix == 1:
            return y
        once = self._once_each(ids)
        alike = self._trials > 1 and bool((ids.reshape(self._trials, *once.shape) == once).all())
        found = self._found(once if alike else ids)
        mixed = (one_hot(found.classes, self.num_classes) * found.shares.unsqueeze(-1)).sum(-2)
        return self._handed_out(mixed, len(ids))

    def notes(self, member: int = 0) -> list[str]:
        """Return notes on the limits of mixing, and on the rows that attacks on features read."""
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
    """A random sign for each entry of each row, the same for members that share a seed.

    Args:
        seeds: the seed of the one trial, or of each member; where all trials have the same, those of one of them.
        prefix: of the streams' names.
        rows: N.
        device: where the signs live.
    """

    def __init__(self, seeds: int | Sequence[int], prefix: str, rows: int, device: torch.device) -> None:
        self._streams, self._rows = Streams(seeds, device, prefix), rows
        self._held: dict[tuple[int, int], Tensor] = {}

    def flipped(self, x: Tensor, party: int, epoch: int, positions: Tensor) -> Tensor:
        """Return ``x (*trials, B, ...)``, with the signs of the rows at these positions ``(*trials, B)``."""
        key = (party, epoch)
        if key not in self._held:
            self._held = {k: v for k, v in self._held.items() if k[1] == epoch}
            shape = x.shape[positions.dim() :]
            self._held[key] = self._streams.fresh(f"signs/{party}/{epoch}").uniform(self._rows, *shape) < 0.5
        held = self._held[key]
        if positions.dim() == 1 or len(positions) == len(held):
            minus = gather_rows(held, positions)
        else:
            seed = torch.arange(len(positions), device=positions.device).remainder(len(held))
            minus = held[seed.unsqueeze(-1), positions]
        return torch.where(minus, -x, x)
