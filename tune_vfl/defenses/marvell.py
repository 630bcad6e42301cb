"""Marvell: Gaussian noise shaped so that the two classes' gradients become as alike as a budget allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.defenses.parts.marvell_solver import Numbers, solve
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict

Mask: TypeAlias = NDArray[np.bool_]


class MarvellParams(Strict):
    """Parameters of :class:`Marvell`."""

    budget: float = Field(
        1.0,
        ge=0,
        le=1000,
        description="variance of the noise, in units of the squared distance of the class means; 0 adds none",
    )


class _Noise(NamedTuple):
    """How to disturb a batch, on the host.

    Attributes:
        unit: ``(T, d)`` direction of the class difference.
        along: ``(2, T)`` standard deviations for negatives and positives along that direction, on top of what
            ``across`` has there.
        across: ``(2, T)`` standard deviations in all directions.
    """

    unit: Numbers
    along: Numbers
    across: Numbers


class _Classes(NamedTuple):
    """A batch's statistics of its two classes, on the host.

    Attributes:
        difference: ``(T, d)`` the positives' mean less the negatives'.
        gap: ``(T,)`` its squared length.
        variances: ``(2, T)`` of negatives and positives.
        share: ``(T,)`` of positives.
        both: ``(T,)`` whether the batch has both classes (and only finite numbers).
    """

    difference: Numbers
    gap: Numbers
    variances: Numbers
    share: Numbers
    both: Mask


def _merge(chosen: Mask, one: _Noise, other: _Noise) -> _Noise:
    """Return ``one`` for the chosen members and ``other`` for the rest."""
    return _Noise(
        np.where(chosen[:, None], one.unit, other.unit),
        np.where(chosen, one.along, other.along),
        np.where(chosen, one.across, other.across),
    )


def class_statistics(grad: Tensor, y: Tensor) -> _Classes:
    """Measure the classes of a batch; variances are biased means over rows and coordinates, 0 where a class is missing.

    Args:
        grad: ``(*trials, B, d)``.
        y: ``(*trials, B)``, 1 for positives.
    """
    batch, d = grad.shape[-2:]
    positive = y.to(grad.dtype).unsqueeze(-2)
    members = torch.cat([1 - positive, positive], dim=-2)  # (*trials, 2, B)
    counts = members.sum(-1, keepdim=True)
    weights = members / counts.clamp_min(1)
    means = weights @ grad
    deviations = (grad - members.mT @ means).square().sum(-1, keepdim=True)
    found = torch.cat([means, weights @ deviations, counts], dim=-1)
    host = found.to(device="cpu", dtype=torch.float64).view(-1, 2, d + 2).numpy()  # one transfer
    variances, share = host[:, :, d].T / d, host[:, 1, d + 1] / batch
    centers = host[:, 0, :d], host[:, 1, :d]
    difference = centers[1] - centers[0]
    gap = (difference * difference).sum(-1)
    both = (share > 0) & (share < 1) & np.isfinite(gap + variances[0] + variances[1])
    return _Classes(difference, gap, variances, share, both)


@defense("marvell")
class Marvell(Defense[MarvellParams]):
    """Adds Gaussian noise whose covariance minimizes the divergence of the two classes' gradients at a given power.

    The power is ``budget`` times the squared distance of the batch's class means, shared out between the classes
    and between the direction of that distance and all others (:mod:`tune_vfl.defenses.parts.marvell_solver`). The
    mean of each class stays. A batch that lacks a class reuses the party's last solution; before there is one it
    gets noise of all directions with standard deviation sqrt(budget) * max_i ||g_i|| / sqrt(d). Class means that
    coincide need no noise.
    Source: Li et al. 2022. The bound holds for each step; noise averages out over many.
    """

    summary = "Gaussian noise that makes the two classes' gradients alike"
    reference = "Li et al. 2022, Label Leakage and Protection in Two-party Split Learning"
    paper_attacks = ("norm", "direction")
    Params = MarvellParams
    capabilities = DefenseCapabilities(stackable=True, classes="binary", random=("gradients",))
    weakest = {"budget": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def begin(self) -> None:
        """H0: forget earlier batches."""
        self._budgets = np.array(self.values(lambda p: p.budget))
        self._last: dict[int, tuple[_Noise, Mask]] = {}
        self._kl_sum, self._kl_count = np.zeros(len(self.members)), np.zeros(len(self.members))

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` with noise added; same shape and dtype. Rows of class 1 are the positives."""
        noise = self._noise(grad, class_statistics(grad, y), party)
        batch, d = grad.shape[-2:]
        by_class = np.array([noise.along[0], noise.across[0], noise.along[1], noise.across[1]]).T
        packed = torch.from_numpy(np.concatenate([noise.unit, by_class], axis=-1)).to(grad)
        unit, negatives, positives = packed.view(*grad.shape[:-2], 1, d + 4).split_with_sizes((d, 2, 2), dim=-1)
        rows = torch.where(y.unsqueeze(-1) == 1, positives, negatives)  # (*trials, B, 2): along, across
        draws = self.streams[f"cut/{party}"].normal(batch, d + 1).to(grad.dtype)
        noisy = torch.addcmul(grad, draws[..., :1] * rows[..., :1], unit)
        return noisy.addcmul_(draws[..., 1:], rows[..., 1:])

    def _noise(self, grad: Tensor, classes: _Classes, party: int) -> _Noise:
        """Return the noise for this batch, and remember it for batches that lack a class."""
        solvable = classes.both & (classes.gap > 0)
        if solvable.all():
            noise = self._solve(classes)
            self._kl_count += 1
            self._last[party] = (noise, solvable)
            return noise
        # Members without a solution are given a harmless problem, and no noise from it.
        noise = self._solve(
            classes._replace(
                gap=np.where(solvable, classes.gap, 1.0),
                variances=np.where(solvable, classes.variances, 0.0),
                share=np.where(solvable, classes.share, 0.5),
            ),
            solvable,
        )
        self._kl_count += solvable
        last, known = self._last.get(party, (noise, np.zeros_like(solvable)))
        self._last[party] = (_merge(solvable, noise, last), solvable | known)
        return _merge(classes.both, noise, _merge(known, last, self._isotropic(grad)))

    def _solve(self, classes: _Classes, wanted: Mask | float = 1.0) -> _Noise:
        """Return the solver's noise.

        Args:
            classes: the statistics of the batch.
            wanted: ``(T,)`` False for members that are to get no noise.
        """
        gap, (negatives, positives) = classes.gap, classes.variances
        budget, d = self._budgets * gap * wanted, classes.difference.shape[-1]
        found = solve(u=negatives, v=positives, gap=gap, p=classes.share, budget=budget, d=d)
        self._kl_sum += found.sum_kl * wanted
        across = np.array([found.across0, found.across1])
        along = np.array([found.along0, found.along1]) - across
        unit = classes.difference / np.sqrt(gap)[:, None]
        return _Noise(unit, np.sqrt(np.maximum(along, 0)), np.sqrt(across))

    def _isotropic(self, grad: Tensor) -> _Noise:
        """Return noise of all directions, as strong as the longest row asks for."""
        longest = torch.linalg.vector_norm(grad, dim=-1).amax(-1).reshape(-1)
        host = longest.to(device="cpu", dtype=torch.float64).numpy() * np.sqrt(self._budgets)
        across = np.array([host, host]) / math.sqrt(grad.shape[-1])
        return _Noise(np.zeros((len(host), grad.shape[-1])), np.zeros_like(across), across)

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``sum_kl``: the remaining divergence of the classes, a mean over batches and parties."""
        if not (self._kl_count > 0).all():
            return {}
        return {"sum_kl": (self._kl_sum / self._kl_count).tolist()}
