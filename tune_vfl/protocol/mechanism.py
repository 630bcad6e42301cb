"""A defense's mechanism as an attacker knows it from name and setting: plain numbers that attacks can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PerMember:
    """Tensors of the members of a pack, whose axes come first; fields of the same kind are changed with them."""

    def of_members(self, members: int | Tensor) -> Self:
        """Return the numbers of some members, or of one without the leading axis."""
        return self._mapped(lambda x: x[members])

    def batched(self) -> Self:
        """Return the numbers of one training with a leading axis of 1."""
        return self._mapped(lambda x: x.unsqueeze(0))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in found.items():
            if isinstance(value, Tensor):
                found[name] = change(value)
            elif isinstance(value, PerMember):
                found[name] = value._mapped(change)
        return type(self)(**found)


Unsent = Literal["dropped_on_resize", "kept_by_size"]


@dataclass(frozen=True, eq=False)
class Mechanism(PerMember):
    """Public facts of a defense for the members of one training, without secrets and draws.

    Attributes:
        coin: ``(*trials)`` the magnitude of those gradient entries whose sign is nothing but noise, as they are sent;
            NaN where there are none. None: the defense sends no such entries.
        laplace: ``(*trials)`` the scale of the Laplace noise on every gradient entry, as it is sent. None: there is no
            such noise.
        swaps: ``(*trials, K, K)`` at ``[i, j]`` the probability that the model is taught class j where the true class
            is i, the same for every row, drawn once; the loss is the cross-entropy with the class taught. None: the
            model is not taught other classes in this way.
        parts: numbers that the model is taught in the place of classes. None: it is taught classes.
        unsent: when the rest of a batch is forgotten, where the largest entries of a party's gradients are sent as they
            are, and what is not sent is added to the next gradient in the same place of a batch of the same size: when
            a batch has another size, or never. None: not so.
        repels: how embeddings of one class in a batch repel each other. None: they do not.
        blurred: whether the gradient of a row is that of a number of its own between the classes: a teacher's, or one
            of noise. None: not so.
    """

    AS_SENT: ClassVar[tuple[str, ...]] = ("coin", "laplace", "unsent")
    """Fields about gradients as they are sent."""
    TAUGHT: ClassVar[tuple[str, ...]] = ("swaps", "parts", "repels", "blurred")
    """Fields about labels and loss."""
    coin: Tensor | None = None
    laplace: Tensor | None = None
    swaps: Tensor | None = None
    parts: ClassParts | None = None
    unsent: Unsent | None = None
    repels: Repulsion | None = None
    blurred: bool | None = None

    def without_noise(self, sent: Tensor) -> Tensor:
        """Return gradients denoised by the known law of the noise, before they enter any mean.

        An entry that is nothing but noise becomes 0. Where Laplace noise is larger than the gradients, entries are
        brought near their median: the sign of such a deviation says nearly all that it holds, its size nearly nothing.

        Args:
            sent: ``(*trials, B, d)`` gradients of a batch as they were sent.
        """
        if self.coin is not None:
            sent = sent.masked_fill(sent.abs() == self.coin.to(sent.dtype)[..., None, None], 0.0)
        if self.laplace is None:
            return sent
        middle = sent.median(-2, keepdim=True).values
        reach = (sent - middle).abs().median(-2, keepdim=True).values
        scale = self.laplace.to(sent.dtype)[..., None, None]
        return torch.where(reach < _DROWNED * scale, sent.clamp(middle - reach, middle + reach), sent)


@dataclass(frozen=True, eq=False)
class ClassParts(PerMember):
    """Sub-classes of each class, selected by the sum of one random number per party, each trained on as a number.

    Attributes:
        values: ``(*trials, K, m)`` the number taught for each part; infinity where a member has fewer parts.
        cuts: ``(*trials, m - 1)`` the largest sum of each part but the last; infinity where a member has fewer parts.
        parties: how many numbers are added up.
        largest: each number is an integer from 0 to this one, all equally likely; an added column holds it divided by
            this one.
    """

    values: Tensor
    cuts: Tensor
    parties: int
    largest: int

    def odds(self, added: Tensor) -> Tensor:
        """Return probabilities of the parts, ``(*trials, N, m)``, given some of the random numbers.

        Args:
            added: ``(*trials, N, c)`` the columns with the numbers of c of the parties.
        """
        ways = torch.ones(1, dtype=torch.float64)
        for _ in range(self.parties - added.shape[-1]):
            ways = torch.nn.functional.conv1d(
                ways.expand(1, 1, -1), torch.ones(1, 1, self.largest + 1, dtype=ways.dtype), padding=self.largest
            ).flatten()
        at_most = torch.cat([torch.zeros(1), ways.cumsum(0) / ways.sum()])
        own = (added * self.largest).round().sum(-1)
        rest = self.cuts.unsqueeze(-2) - own.unsqueeze(-1) + 1
        below = at_most[rest.clamp(0, len(at_most) - 1).long()]
        edges = torch.cat([torch.zeros_like(below[..., :1]), below, torch.ones_like(below[..., :1])], -1)
        return edges.diff(dim=-1).float()


@dataclass(frozen=True, eq=False)
class Repulsion(PerMember):
    """Embeddings of one class in a batch that repel each other by the energy 1 / angle, each party's among themselves.

    Attributes:
        weight: ``(*trials)`` the weight in the loss of an energy's mean over all ordered pairs of one class.
        nearest: the smallest angle that counts, in radians: two embeddings that are nearer, or as near to opposite,
            have no force.
    """

    weight: Tensor
    nearest: float


_DROWNED = 2.0
"""Laplace noise is larger than the gradients where their median deviation is less than this times its scale: that of
noise alone is 0.69 of it."""
