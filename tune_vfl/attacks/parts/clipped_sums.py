"""Sums that were clipped: what a batch tells keeps its direction, and its size is an unknown of the regression.

Of a clipped sum one number is lost, its size, and the others are left: as many equations less one. Where the residuals
of a batch are known up to a mean and a variance, so is their sum; the size is then the likeliest one of a sum of this
direction (a change to polar coordinates, of which a size counts as often as a sphere of that size has room).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

TIE = 1e-4
"""Share of the largest size below which another is taken for the same: that of a bound."""
_LEAST, _ENTRIES = 1e-12, 2**22


def may_be_clipped(sizes: Tensor) -> list[Tensor]:
    """Return which sums may have been clipped, ``(C, P)``, by each supposition that fits their sizes ``(C, P)``.

    Where several sums have the same largest size it is a bound's, and those are clipped. Otherwise none is, or noise
    that was added later hides the bound, and each may be.

    Example:
        >>> import torch
        >>> [clipped[:, 0].tolist() for clipped in may_be_clipped(torch.tensor([[1.0], [0.2], [1.0]]))]
        [[True, False, True]]
        >>> [clipped[:, 0].tolist() for clipped in may_be_clipped(torch.tensor([[0.9], [0.2], [1.0]]))]
        [[False, False, False], [True, True, True]]
    """
    largest = sizes >= (1 - TIE) * sizes.amax(0).clamp(min=_LEAST)
    bound = largest.sum(0) > 1
    none = largest & bound
    return [none] if bound.any() else [none, sizes > 0]


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes of the sums of batches before they were clipped, as far as they are known.

    Attributes:
        unit: ``(C, d, K)`` directions of what was told, of length 1 for each party.
        parts: ``(P, d)`` 1 where a column is a party's.
        factors: ``(C, P)`` by which what was told is too small; 1 where nothing was clipped.
        open: ``(C, P)`` share of the error along a direction that a size as uncertain as this explains, from 0 to 1.
    """

    unit: Tensor
    parts: Tensor
    factors: Tensor
    open: Tensor

    @classmethod
    def of(cls, sums: Tensor, parts: Tensor) -> Sizes:
        """Return those of sums ``(C, d, K)`` of which none was clipped."""
        sizes = (sums.square().sum(-1) @ parts.mT).sqrt()
        unit = sums / (sizes.clamp(min=_LEAST) @ parts).unsqueeze(-1)
        return cls(unit, parts, torch.ones_like(sizes), torch.zeros_like(sizes))

    def spread(self, by_party: Tensor) -> Tensor:
        """Return numbers ``(C, P)`` of parties for each of their columns, ``(C, d, 1)``."""
        return (by_party @ self.parts).unsqueeze(-1)

    def along(self, sums: Tensor) -> Tensor:
        """Return how far ``(C, P)`` sums ``(C, d, K)`` go in the directions of what was told."""
        return (self.unit * sums).sum(-1) @ self.parts.mT

    def weighed(self, missed: Tensor) -> Tensor:
        """Return errors ``(C, d, K)`` without what open sizes explain of them."""
        return missed - self.spread(self.open * self.along(missed)) * self.unit

    def likeliest(self, sums: Tensor, clipped: Tensor, spread: Spread, mean: Tensor, noise: float) -> Sizes:
        """Return the likeliest sizes of sums.

        A sum of size a and direction u, of n numbers, has the density of a normal one at a u times a^(n - 1), so that
        a is the positive root of a quadratic equation.

        Args:
            sums: ``(C, d, K)`` what was told.
            clipped: ``(C, P)`` which of them may be clipped.
            spread: their covariances.
            mean: ``(C, d, K)`` of the sums, as residuals are believed to be.
            noise: variance of each number beside it.
        """
        solved = spread.solved(self.unit, noise)
        sharp, along = self.along(solved).clamp(min=_LEAST), (mean * solved).sum(-1) @ self.parts.mT
        free = ((self.unit != 0).to(sums).sum(-1) @ self.parts.mT - 1).clamp(min=1)
        size = (along + (along.square() + 4 * sharp * free).sqrt()) / (2 * sharp)
        variance = 1 / (sharp + free / size.square())
        return replace(
            self,
            factors=torch.where(clipped, size / self.along(sums).clamp(min=_LEAST), 1.0),
            open=torch.where(clipped, variance / (variance + noise), 0.0),
        )


@dataclass(frozen=True, eq=False)
class Spread:
    """Covariances of the sums of batches, where residuals are known up to a variance.

    Attributes:
        x: ``(C, B, d)`` columns of the rows.
        variance: ``(C, B, K)`` of their residuals.
        heard: ``(C, d, 1)`` 1 for a sum that takes part.
        parts: ``(P, d)`` 1 where a column is a party's; parties' sums are taken for independent.
    """

    x: Tensor
    variance: Tensor
    heard: Tensor
    parts: Tensor

    def solved(self, sums: Tensor, noise: float) -> Tensor:
        """Return sums ``(C, d, K)`` times the inverse of their covariances, with ``noise`` on the diagonal."""
        columns = self.x.shape[-1]
        together, ridge = self.parts.mT @ self.parts, noise * torch.eye(columns, dtype=self.x.dtype)
        found, at_once = [], max(1, _ENTRIES // columns**2)
        parts = (torch.split(t, at_once) for t in (self.x, self.variance, self.heard, sums))
        for rows, variance, heard, told in zip(*parts, strict=True):
            x = (rows * heard.mT).unsqueeze(1)
            covariance = (x.mT * variance.mT.unsqueeze(-2)) @ x * together + ridge
            root = torch.linalg.cholesky(covariance)
            found.append(torch.cholesky_solve(told.mT.unsqueeze(-1), root).squeeze(-1).mT)
        return torch.cat(found)
