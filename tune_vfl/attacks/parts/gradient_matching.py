"""Gradient inversion: search for rows whose gradients match a client's upload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad_and_value, vmap

from tune_vfl.attacks.parts.inversion import as_rows
from tune_vfl.attacks.parts.lbfgs import minimize
from tune_vfl.attacks.parts.single_steps import SingleStep
from tune_vfl.models.optimizers import Adam
from tune_vfl.seeds import Stream

_NUMBERS_AT_ONCE = 2**25
"""Entries of gradients that are held at once, several times over in both passes."""
_SMALL = 1e-11
"""Squared distance, relative to the squared length, at which gradients are the same as far as single precision says."""

Value = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Matched:
    """Candidate batches with their mismatch.

    Attributes:
        rows: ``(G, B, *shape)``, pixels within [0, 1].
        labels: ``(G, B, K)`` probabilities.
        mismatch: ``(G,)`` the squared distance of their gradients from those uploaded, relative to these' squared
            length.
        share: ``(G,)`` the attacker's own estimate of how much of the rows is found; without noise the share of the
            gradients that theirs explain.
    """

    rows: Tensor
    labels: Tensor
    mismatch: Tensor
    share: Tensor

    def with_nearer(self, found: Matched, which: Tensor) -> Matched:
        """Return the finds with those of some batches ``(A,)`` replaced where another find ``(A, ...)`` is nearer."""
        better = found.mismatch.nan_to_num(nan=torch.inf) < self.mismatch[which].nan_to_num(nan=torch.inf)
        pairs = zip(vars(self).values(), vars(found).values(), strict=True)
        return Matched(*(mine.index_copy(0, which[better], others[better]) for mine, others in pairs))

    def nearest_of(self, starts: int) -> Matched:
        """Return of ``starts`` finds for each batch, listed start by start, the nearest."""
        many = len(self.mismatch) // starts
        best = self.mismatch.nan_to_num(nan=torch.inf).view(starts, many).argmin(0)
        return Matched(*(t[best * many + torch.arange(many)] for t in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Prior:
    """A prior of rows: weights and center of the penalties beside the gradients' mismatch.

    Attributes:
        tv: ``(G,)`` or a number: weight of the total variation of images; of tables it counts nothing.
        l2: likewise, of a row's mean squared distance from ``center``.
        center: a row, where searches begin too; None: zero, and searches begin anywhere.
    """

    tv: Tensor | float = 0.0
    l2: Tensor | float = 0.0
    center: Tensor | None = None


class Matching:
    """Batches and their uploaded gradients; each batch is an independent problem.

    Args:
        step: the client's step.
        goal: ``(G, n)`` the gradients.
        shape: of a row.
        batch: B.
        labels: ``(G, B)`` known, or inferred beforehand; None looks for soft labels too.
        num_classes: K.
        prior: the prior of rows.
    """

    def __init__(
        self,
        step: SingleStep,
        goal: Tensor,
        shape: tuple[int, ...],
        batch: int,
        *,
        labels: Tensor | None,
        num_classes: int,
        prior: Prior | None = None,
    ) -> None:
        self._step, self._goal, self._shape, self._batch, self._k = step, goal, shape, batch, num_classes
        # A gradient of zeros, which a defense may upload, is as far from all others as they are long.
        self._square = goal.square().sum(-1).clamp(min=torch.finfo(goal.dtype).tiny)
        self._labels = None if labels is None else F.one_hot(labels, num_classes).to(goal)
        self._pixels, self._image = batch * torch.Size(shape).numel(), len(shape) == 3
        prior = prior or Prior()
        self._weights = torch.stack([torch.as_tensor(w).to(goal).expand(len(goal)) for w in (prior.tv, prior.l2)], -1)
        self._center = prior.center

    def starts(self, stream: Stream, starts: int, batches: int) -> Tensor:
        """Draw where to begin ``(starts, batches, m)``: pixels from U(0, 1), columns and labels' logits from N(0, 1).

        Around a center a tenth of that is added to it, by which the rows of a batch differ.
        """
        rows = (stream.uniform if self._image else stream.normal)(starts, batches, self._pixels)
        if self._center is not None:
            rows = self._center.flatten().repeat(self._batch) + 0.1 * (rows - (0.5 if self._image else 0.0))
        if self._labels is not None:
            return rows.to(self._goal)
        return torch.cat([rows, stream.normal(starts, batches, self._batch * self._k)], -1).to(self._goal)

    def again(self, found: Matched) -> Tensor:
        """Return where a search begins that goes on from a find: ``(G, m)``."""
        rows = found.rows.flatten(1)
        if self._labels is not None:
            return rows
        return torch.cat([rows, found.labels.clamp(min=torch.finfo(rows.dtype).tiny).log().flatten(1)], -1)

    def by_lbfgs(self, start: Tensor, iterations: int) -> Matched:
        """Match by squared distance with L-BFGS (Zhu et al., Deep Leakage from Gradients, NeurIPS 2019).

        Needs a network with informative second derivatives: smooth activations, or none that are zero everywhere.
        """
        value = _mapped(lambda v, *of: self._apart(v, *of) + self._penalty(v, *of))
        ends = []
        for first, part in self._portions(start):

            def objective(v: Tensor, which: Tensor, offset: int = first) -> tuple[Tensor, Tensor]:
                slope, apart = value(v, *self._of(which + offset))
                return apart.detach(), slope.detach()

            ends.append(minimize(objective, part, iterations=iterations, enough=_SMALL)[0])
        return self._found(torch.cat(ends))

    def by_cosine(self, start: Tensor, iterations: int, lr: float) -> Matched:
        """Match directions: 1 - cosine and the prior, by Adam on the signs of the gradient, pixels kept in [0, 1].

        Geiping et al., Inverting Gradients, NeurIPS 2020: the step is a tenth of what it was after 3/8, 5/8 and 7/8
        of all steps. Made for ReLU nets.
        """
        value = _mapped(lambda v, *of: self._turned(v, *of) + self._penalty(v, *of))
        ends = [self._signed(value, part, first, iterations, lr) for first, part in self._portions(start)]
        return self._found(torch.cat(ends))

    def _signed(self, value: Value, start: Tensor, first: int, iterations: int, lr: float) -> Tensor:
        v = start.clone().requires_grad_()
        optimizer, of = Adam([v], lr=lr), self._of(torch.arange(first, first + len(v)))
        rows = v.data[:, : self._pixels]
        for i in range(iterations):
            optimizer.param_groups[0]["lr"] = lr * 0.1 ** sum(8 * i >= part * iterations for part in (3, 5, 7))
            v.grad = value(v.detach(), *of)[0].detach().nan_to_num().sign()
            optimizer.step()
            if self._image:
                rows.clamp_(0.0, 1.0)
        return v.detach()

    def _portions(self, start: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield as many batches as memory is for, and the position of the first."""
        size = max(1, _NUMBERS_AT_ONCE // max(1, self._step.width))
        yield from ((first, start[first : first + size]) for first in range(0, len(start), size))

    def _of(self, which: Tensor) -> tuple[Tensor, ...]:
        known = (self._weights[which], self._goal[which], self._square[which])
        return known if self._labels is None else (*known, self._labels[which])

    def _rows(self, v: Tensor) -> Tensor:
        return v[..., : self._pixels].reshape(*v.shape[:-1], self._batch, *self._shape)

    def _gradient(self, v: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None:
            labels = v[self._pixels :].view(self._batch, self._k).softmax(-1)
        return self._step.gradient(self._rows(v), labels)

    def _apart(self, v: Tensor, _w: Tensor, goal: Tensor, square: Tensor, labels: Tensor | None = None) -> Tensor:
        return (self._gradient(v, labels) - goal).square().sum() / square

    def _turned(self, v: Tensor, _w: Tensor, goal: Tensor, square: Tensor, labels: Tensor | None = None) -> Tensor:
        mine = self._gradient(v, labels)
        return 1 - (mine * goal).sum() / (mine.square().sum() * square).clamp(min=1e-30).sqrt()

    def _penalty(self, v: Tensor, weights: Tensor, *_of: Tensor) -> Tensor:
        rows = self._rows(v)
        away = rows if self._center is None else rows - self._center
        found = weights[1] * away.square().mean()
        return found + weights[0] * roughness(rows) if self._image else found

    @torch.no_grad()
    def _found(self, v: Tensor) -> Matched:
        apart = vmap(self._apart, randomness="same")
        parts = [apart(p, *self._of(torch.arange(first, first + len(p)))) for first, p in self._portions(v)]
        labels = self._labels
        if labels is None:
            labels = v[:, self._pixels :].view(-1, self._batch, self._k).softmax(-1)
        mismatch = torch.cat(parts)
        explained = 1 - mismatch.nan_to_num(nan=1.0).clamp(max=1.0)
        return Matched(as_rows(self._rows(v), self._shape), labels, mismatch, explained)


def _mapped(distance: Callable[..., Tensor]) -> Value:
    """Return a function for slopes and values of a distance over many batches; random draws are shared by all."""
    found: Value = vmap(grad_and_value(distance), randomness="same")
    return found


def roughness(x: Tensor) -> Tensor:
    """Return the mean absolute difference of neighbors along the height plus that along the width (Geiping et al.)."""
    parts = [d.abs().mean() for d in (x.diff(dim=-2), x.diff(dim=-1)) if d.numel()]
    return torch.stack(parts).sum() if parts else x.new_zeros(())
