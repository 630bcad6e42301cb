"""Random draws of MixMatch, gathered for many steps at once, since none of them depends on the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tune_vfl.protocol.members import gather_rows
from tune_vfl.seeds import Stream

StreamsByName = Callable[[str], Stream]
_DRAWN = 256
_NUMBERS_AT_ONCE = 2**19
"""Of mixed inputs: what stays in a core's own cache is read again sooner than it is gathered."""


@dataclass(frozen=True)
class Fit:
    """Duration and optimizer of a model's training, with MixMatch's constants of Fu et al. if used."""

    steps: int
    lr: float
    batch_size: int
    ema_decay: float = 0.99
    temperature: float = 0.8
    alpha: float = 0.75
    unlabeled_weight: float = 50.0


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows to learn from.

    Attributes:
        x: ``(*trials, N, ...)`` inputs of all rows.
        at: ``(*trials, A)`` positions of the labeled rows.
        targets: ``(*trials, A, K)`` their one-hot labels.
        rest: ``(*trials, U)`` positions of the unlabeled rows.
    """

    x: Tensor
    at: Tensor
    targets: Tensor
    rest: Tensor


class Cycle:
    """Endless batches of positions ``0..n-1``: a new random order whenever fewer than a batch are left."""

    def __init__(self, n: int, batch: int, stream: Stream) -> None:
        self._n, self._batch, self._stream = n, batch, stream
        self._at, self._order = n, torch.empty(0)

    def next(self) -> Tensor:
        """Return the next ``(*trials, batch)`` positions."""
        if self._at + self._batch > self._n:
            self._order, self._at = self._stream.permutation(self._n), 0
        self._at += self._batch
        return self._order[..., self._at - self._batch : self._at]


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows of the next M steps of a training in batches of B labeled and B unlabeled rows.

    Attributes:
        guessed: ``(M, *trials, B, ...)`` the unlabeled rows, of which targets are guessed.
        mixed: ``(M, *trials, 2B, ...)`` rows mixed with their partners; labeled ones first.
        known: ``(M, *trials, B, K)`` targets of the labeled rows.
        partners: ``(M, *trials, 2B)`` the partner of each row, in ``0..2B-1``.
        shares: ``(M, *trials, 1, 1)`` how much of each row is itself, at least one half.
    """

    guessed: Tensor
    mixed: Tensor
    known: Tensor
    partners: Tensor
    shares: Tensor


def mixed_rows(pool: Pool, fit: Fit, streams: StreamsByName) -> Iterator[MixedRows]:
    """Yield the random draws of ``fit.steps`` steps in chunks that fit the cache.

    A step takes a batch of labeled and one of unlabeled rows, mixes both with one Beta(alpha, alpha) number per member,
    and draws each row's partner.
    """
    # The names of streams decide what is drawn from them: in another spelling every measured number would move.
    labeled = Cycle(pool.at.shape[-1], fit.batch_size, streams("labelled"))
    unlabeled = Cycle(pool.rest.shape[-1], fit.batch_size, streams("unlabelled"))
    shares, partners = streams("mix"), streams("pairs")
    lead = pool.at.shape[:-1]
    numbers = 2 * fit.batch_size * pool.x.numel() // pool.x.shape[len(lead)]
    together = min(_DRAWN, max(1, _NUMBERS_AT_ONCE // numbers))
    left = fit.steps
    while left > 0:
        share, partner = _mixes(fit, shares, partners)
        drawn = min(_DRAWN, left)
        for start in range(0, drawn, together):
            part = slice(start, min(start + together, drawn))
            steps = range(part.start, part.stop)
            known = torch.stack([labeled.next() for _ in steps])
            others = torch.stack([unlabeled.next() for _ in steps])
            yield _gathered(pool, (known, others), share[part], partner[part])
        left -= drawn


def _mixes(fit: Fit, shares: Stream, pairs: Stream) -> tuple[Tensor, Tensor]:
    """Return the shares ``(256, *trials)`` and partners ``(256, *trials, 2B)`` of the next steps."""
    from scipy.special import betaincinv

    uniform = shares.uniform(_DRAWN)
    beta = torch.from_numpy(betaincinv(fit.alpha, fit.alpha, uniform.double().cpu().numpy()))
    share = torch.maximum(beta, 1 - beta).to(uniform)
    partner = pairs.uniform(_DRAWN, 2 * fit.batch_size).argsort(-1)
    return (share, partner) if share.dim() == 1 else (share.transpose(0, 1), partner.transpose(0, 1))


def _gathered(pool: Pool, drawn: tuple[Tensor, Tensor], share: Tensor, partner: Tensor) -> MixedRows:
    chosen, others = drawn
    rows = torch.cat([_at(pool.at, chosen), _at(pool.rest, others)], -1)
    batch = chosen.shape[-1]
    own, theirs = _at(pool.x, rows), _at(pool.x, rows.gather(-1, partner))
    mixed = torch.lerp(theirs, own, share.to(own.dtype).view(*share.shape, *[1] * (own.dim() - share.dim())))
    guessed = own.narrow(share.dim(), batch, batch)
    known = _at(pool.targets, chosen)
    return MixedRows(guessed, mixed, known, partner, share[..., None, None].to(known.dtype))


def _at(x: Tensor, positions: Tensor) -> Tensor:
    """Return ``(M, *trials, m, ...)`` rows of ``x (*trials, n, ...)`` at ``positions (M, *trials, m)``."""
    if positions.dim() == 2:
        return x.index_select(0, positions.reshape(-1)).view(*positions.shape, *x.shape[1:])
    if not x.is_contiguous():  # members that share their rows: making them one axis would copy all of them
        each = gather_rows(x, positions.transpose(0, 1).flatten(1))
        return each.view(len(each), len(positions), -1, *each.shape[2:]).transpose(0, 1).contiguous()
    # One axis of rows for all members: gathering with an index a number takes five times as long.
    first = torch.arange(x.shape[0], device=x.device)[:, None] * x.shape[1]
    found = x.flatten(0, 1).index_select(0, (positions + first).reshape(-1))
    return found.view(*positions.shape, *x.shape[2:])
