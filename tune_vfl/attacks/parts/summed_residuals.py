"""Labels from sums of residuals over batches: a regression on what all sums of a training say together.

A sum of residual times own columns is linear in the labels of its batch. What else is in a residual, the class
probability that the model gives the row, the party knows but for the other parties' part of the logit. That part moves
as their weights do, and their weights move when its own do: it is taken for a few numbers of each row times the main
directions in which the party's own weights moved from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tune_vfl.attacks.parts.clipped_sums import Sizes, Spread, may_be_clipped
from tune_vfl.protocol.losses import class_probabilities
from tune_vfl.protocol.sums import BatchSums
from tune_vfl.seeds import Stream

MOVES = 6
"""Directions in which weights moved that the other parties' part of the logits follows."""
VISITS = 1_000_000
"""Rows of all batches together that are read; of a longer training epochs evenly spread over it."""
MOST_NOISE, STEP = 3000.0, 10.0
"""Variance of what a row's residual is not described by, where the search for it begins, and by what it falls."""
_LEAST_NOISE = 1e-5
_ROUGHLY, _FULLY = (1, 15), (4, 20)
"""Rounds, and steps of conjugate gradients in each, of a fit that is checked and of the last one."""
_UNTOLD = 3.0
"""Noise below which labels are taken to be told: what is left open of them falls as the noise does."""
_SPREAD = 1.0
"""Deviation of a row's part of the logit along a direction, where weights have moved farthest."""
_CHECKED, _SURE, _CLOSE = 0.1, 1.5, 0.5
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Told:
    """One party's sums, batch by batch, as the regression reads them.

    Attributes:
        sums: ``(C, d, K)`` of columns times residuals over the rows of each of C batches, not their mean.
        x: ``(C, B, d)`` the batch's rows, columns of mean square 1; 0 where a batch has fewer.
        there: ``(C, B, 1)`` 1 for a row, 0 beyond the last.
        rows: ``(C B)`` their positions; N beyond the last.
        places: ``(E, N)`` where each row stands among these.
        own: ``(C, B, K)`` the party's part of the logits.
        moves: ``(C, m)`` how far weights had moved along each direction, at most 1.
        heard: ``(C, d, 1)`` 1 for a sum that takes part, 0 for one that does not.
        parts: ``(P, d)`` 1 where a column is a party's.
        lengths: ``(C, P)`` of what each party was told, in the units in which it was.
    """

    sums: Tensor
    x: Tensor
    there: Tensor
    rows: Tensor
    places: Tensor
    own: Tensor
    moves: Tensor
    heard: Tensor
    parts: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, told: BatchSums, x: Tensor) -> Told:
        """Lay the sums ``told`` of one training out, for columns ``(N, d)``."""
        epochs, count = told.order.shape
        read = torch.linspace(0, epochs - 1, min(epochs, max(1, VISITS // count))).round().long()
        size, scale = told.batch_size, x.square().mean(0).sqrt().clamp(min=_LEAST)
        order, steps = told.order[read], told.values.shape[1]
        spare = order.new_full((len(read), steps * size - count), count)
        rows = torch.cat([order, spare], -1).flatten()
        there = (rows < count).float().view(-1, size, 1)
        fed = torch.cat([x / scale, x.new_zeros(1, x.shape[-1])]).index_select(0, rows).view(-1, size, x.shape[-1])
        values, weights = (t[read].flatten(0, 1).mT for t in (told.values, told.weights))
        sums = values / scale.unsqueeze(-1) * there.sum(-2, keepdim=True)
        places = order.argsort(-1) + torch.arange(len(read)).unsqueeze(-1) * steps * size
        left, sizes, _ = torch.linalg.svd(weights.flatten(1), full_matrices=False)
        main = left[:, :MOVES] * sizes[:MOVES]
        moves = main / main.abs().amax(0).clamp(min=_LEAST) * main[-1].sign()
        heard = torch.ones_like(sums[..., :1])
        own = fed @ (weights * scale.unsqueeze(-1))
        held = torch.tensor(told.columns or x.shape[-1:])
        parts = torch.eye(len(held)).repeat_interleave(held, dim=1)
        lengths = (values.square().sum(-1) @ parts.mT).sqrt()
        return cls(sums, fed, there, rows, places, own, moves, heard, parts, lengths)

    def only(self, heard: Tensor) -> Told:
        """Return this with the sums that ``heard`` ``(C, d, 1)`` names, and 0 in the place of others."""
        return replace(self, sums=self.sums * heard, heard=heard)

    def of_rows(self, state: Tensor) -> Tensor:
        """Return ``(C, B, K, 1 + m)`` the state ``(N, K, 1 + m)`` of the rows of each batch, 0 beyond the last."""
        flat = torch.cat([state, torch.zeros_like(state[:1])]).flatten(1)
        return flat.index_select(0, self.rows).view(*self.x.shape[:2], *state.shape[1:])

    def by_row(self, parts: Tensor) -> Tensor:
        """Return the sums ``(N, K, 1 + m)`` of ``(C, B, K, 1 + m)`` over the visits of each row."""
        flat, found = parts.reshape(len(self.rows), -1), torch.zeros(self.places.shape[-1], parts.shape[2:].numel())
        for epoch in self.places:
            found += flat.index_select(0, epoch)
        return found.view(-1, *parts.shape[2:])

    def summed(self, residuals: Tensor) -> Tensor:
        """Return the sums ``(C, d, K)`` of columns times residuals ``(C, B, K)``, of those that are heard."""
        return (self.x.mT @ residuals) * self.heard

    def back(self, sums: Tensor, slope: Tensor) -> Tensor:
        """Return the transpose of what takes a state to sums, applied to sums ``(C, d, K)``."""
        return self.by_row((self.x @ (sums * self.heard)).unsqueeze(-1) * slope)


def labels_of(told: Told, prior: Tensor, variance: Tensor, stream: Stream) -> Tensor:
    """Return beliefs ``(N, K)`` in each logit's class: around 0 and 1, and not bound to lie between them.

    How much of a residual is taken for noise, a defense's or what the description lacks, is what a tenth of the sums
    says that takes no part in the fit.

    Args:
        told: the batches.
        prior: ``(N, K)`` beliefs before anything was told.
        variance: ``(N, K)`` of the labels around them.
        stream: which sums take no part.
    """
    heard = (stream.uniform(told.heard.numel()).view_as(told.heard) > _CHECKED).float()
    fitted, checked = told.only(heard), told.only(1 - heard)
    suppositions = [Regression(fitted, prior, variance, clipped) for clipped in may_be_clipped(told.lengths)]
    _, noise, best = max((searched(regression, checked) for regression in suppositions), key=lambda found: found[0])
    whole = Regression(told, prior, variance, best.clipped)
    whole.state = best.state
    return whole.fit(noise, *_FULLY).state[..., 0]


def searched(regression: Regression, checked: Told) -> tuple[float, float, Regression]:
    """Return how well sums that take no part are said at best, the noise to believe in, and the fit there.

    The noise falls step by step to the end: sizes of clipped sums are far off at first. Of noises the largest is
    believed in that is not surely worse than the best.
    """
    tried, noise = [], MOST_NOISE
    wanted = normalize(checked.sums.flatten(), dim=0)
    while noise > _LEAST_NOISE:
        said = normalize(regression.fit(noise, *_ROUGHLY).said_of(checked).flatten(), dim=0)
        tried.append((said * wanted, noise, regression.state))
        noise /= STEP
    best = max((right for right, *_ in tried), key=lambda right: float(right.sum()))
    count = int(checked.heard.sum())
    noise, regression.state = next((n, state) for right, n, state in tried if not surely_better(best, right, count))
    return float(best.sum()), noise, regression


def surely_better(best: Tensor, other: Tensor, count: int) -> bool:
    """Return whether products of what was said and told, of unit vectors, are surely larger than others.

    Args:
        best: of which the sum is a cosine.
        other: alike.
        count: of products that are not 0 because a sum takes part.
    """
    less = best - other
    error = (less - less.sum() / count).square().sum().sqrt()
    return bool(less.sum() > _SURE * error or 1 - other.sum() > (1 + _CLOSE) * (1 - best.sum()))


class Regression:
    """Gauss-Newton for labels and the other parties' part of the logits together.

    Args:
        told: the batches.
        prior: ``(N, K)`` beliefs in each logit's class.
        variance: ``(N, K)`` of the labels around them.
        clipped: ``(C, P)`` which sums may have been clipped.

    Attributes:
        state: ``(N, K, 1 + m)`` of each row the label, and what its logit gains along each direction.
    """

    def __init__(self, told: Told, prior: Tensor, variance: Tensor, clipped: Tensor) -> None:
        self.clipped = clipped
        self._told, self._sizes = told, Sizes.of(told.sums, told.parts)
        self._open = told.of_rows(variance.unsqueeze(-1))[..., 0]
        along = torch.zeros(*prior.shape, told.moves.shape[-1])
        self._prior = torch.cat([prior.unsqueeze(-1), along], -1)
        self._sure = torch.cat([1 / variance.unsqueeze(-1), along + _SPREAD**-2], -1)
        self.state = self._prior.clone()

    def fit(self, noise: float, rounds: int, steps: int) -> Regression:
        """Go so many rounds, each of so many steps of conjugate gradients; return this regression.

        Args:
            noise: variance of what a row's residual is not described by.
            rounds: how many.
            steps: of each round.
        """
        told, every = self._told, noise * self._told.x.shape[1]
        for _ in range(rounds):
            slope, missed = linearized(told, self.state)
            if self.clipped.any():
                spread = Spread(told.x, min(1.0, noise / _UNTOLD) * self._open, told.heard, told.parts)
                self._sizes = self._sizes.likeliest(told.sums, self.clipped, spread, told.sums - missed, every)
                missed = missed + told.sums * (self._sizes.spread(self._sizes.factors) - 1)
            self._descend(slope, missed, every, steps)
        return self

    def said_of(self, checked: Told) -> Tensor:
        """Return ``(C, d, K)`` what sums ``checked`` that take no part are expected to be told as."""
        missed = linearized(checked, self.state)[1]
        return (checked.sums - missed) / self._sizes.spread(self._sizes.factors)

    def _descend(self, slope: Tensor, missed: Tensor, noise: float, steps: int) -> None:
        """Solve the linearized problem, each number of a row by its own curvature (a Jacobi preconditioner)."""
        told, sure, weighed = self._told, self._sure, self._sizes.weighed
        lengths = told.x.square().sum(-1)[..., None, None]
        curvature = told.by_row(slope.square() * lengths) / noise + sure
        left = told.back(weighed(missed), slope) / noise - sure * (self.state - self._prior)
        moved, turned = torch.zeros_like(left), left / curvature
        ahead, size = turned, (left * turned).sum()
        for _ in range(steps):
            said = told.summed((told.of_rows(ahead) * slope).sum(-1))
            bent = told.back(weighed(said), slope) / noise + sure * ahead
            length = size / (ahead * bent).sum().clamp(min=_LEAST)
            moved, left = moved + length * ahead, left - length * bent
            turned = left / curvature
            before, size = size, (left * turned).sum()
            ahead = turned + size / before.clamp(min=_LEAST) * ahead
        self.state = self.state + moved


def linearized(told: Told, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the slope of each residual in its row's state, and what sums have beyond those that follow from it.

    Args:
        told: the batches.
        state: ``(N, K, 1 + m)`` of each row, see :class:`Regression`.

    Returns:
        ``(C, B, K, 1 + m)`` and ``(C, d, K)``.
    """
    held, moves = told.of_rows(state), told.moves[:, None, None]
    logits = told.own + (held[..., 1:] * moves).sum(-1)
    p = class_probabilities(logits)[..., -logits.shape[-1] :]
    along = (p * (1 - p) * told.there).unsqueeze(-1) * moves
    slope = torch.cat([-told.there.expand_as(p).unsqueeze(-1), along], -1)
    return slope, told.sums - told.summed((p - held[..., 0]) * told.there)
