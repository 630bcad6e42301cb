"""DiscreteSGD: entries of the cut gradient are rounded to a few levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.errors import UsageError
from tune_vfl.protocol.hooks import Context
from tune_vfl.spec import Strict


class DiscreteSgdParams(Strict):
    """Parameters of :class:`DiscreteSgd`."""

    bins: int = Field(12, ge=2, description="equal parts of the interval; fewer is coarser")
    bound: float = Field(
        3e-2,
        gt=0,
        allow_inf_nan=False,
        description="half the width of the interval under fixed_bound, in units of the batch-mean gradient",
    )
    mode: Literal["fixed_bound", "first_epoch", "first_batch"] = Field(
        "fixed_bound",
        description="where the interval comes from: bound, the first epoch (which is sent raw), or the first batch",
    )
    outliers: Literal["clamp", "round", "zero"] = Field(
        "clamp", description="entries outside of the interval: its last level, their own level, or 0"
    )


class Levels(NamedTuple):
    """Where entries are rounded to: ``origin + width * i`` for whole i between ``lowest`` and ``highest``.

    Attributes:
        origin, width, lowest, highest: ``(*trials, 1, 1)``; ``width`` 0 has the one level ``origin``.
        low, high: ends of the interval; entries outside are outliers.
    """

    origin: Tensor
    width: Tensor
    lowest: Tensor
    highest: Tensor
    low: Tensor
    high: Tensor


def rounded(grad: Tensor, levels: Levels, outliers: str) -> Tensor:
    """Return every entry's nearest level; halfway between two levels the one with the even i.

    Args:
        grad: ``(*trials, B, d)``.
        levels: where entries are rounded to.
        outliers: what becomes of entries outside of the interval: ``clamp`` to its last level, ``round`` to a level of
            their own beyond it, or ``zero``.
    """
    steps = ((grad - levels.origin) / torch.where(levels.width > 0, levels.width, 1)).round()
    if outliers != "round":
        steps = steps.clamp(levels.lowest, levels.highest)
    sent = (steps * levels.width + levels.origin).to(grad.dtype)
    if outliers == "zero":
        sent = sent.masked_fill((grad < levels.low) | (grad > levels.high), 0)
    return sent


class _Moments:
    """Mean and standard deviation of all entries seen, per member, in float64."""

    def __init__(self) -> None:
        self.count = 0
        self.total: float | Tensor = 0.0
        self.squares: float | Tensor = 0.0

    def add(self, grad: Tensor) -> None:
        entries = grad.double()
        self.count += grad.shape[-2] * grad.shape[-1]
        self.total = self.total + entries.sum((-2, -1), keepdim=True)
        self.squares = self.squares + entries.square().sum((-2, -1), keepdim=True)

    def measured(self) -> tuple[Tensor, Tensor]:
        mean = torch.as_tensor(self.total) / self.count
        variance = torch.as_tensor(self.squares) / self.count - mean.square()
        return mean, variance.clamp_min(0).sqrt()


@defense("discrete_sgd")
class DiscreteSgd(Defense[DiscreteSgdParams]):
    """Cuts an interval into ``bins`` equal parts and rounds every entry to the nearest of levels that lie a part apart.

    ``fixed_bound``: parts of 2 bound / bins, levels at their multiples, as the released code of Fu et al. has it (which
    leaves outliers at their own level). ``first_epoch``: mean +- two standard deviations of all entries of a party's
    first epoch, levels at the ends of the parts, as the paper says; that epoch itself is sent raw. ``first_batch``:
    parts of 2 std / ceil(bins / 2) around 0 from a party's first batch with any spread, itself rounded already; before
    there is one, zeros are sent. Source: the multi-bucket defense of Fu et al. 2022.
    """

    summary = "the cut gradient rounded to a few levels"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    paper_attacks = ("pmc", "active", "direct")
    Params = DiscreteSgdParams
    capabilities = DefenseCapabilities(stackable=True, scale_sensitive=True)

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: learn how many rows an epoch has."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        self._rows = ids.shape[-1]

    def begin(self) -> None:
        """H0: reset the measurements."""
        self._rows = 0
        self._learned: dict[int, Levels] = {}
        self._seen: dict[int, _Moments] = {}
        self._width: dict[int, Tensor] = {}
        self._rows_seen: dict[int, int] = {}

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return ``grad`` rounded; same shape and dtype.

        Raises:
            UsageError: under ``first_epoch`` before ``setup``: nothing says how long an epoch is.
        """
        if self.shared.mode == "first_epoch":
            return self._after_first_epoch(grad, party, context)
        if self.shared.mode == "fixed_bound":
            widths = [2 * p.bound / p.bins for p in self.members]
            return rounded(grad, self._around_zero(self._per_member(widths, grad), grad), self.shared.outliers)
        return rounded(grad, self._around_zero(self._first_width(grad, party), grad), self.shared.outliers)

    @staticmethod
    def _per_member(values: Sequence[float], grad: Tensor) -> Tensor:
        """Return the members' numbers, computed on the host so that they are the same alone and in a pack."""
        return torch.tensor(values, dtype=grad.dtype, device=grad.device).view(*grad.shape[:-2], 1, 1)

    def _around_zero(self, width: Tensor, grad: Tensor) -> Levels:
        """Return the multiples of ``width``; the interval has ``bins`` parts, an even number under ``first_batch``."""
        bins = self._parts()
        last, end = (
            self._per_member([n // 2 for n in bins], grad),
            width * self._per_member([n / 2 for n in bins], grad),
        )
        return Levels(torch.zeros_like(width), width, -last, last, -end, end)

    def _parts(self) -> list[float]:
        bins = self.values(lambda p: p.bins)
        return [2 * ((n + 1) // 2) for n in bins] if self.shared.mode == "first_batch" else bins

    def _first_width(self, grad: Tensor, party: int) -> Tensor:
        """Return the party's width: of its first batch with any spread; 0 before that."""
        deviation = grad.double().std((-2, -1), correction=0, keepdim=True)
        width = torch.nan_to_num(4 * deviation / self._per_member(self._parts(), grad), posinf=0.0)
        known = self._width.get(party)
        self._width[party] = width if known is None else torch.where(known > 0, known, width)
        return self._width[party]

    def _after_first_epoch(self, grad: Tensor, party: int, context: Context | None) -> Tensor:
        if party not in self._learned:
            if self._in_first_epoch(grad.shape[-2], party, context):
                self._seen.setdefault(party, _Moments()).add(torch.nan_to_num(grad, posinf=0.0, neginf=0.0))
                return grad
            self._learned[party] = self._interval(*self._seen[party].measured())
        return rounded(grad, self._learned[party], self.shared.outliers)

    def _interval(self, mean: Tensor, deviation: Tensor) -> Levels:
        bins = self._per_member(self.values(lambda p: p.bins), mean)
        low, high = mean - 2 * deviation, mean + 2 * deviation
        return Levels(low, (high - low) / bins, torch.zeros_like(bins), bins, low, high)

    def _in_first_epoch(self, batch: int, party: int, context: Context | None) -> bool:
        if context is not None:
            return context.epoch == 0
        if not self._rows:
            raise UsageError(
                "discrete_sgd: first_epoch needs to know how many rows there are; call setup(y, ids) first"
            )
        before = self._rows_seen.get(party, 0)
        self._rows_seen[party] = before + batch
        return before < self._rows

    def notes(self, member: int = 0) -> list[str]:
        """Return a note on the leakage of the first epoch."""
        if self.shared.mode != "first_epoch":
            return []
        return ["discrete_sgd: under first_epoch the gradients of the first epoch are sent raw"]
