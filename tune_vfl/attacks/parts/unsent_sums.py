"""Labels by the ledger of a defense that sends the largest entries alone: what is sent adds up gradients of known rows.

What is not sent of a place of the batch is added to the next gradient of that place, and a party that knows which rows
stood where knows the addends of each sum. It also knows that each sum that was not sent is smaller than all that were.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from tune_vfl.attacks.parts.columns import principal, scaled, standardized, taken
from tune_vfl.attacks.parts.folded_rows import FOLDS, others
from tune_vfl.attacks.parts.templates import hats, knots_of, roughness

if TYPE_CHECKING:
    from tune_vfl.protocol.visits import Visits

KNOTS = (0.0, 0.5, 1.5, 4.0)
"""Epochs between which templates and noise are linear; the end of the training is another one."""
SENT = 5
"""Principal columns of the embeddings."""
SMOOTH, RIDGE = 0.3, 0.03
"""Penalties on the difference of neighboring knots and on every template, in units of the weight of a class."""
TOGETHER = 256
"""Rows of a fold whose products are added up at once."""
_NOISE = 0.01
"""The variance that noise is first taken to have, in units of the mean square of what was sent."""
_FLAT = 1e-8
"""The precision of a message that says nothing."""
_UNLIKELY = 1e-5


class UnsentSums:
    """Maps class probabilities of rows to the evidence of sums of gradients that were sent, or known to be small.

    The gradient of a visit is taken to be a template of its class plus a linear function of the embedding, both moving
    slowly, plus noise. What waits in a place and column is then a random walk whose drift the rows tell; each step
    shows its value, where it is sent and starts anew, or a limit of its magnitude. Messages run through all walks
    forwards and backwards (expectation propagation): what they say of a gradient holds no assumption about itself.

    Args:
        visits: every epoch alone, of a defense that declares ``unsent``; smaller batches are not read.
        rows: ``(T, n)`` the rows that count; others are taken to be of any class.
        num_classes: K.
    """

    def __init__(self, visits: Visits, rows: Tensor, num_classes: int) -> None:
        epochs, everything = visits.places.shape[1:]
        batch = min(visits.batch, everything)
        steps = everything // batch
        length = _length(visits, steps, epochs)
        order = visits.places.argsort(-1)[..., : steps * batch]
        shape = (len(rows), epochs * steps // length, length, batch)

        def by_step(values: Tensor) -> Tensor:
            at = order.unsqueeze(-1).expand(*order.shape, values.shape[-1])
            return values.gather(2, at).view(*shape, -1)

        self._classes, self._count = num_classes, rows.shape[-1]
        number = torch.full((len(rows), everything), self._count)
        number = number.scatter(-1, rows, torch.arange(self._count).expand(rows.shape))
        self._rows = number.gather(-1, order.flatten(1)).view(shape)
        sent = principal(standardized(visits.sent).flatten(1, 2), SENT)
        self._sent = by_step(scaled(sent).view(*visits.sent.shape[:3], -1))
        received = visits.received.nan_to_num(0.0, 0.0, 0.0)
        widths = list(visits.widths) or [received.shape[-1]]
        sums = [by_step(_of_one_size(part)) for part in torch.split(received, widths, -1)]
        self._sums, self._limit = torch.cat(sums, -1), torch.cat([_limits(part) for part in sums], -1)
        self._shown = self._sums != 0
        times = (torch.arange(epochs).unsqueeze(-1) + torch.arange(steps) / steps).flatten()
        self._hats = hats(times, knots_of(times, KNOTS)).view(*shape[1:3], -1)
        self._noise = torch.full(shape[:3], _NOISE)
        self._drift, self._spread = torch.zeros_like(self._sums), torch.zeros_like(self._sums)

    def of_members(self, members: Tensor) -> UnsentSums:
        """Return those of some members, by position or mask, with templates and noise as they were fitted last."""
        found = copy(self)
        for name in ("_rows", "_sent", "_sums", "_limit", "_shown", "_noise", "_drift", "_spread"):
            setattr(found, name, getattr(self, name)[members])
        return found

    def evidence(self, shares: Tensor) -> list[Tensor]:
        """Return the log likelihoods of the classes ``(T, n, K)``, up to a constant of each row.

        Templates and noise are fitted further from where the last call left them.

        Args:
            shares: ``(T, n, K)`` class probabilities.
        """
        of_class = self._gathered(shares)
        columns = torch.cat([of_class, self._sent], -1)
        fitted = self._solved(columns, self._messages())
        templates = fitted[..., : self._classes]
        expected = _by_fold(of_class, templates.mT)
        self._drift = _by_fold(columns, fitted.mT)
        self._spread = (_by_fold(of_class, templates.mT.square()) - expected.square()).clamp(min=0)
        said = self._messages()
        weight = 1 / (said.variance + self._noise[..., None, None])
        jump = (said.mean - self._drift + expected) * weight
        by_visit = _by_fold(jump, templates) - _by_fold(weight, templates.square()) / 2
        at = self._rows.flatten(1).unsqueeze(-1).expand(-1, -1, self._classes)
        sums = by_visit.new_zeros(len(at), self._count + 1, self._classes)
        return [sums.scatter_add_(1, at, by_visit.flatten(1, 3))[:, :-1]]

    def _gathered(self, shares: Tensor) -> Tensor:
        """Return the class probabilities of the rows of visits, ``(T, C, L, B, K)``."""
        whole = torch.cat([shares, shares.mean(1, keepdim=True)], 1)
        return taken(whole, self._rows.flatten(1)).view(*self._rows.shape, self._classes)

    def _messages(self) -> _Messages:
        """Return what the sums say of gradients and of each other, and measure the noise by it."""
        variances = (self._noise[..., None, None] + self._spread).unbind(2)
        drifts, sums, shown, limits = (x.unbind(2) for x in (self._drift, self._sums, self._shown, self._limit))
        mean = variance = torch.zeros_like(sums[0])
        before, ahead = [], []
        for drift, added, sent, limit in zip(drifts, variances, shown, limits, strict=True):
            before.append((mean, variance))
            mean, variance = mean + drift, variance + added
            ahead.append((mean, variance))
            mean, variance = (x.masked_fill(sent, 0.0) for x in _below(mean, variance, limit))
        pull = precision = torch.zeros_like(mean)  # what later steps say: precision times mean, and precision
        found = []
        for i in reversed(range(len(sums))):
            all_precision = 1 / ahead[i][1] + precision
            all_pull = ahead[i][0] / ahead[i][1] + pull
            mean, variance = _below(all_pull / all_precision, 1 / all_precision, limits[i])
            site = (1 / variance - all_precision).clamp(min=_FLAT)
            site_pull = mean / variance - all_pull
            pull, precision = pull + site_pull, precision + site
            mean = torch.where(shown[i], sums[i], pull / precision)
            variance = (1 / precision).masked_fill(shown[i], 0.0)
            seen = torch.where(shown[i], sums[i], site_pull / site), (1 / site).masked_fill(shown[i], 0.0)
            found.append((mean - before[i][0], variance + before[i][1], *seen))
            precision = 1 / (variance + variances[i])
            pull = (mean - drifts[i]) * precision
        said = _Messages(*(torch.stack(part[::-1], 2) for part in zip(*found, strict=True)))
        self._measure(said)
        return said

    def _measure(self, said: _Messages) -> None:
        """Scale the noise so that what messages leave of gradients is as large as they expect it to be."""
        weight = 1 / (said.variance + self._noise[..., None, None] + self._spread)
        left = (weight * (said.mean - self._drift)).square()
        found, expected = (torch.einsum("clq,tcl->tq", self._hats, x.sum((-1, -2))) for x in (left, weight))
        scale = found / expected.clamp(min=1e-30)
        self._noise = self._noise * torch.einsum("clq,tq->tcl", self._hats, scale).clamp(0.1, 10)

    def _solved(self, columns: Tensor, said: _Messages) -> Tensor:
        """Return what a gradient is of its row's columns ``(T, C, L, B, p)`` at each step, ``(T, F, C, L, d, p)``.

        Generalized least squares on what every step shows of its sums: a Kalman filter takes away what earlier steps
        said, of the sums and of the columns alike. It reads the places of the other folds, whose noise is another one.
        """
        p, knots, classes = columns.shape[-1], self._hats.shape[-1], self._classes
        added = self._noise[..., None, None] + self._spread
        parts = (said.seen, said.seen_variance, added, self._shown)
        seen, seen_variance, added, shown = (_of_folds(x, 1).movedim(-1, 3) for x in parts)  # (L, T, F, d, C, J)
        explaining = _of_folds(columns, 0).unsqueeze(3)
        members, _, width, chunks, places = seen.shape[1:]
        waiting = seen.new_zeros(members, FOLDS, width, chunks, places, knots * p)
        mean = variance = torch.zeros_like(waiting[..., 0])
        size = (members, FOLDS, width, knots * p)
        matrix, right = (seen.new_zeros(*size, n, dtype=torch.float64) for n in (knots * p, 1))
        together = max(1, TOGETHER // (chunks * places))
        rows, wanted = (seen.new_zeros(*waiting.shape[:4], together, places, n) for n in (knots * p, 1))
        for i in range(len(seen)):
            now = self._hats[:, i, None, :, None] * explaining[i].unsqueeze(-2)
            waiting += now.flatten(-2)
            variance = variance + added[i]
            weight = 1 / (variance + seen_variance[i])
            left, root, at = seen[i] - mean, weight.sqrt(), i % together
            rows[..., at, :, :] = waiting * root.unsqueeze(-1)
            wanted[..., at, :, 0] = left * root
            if at + 1 == together or i + 1 == len(seen):
                some, of = (x[..., : at + 1, :, :].flatten(3, 5) for x in (rows, wanted))
                matrix += some.mT @ some
                right += some.mT @ of
            gain = weight * variance
            waiting *= (1 - gain).masked_fill(shown[i], 0.0).unsqueeze(-1)
            mean, variance = (x.masked_fill(shown[i], 0.0) for x in (mean + gain * left, variance * (1 - gain)))
        matrix, right = others(matrix), others(right)
        of_knots = matrix.view(*size[:3], knots, p, knots, p).diagonal(dim1=3, dim2=5)[:, :, :, :classes, :classes]
        # What all classes share says nothing: of a sum of many gradients it would be most of a template's weight.
        own = of_knots.diagonal(dim1=3, dim2=4).mean((-1, -2))
        typical = ((own - of_knots.mean((3, 4, 5))) * classes / (classes - 1)).clamp(min=1e-9)[..., None, None]
        penalty = typical * (SMOOTH * roughness(knots, p) + RIDGE * torch.eye(knots * p, dtype=torch.float64))
        fitted = torch.linalg.solve(matrix + penalty, right).float().view(*size[:3], knots, p)
        return torch.einsum("clq,tfdqp->tfcldp", self._hats, fitted)


class _Messages(NamedTuple):
    """Normal numbers that the sums tell of gradients and of themselves, each ``(T, C, L, B, d)``.

    Attributes:
        mean: of a gradient, by all sums.
        variance: likewise.
        seen: of a sum, by its own step alone.
        seen_variance: likewise; 0 where it was sent.
    """

    mean: Tensor
    variance: Tensor
    seen: Tensor
    seen_variance: Tensor


def _by_fold(values: Tensor, weights: Tensor) -> Tensor:
    """Return values ``(T, C, L, B, m)`` times weights ``(T, F, C, L, m, k)``, those of the fold of each place."""
    found = values.new_empty(*values.shape[:-1], weights.shape[-1])
    for fold in range(FOLDS):
        found[..., fold::FOLDS, :] = values[..., fold::FOLDS, :] @ weights[:, fold]
    return found


def _of_folds(values: Tensor, value: float) -> Tensor:
    """Return ``(L, T, F, C, J, k)``, of ``(T, C, L, B, k)`` filled up with a value; place b is of fold b mod F."""
    filled = pad(values, (0, 0, 0, -values.shape[3] % FOLDS), value=value)
    return filled.reshape(*values.shape[:3], -1, FOLDS, values.shape[4]).permute(2, 0, 4, 1, 3, 5)


def _of_one_size(received: Tensor) -> Tensor:
    """Return a party's gradients ``(T, E, N, d)`` in units of the root mean square of what was sent."""
    size = received.square().sum((1, 2, 3)) / received.count_nonzero((1, 2, 3)).clamp(min=1)
    return received / size.clamp(min=1e-30).sqrt()[:, None, None, None]


