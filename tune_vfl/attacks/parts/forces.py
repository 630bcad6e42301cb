"""Labels by forces: embeddings of one class in a batch repel each other, and a party knows how from what it sent.

The force between any two rows of a batch follows from their embeddings. A gradient holds those of the rows of its own
class, and no others: which of them are in it says who is of one class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from tune_vfl.attacks.parts.columns import evenly, main_axes, principal, scaled, standardized, taken
from tune_vfl.attacks.parts.folded_rows import FOLDS, others

if TYPE_CHECKING:
    from tune_vfl.protocol.mechanism import Repulsion
    from tune_vfl.protocol.visits import Visits

WIDEST = 16
"""Principal directions of a party's gradients in which forces are looked at, and principal columns of what it sent."""
DOUBT = 0.1
"""The variance of whether another row is of a row's class, however sure it seems: no single pair then decides."""
RIDGE = 1e-2
"""Penalty on what else gradients hold, in units of the mean weight of its columns."""
PAIRS = 2**23
"""Pairs of rows of one batch that are read; of a training with more of them, epochs that are evenly spread."""
_CHUNK = 2**18
"""Pairs of rows that are looked at at once."""
_LEAST, _PRECISION, _SHORTEST = 1e-3, 1e-8, 1e-6


class Forces:
    """Maps class probabilities of rows to the evidence of the forces in their gradients.

    The gradient of a visit is taken to be the sum of the forces of the rows of its class in its batch, plus a template
    of the class, plus a linear function of the embedding, plus noise. In every epoch the latter three are fitted anew,
    for each fold of its places by the other folds.

    Args:
        visits: embeddings, gradients and batches of every party.
        rows: ``(T, n)`` the rows that count; others are taken to be of any class.
        num_classes: K.
        repels: with one leading axis.
        epochs: the entries that are of one epoch alone, as :func:`single_epochs` finds them.
    """

    def __init__(
        self, visits: Visits, rows: Tensor, num_classes: int, repels: Repulsion, epochs: Sequence[int]
    ) -> None:
        everything = visits.places.shape[-1]
        batch = min(visits.batch, everything)
        epochs = [epochs[i] for i in evenly(len(epochs), max(1, PAIRS // (everything * batch)))]
        order = pad(visits.places[:, epochs].argsort(-1), (0, -everything % batch), value=everything)
        shape = (*order.shape[:2], -1, batch)
        self._classes, self._count, self._repels = num_classes, rows.shape[-1], repels
        number = torch.full((len(rows), everything + 1), self._count)
        number[:, -1] += 1  # of the place of a row that a smaller batch has not
        number = number.scatter(-1, rows, torch.arange(self._count).expand(rows.shape))
        self._rows = number.gather(-1, order.flatten(1)).view(shape)

        def by_step(values: Tensor) -> Tensor:
            at = order.unsqueeze(-1).expand(*order.shape, values.shape[-1])
            return pad(values, (0, 0, 0, 1)).gather(2, at).view(*shape, values.shape[-1])

        widths = list(visits.widths) or [visits.sent.shape[-1]]
        finite = (x[:, epochs].nan_to_num(0.0, 0.0, 0.0) for x in (visits.sent, visits.received))
        sent, received = (torch.split(part, widths, -1) for part in finite)
        self._sent = [by_step(part) for part in sent]
        along = [principal(standardized(part).flatten(1, 2), WIDEST).view(*part.shape[:3], -1) for part in sent]
        self._along = [by_step(scaled(part)) for part in along]
        self._axes = [_turns(part) for part in received]
        turned = [part @ axes for part, axes in zip(received, self._axes, strict=True)]
        self._received = [by_step(part) for part in turned]
        centered = (part.double() - part.double().mean(-2, keepdim=True) for part in turned)
        self._noise = [_raised(part.mT @ part / everything, _LEAST) for part in centered]  # at most all of them

    @property
    def felt(self) -> Tensor:
        """``(T,)`` whether embeddings of a member repel each other at all."""
        return self._repels.weight > 0

    def of_members(self, members: Tensor) -> Forces:
        """Return those of some members, by position or mask, with the noise as it was measured last."""
        found = copy(self)
        found._rows, found._repels = self._rows[members], replace(self._repels, weight=self._repels.weight[members])
        for name in ("_sent", "_along", "_axes", "_received", "_noise"):
            setattr(found, name, [part[members] for part in getattr(self, name)])
        return found

    def evidence(self, shares: Tensor) -> list[Tensor]:
        """Return the log likelihoods of the classes ``(T, n, K)``, up to a constant of each row.

        The noise is measured further from where the last call left it.

        Args:
            shares: ``(T, n, K)`` class probabilities.
        """
        whole = torch.cat([shares, shares.mean(1, keepdim=True), torch.zeros_like(shares[:, :1])], 1)
        held = taken(whole, self._rows.flatten(1)).view(*self._rows.shape, -1).double()
        at = self._rows.flatten(1).unsqueeze(-1).expand(-1, -1, self._classes)
        sums = held.new_zeros(len(at), self._count + 2, self._classes)
        for party in range(len(self._sent)):
            sums.scatter_add_(1, at, self._of_party(party, held).flatten(1, 3))
        found = sums[:, : self._count]
        return [(found - found.amax(-1, keepdim=True)).float()]

    def _of_party(self, party: int, held: Tensor) -> Tensor:
        """Return log likelihoods ``(T, E, S, B, K)`` of visits by a party's gradients; measure their noise.

        Args:
            party: its position.
            held: ``(T, E, S, B, K)`` class probabilities of visits, 0 where there is no row.
        """
        shares, noise = held.flatten(0, 2), self._noise[party]
        there = shares.sum(-1, keepdim=True)
        received = self._received[party].flatten(0, 2).double()
        columns = torch.cat([there, self._along[party].flatten(0, 2).double()], -1)
        epoch = torch.arange(held.shape[0] * held.shape[1]).repeat_interleave(held.shape[2])
        fitted = self._rest(party, shares, received, columns)[epoch]
        covariance, learned = noise.flatten(0, 1), torch.zeros_like(noise).flatten(0, 1)
        found, fold = torch.empty_like(shares), torch.arange(shares.shape[1]) % FOLDS
        for part, pushes, expected in self._expected(party, shares):
            crowd = self._axes[party][part // (held.shape[1] * held.shape[2])].double()
            crowd = crowd.mT @ pushes.products() @ crowd
            rest, own = fitted[part][:, fold], covariance[epoch[part]].unsqueeze(1)
            rest = columns[part].unsqueeze(-2) @ rest[..., : -self._classes, :] + rest[..., -self._classes :, :]
            left = received[part].unsqueeze(-2) - expected - rest  # (L, B, K, d)
            total = _raised(own + DOUBT * crowd, _PRECISION)
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(total))
            pulled = left @ inverse
            found[part] = -(left * pulled).sum(-1) / 2 * there[part]
            # What the noise is, given all that is left: one step of expectation maximization.
            seen = (pulled * shares[part].unsqueeze(-1)).mT @ pulled - inverse * there[part].unsqueeze(-1)
            learned.index_add_(0, epoch[part], (own @ seen @ own).sum(1))
        count = there.sum((1, 2)).view(*noise.shape[:2], -1).sum(-1)[..., None, None]
        self._noise[party] = _raised(noise + learned.view_as(noise) / count, _LEAST)
        return found.view_as(held)

    def _rest(self, party: int, shares: Tensor, received: Tensor, columns: Tensor) -> Tensor:
        """Return what gradients hold beside forces, ``(T * E, F, q + K, d)``: slopes and templates of each epoch."""
        noise, q, classes = self._noise[party].flatten(0, 1), columns.shape[-1], self._classes
        size, steps = noise.diagonal(dim1=-1, dim2=-2).mean(-1), len(shares) // len(noise)
        matrix = noise.new_zeros(len(noise), FOLDS, q + classes, q + classes)
        right = noise.new_zeros(len(noise), FOLDS, q + classes, noise.shape[-1])
        for part, pushes, expected in self._expected(party, shares):
            epoch = part // steps
            doubted = DOUBT * pushes.squares() / noise.shape[-1]
            of_class = shares[part] / (size[epoch].unsqueeze(-1) + doubted).unsqueeze(-1)
            wanted = of_class.unsqueeze(-1) * (received[part].unsqueeze(-2) - expected)
            for fold in range(FOLDS):
                own, weight, target = (x[:, fold::FOLDS] for x in (columns[part], of_class, wanted))
                among, across = (own * weight.sum(-1, keepdim=True)).mT @ own, weight.mT @ own
                upper = torch.cat([among, across.mT], -1)
                lower = torch.cat([across, torch.diag_embed(weight.sum(1))], -1)
                matrix[:, fold].index_add_(0, epoch, torch.cat([upper, lower], -2))
                right[:, fold].index_add_(0, epoch, torch.cat([own.mT @ target.sum(2), target.sum(1)], -2))
        fitted: Tensor = torch.linalg.solve(_raised(others(matrix), RIDGE), others(right))
        return fitted

    def _expected(self, party: int, shares: Tensor) -> Iterator[tuple[Tensor, Pushes, Tensor]]:
        """Yield some steps, the forces between their rows, and their sums ``(L, B, K, d)`` if a row is of a class.

        Args:
            party: its position.
            shares: ``(T * E * S, B, K)`` class probabilities.
        """
        sent = self._sent[party].flatten(0, 2)
        of_member = len(sent) // len(self._rows)
        pointed = shares * (sent != 0).any(-1, keepdim=True)
        pairs = (pointed.sum(1).square() - pointed.square().sum(1)).sum(-1)
        # A recorded gradient is that of a batch's mean loss times its rows, and two rows are an ordered pair twice.
        strength = self._repels.weight.repeat_interleave(of_member) * 2 * shares.sum((1, 2)) / pairs.clamp(min=2)
        for part in torch.split(torch.arange(len(sent)), max(1, _CHUNK // sent.shape[1] ** 2)):
            pushes = Pushes.of(sent[part], self._repels.nearest, strength[part])
            axes = self._axes[party][part // of_member].double()
            yield part, pushes, pushes.sums(shares[part]) @ axes


class Pushes(NamedTuple):
    """Gradients of 1 / angle of two embeddings for the first one, as sizes ``a_ij`` of ``u_j - (u_i . u_j) u_i``.

    Attributes:
        points: ``(..., B, d)`` the directions u, in float64.
        cosines: ``(..., B, B)``.
        sizes: ``(..., B, B)``; 0 where there is no force.
    """

    points: Tensor
    cosines: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, sent: Tensor, nearest: float, strength: Tensor) -> Pushes:
        """Return those of embeddings, times a number of each batch.

        Args:
            sent: ``(..., B, d)``; 0 for a row that is not there.
            nearest: the angle, in radians, within which two rows, or a row and another's opposite, have no force.
            strength: ``(...)``.
        """
        rows = sent.double()
        lengths, points = torch.linalg.vector_norm(rows, dim=-1), normalize(rows, dim=-1)
        cosines = (points @ points.mT).clamp(-1, 1)
        angles, pointed = cosines.arccos(), lengths > _SHORTEST
        paired = (angles > nearest) & (angles < torch.pi - nearest) & pointed.unsqueeze(-1) & pointed.unsqueeze(-2)
        paired = paired & ~torch.eye(rows.shape[-2], dtype=torch.bool)
        size = strength[..., None, None] / (angles.square() * (1 - cosines.square()).sqrt() * lengths.unsqueeze(-1))
        return cls(points, cosines, torch.where(paired, size, 0.0))

    def sums(self, shares: Tensor) -> Tensor:
        """Return ``(..., B, K, d)`` sums over other rows, times shares ``(..., B, K)`` of these."""
        held = (shares.unsqueeze(-1) * self.points.unsqueeze(-2)).flatten(-2)
        found = (self.sizes @ held).view(*shares.shape, -1)
        own: Tensor = ((self.sizes * self.cosines) @ shares).unsqueeze(-1) * self.points.unsqueeze(-2)
        return found - own

    def squares(self) -> Tensor:
        """Return ``(..., B)`` the sum of the squares of the pushes on a row."""
        return (self.sizes.square() * (1 - self.cosines.square())).sum(-1)

    def products(self) -> Tensor:
        """Return ``(..., B, d, d)`` the sum of the products ``f f'`` of the pushes f on a row."""
        weights, points = self.sizes.square(), self.points
        each = (points.unsqueeze(-1) * points.unsqueeze(-2)).flatten(-2)
        whole = (weights @ each).view(*points.shape, -1)
        along = ((weights * self.cosines) @ points).unsqueeze(-1) * points.unsqueeze(-2)
        own = (weights * self.cosines.square()).sum(-1)[..., None, None]
        found: Tensor = whole - along - along.mT + own * points.unsqueeze(-1) * points.unsqueeze(-2)
        return found


def single_epochs(times: Sequence[float]) -> list[int]:
    """Return the positions of visits that hold one epoch, where others hold the mean over several.

    Example:
        >>> from tune_vfl.attacks.parts.forces import single_epochs
        >>> single_epochs([0.0, 1.0, 2.5, 4.0])  # the third one is the mean of epochs 2 and 3
        [0, 1, 3]
    """
    found, first = [], 0.0
    for at, time in enumerate(times):
        if time == first:
            found.append(at)
        first += 2 * (time - first) + 1
    return found


def _turns(received: Tensor) -> Tensor:
    """Return the main directions of gradients ``(T, E, N, d)``, ``(T, 1, d, d')``; all of them as they are if few."""
    if received.shape[-1] <= WIDEST:
        return torch.eye(received.shape[-1]).expand(len(received), 1, -1, -1)
    return main_axes(scaled(received.flatten(1, 2)).double(), WIDEST).float().unsqueeze(1)


def _raised(matrix: Tensor, share: float) -> Tensor:
    """Return matrices ``(..., d, d)``, made symmetric, plus a share of their mean diagonal."""
    mean = matrix.diagonal(dim1=-1, dim2=-2).mean(-1)[..., None, None].clamp(min=1e-30)
    return (matrix + matrix.mT) / 2 + share * mean * torch.eye(matrix.shape[-1], dtype=matrix.dtype)
