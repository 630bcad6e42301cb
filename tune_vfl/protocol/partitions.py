"""Partitions of the training rows by trees, as passive parties were told them while the trees were grown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Partitions:
    """The nodes of every tree whose training rows a passive party knows.

    Nodes are numbered as in a heap: 0 is the root, ``2 k + 1`` and ``2 k + 2`` are the children of k. Rows that are in
    a known node and in none of its known children are known as well: they are the rest.

    Attributes:
        leaves: ``(*trials, T, N)`` int64 the leaf, from 0, of each training row in each tree; what is known of it is
            that of the leaf's known nodes.
        told: ``(*trials, T, 2^(depth + 1) - 1)`` bool: the nodes whose rows are known.

    Example:
        >>> import torch
        >>> told = torch.tensor([[True, True, False]])  # a split of which only the left side was told
        >>> Partitions(torch.tensor([[0, 1, 1]]), told).groups.tolist()  # whoever is not there is on the right
        [[1, 0, 0]]
    """

    leaves: Tensor
    told: Tensor

    @property
    def trees(self) -> int:
        """T, the number of trees."""
        return self.leaves.shape[-2]

    @property
    def nodes(self) -> int:
        """The number of nodes of a tree, split or not."""
        return self.told.shape[-1]

    @cached_property
    def groups(self) -> Tensor:
        """``(*trials, T, N)``: the deepest known node of each row in each tree; 0 where it is the root."""
        found = torch.zeros_like(self.leaves)
        depth = (self.nodes + 1).bit_length() - 2
        for level in range(1, depth + 1):  # deeper ones take the place of those above
            node = 2**level - 1 + (self.leaves >> (depth - level))
            found = torch.where(self.told.gather(-1, node), node, found)
        return found

    @property
    def parting(self) -> Tensor:
        """``(*trials, T)`` bool: the trees of which a party knows more than that there are rows."""
        return self.told[..., 1:].any(-1)

    def first(self, count: int) -> Tensor:
        """Return :attr:`groups` of the first ``count`` trees that part rows; trees that are missing part none.

        Returns:
            ``(*trials, count, N)``.
        """
        order = (~self.parting).int().argsort(dim=-1, stable=True)[..., :count]
        found = self.groups.gather(-2, order.unsqueeze(-1).expand(*order.shape, self.leaves.shape[-1]))
        missing = count - order.shape[-1]
        return torch.cat([found, found.new_zeros(*found.shape[:-2], missing, found.shape[-1])], -2)

    def of_members(self, members: int | Tensor) -> Partitions:
        """Return those of some members, or of one without the leading axis."""
        return Partitions(self.leaves[members], self.told[members])

    @staticmethod
    def joined(parts: Sequence[Partitions]) -> Partitions:
        """Return what several parties know together of the same trees."""
        return Partitions(parts[0].leaves, torch.stack([part.told for part in parts]).any(0))