def _limits(sums: Tensor) -> Tensor:
    """Return ``(T, C, L, 1, d)`` the smallest entry that a party was sent in each step, of sums ``(T, C, L, B, d)``."""
    smallest = sums.abs().masked_fill(sums == 0, torch.inf).amin((-1, -2), keepdim=True)
    return smallest.clamp(max=1 / _NOISE).expand(*sums.shape[:3], 1, sums.shape[-1])


def _length(visits: Visits, steps: int, epochs: int) -> int:
    """Return the steps after which nothing waits any more: those of an epoch with a smaller batch, or all."""
    rows = visits.places.shape[-1]
    uneven = rows > visits.batch and rows % visits.batch
    dropped = visits.mechanism is None or visits.mechanism.unsent == "dropped_on_resize"
    return steps if uneven and dropped else epochs * steps


def _below(mean: Tensor, variance: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and variances of normal numbers that are known to be smaller than a limit in magnitude."""
    spread = variance.sqrt()
    low, high = (-limit - mean) / spread, (limit - mean) / spread
    inside = torch.special.ndtr(high) - torch.special.ndtr(low)
    share = inside.clamp(min=_UNLIKELY)
    at_low, at_high = ((-z.square() / 2).exp() / math.sqrt(2 * math.pi) for z in (low, high))
    moved = (at_low - at_high) / share
    narrowed = 1 + (low * at_low - high * at_high) / share - moved.square()
    likely = inside > _UNLIKELY
    found = torch.where(likely, mean + spread * moved, mean)
    kept = torch.where(likely, narrowed, 0.0).clamp(1e-3, 0.9999)
    return torch.maximum(torch.minimum(found, limit), -limit), variance * kept
