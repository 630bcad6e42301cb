"""Rows read off the gradients of the first linear layer, exactly or through a defense's noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_ROUNDS = 10
_SMALL, _LOUD = 1e-30, 1e12
"""The least square that is told from nothing, and the largest variance of noise that is told from any larger one."""
_OF_A_ROW = 0.1
"""The variance of the length of rows, relative to its square: about that of digits, and of tables of ten columns."""


@dataclass(frozen=True, eq=False)
class ReadOff:
    """Single rows behind as many gradients.

    Attributes:
        rows: ``(G, d_in)``, drawn towards their mean by as much as the gradients are noise.
        share: ``(G,)`` the share of a row's variance around that mean that is taken to be found, 1 without noise.
    """

    rows: Tensor
    share: Tensor


class _Heard(NamedTuple):
    """The matrix of rank one behind the gradients of each row.

    Attributes:
        sent: ``(G, d_in)`` the row times an unknown length, and noise.
        told: ``(G,)`` that length, and noise, by the bias alone.
        noise: ``(G,)`` the variance of an entry.
        known: ``(G,)`` the share of the square of ``sent`` that is no noise.
    """

    sent: Tensor
    told: Tensor
    noise: Tensor
    known: Tensor


def read_off(weight: Tensor, bias: Tensor, *, image: bool) -> ReadOff:
    """Return the rows that best explain the gradients of a linear layer, each that of a step on one row.

    The layer's gradients are the row times the gradient of the bias (Phong et al., Privacy-Preserving Deep Learning via
    Additively Homomorphic Encryption, IEEE TIFS 2018), a matrix of rank one. Noise on it is averaged out over the
    layer's outputs, and what is left of it is told from what no matrix of rank one explains. Entries that are zero, or
    no numbers, are taken to have been left out.

    Args:
        weight: ``(G, d_out, d_in)`` gradients.
        bias: ``(G, d_out)`` gradients.
        image: rows are pixels in [0, 1]; else columns of mean 0 and variance 1.
    """
    heard = _hear(*(torch.where(g.isfinite(), g, 0.0) for g in (weight, bias)))
    clear = heard.sent.square().mean(-1) * heard.known
    sign = _sign(heard.sent.sum(-1) if image else heard.told)
    told = heard.told * sign
    # Rows are about equally long: where the bias says little, that says more.
    square = clear.sum() / (told.square() - heard.noise).clamp(min=0).sum().clamp(min=_SMALL)
    usual = (clear / square.clamp(0.02, 1.0)).clamp(min=_SMALL).sqrt()
    by_bias = 1 / (heard.noise + 1e-12 * told.square() + _SMALL)
    by_usual = 1 / (_OF_A_ROW * usual.square())
    length = ((told * by_bias + usual * by_usual) / (by_bias + by_usual)).clamp(min=_SMALL**0.5)
    rows = heard.sent / (sign * length).unsqueeze(-1)
    doubt = 1 / ((by_bias + by_usual) * length.square())
    noise = rows.square().mean(-1) * (1 - heard.known + doubt)
    heard_at_all = heard.known > 0
    rows = torch.where(heard_at_all.unsqueeze(-1), rows, 0.0)
    noise = torch.where(heard_at_all, noise, _LOUD).clamp(max=_LOUD)
    # Columns may be of either sign, which the bias alone tells: the mean over both, weighted by their probabilities.
    sure = torch.ones_like(told) if image else torch.tanh(told * usual * by_bias)
    return _towards_their_mean(rows, noise, sure, *((0.5, 0.25) if image else (0.0, 1.0)))


def _sign(x: Tensor) -> Tensor:
    return torch.where(x < 0, -1.0, 1.0)


def _hear(weight: Tensor, bias: Tensor) -> _Heard:
    there = (weight != 0).to(weight)
    # The outputs' share in the gradient is told by all columns; the bias alone has but one noisy number of each.
    left, sizes, _ = torch.linalg.svd(torch.cat([weight, bias.unsqueeze(-1)], -1), full_matrices=False)
    outputs = left[..., 0]
    count = torch.einsum("go,goi->gi", outputs.square(), there)
    sent = torch.einsum("go,goi->gi", outputs, weight)
    sent = torch.where(count > 0, sent / count.clamp(min=_SMALL), 0.0)
    apart = (weight - outputs.unsqueeze(-1) * sent.unsqueeze(-2)) * there
    free = (there.sum((-1, -2)) - sum(weight.shape[-2:]) + 1).clamp(min=1)
    noise = apart.square().sum((-1, -2)) / free
    known = _known(sizes[..., 0].square(), noise, weight.shape[-2], weight.shape[-1])
    return _Heard(sent, (outputs * bias).sum(-1), noise, known)


def _known(largest: Tensor, noise: Tensor, m: int, n: int) -> Tensor:
    """Return the share of the squared length of a noisy matrix's first right vector that is no noise.

    Of a matrix of rank one: Benaych-Georges and Nadakuditi, The singular values and vectors of low rank perturbations
    of large rectangular random matrices, 2012, example 3.1.
    """
    above = largest - (m + n) * noise
    signal = (above + (above.square() - 4 * m * n * noise.square()).clamp(min=0).sqrt()) / 2
    ratio = n * noise / signal
    share = 1 - (m / n * ratio.square() + ratio) / (1 + ratio)
    # What noise alone comes to, three deviations above its mean (Johnstone, Annals of Statistics 2001).
    edge = m**0.5 + n**0.5
    edge = edge**2 + 3 * edge * (m**-0.5 + n**-0.5) ** (1 / 3)
    return torch.where(largest > noise * edge, share, 0.0).clamp(0, 1)


def _towards_their_mean(rows: Tensor, noise: Tensor, sure: Tensor, center: float, most: float) -> ReadOff:
    """Shrink ``(G, d)`` rows by the variance ``(G,)`` of the noise in each number and theirs, which is estimated.

    Their mean is estimated as well, from ``center`` give or take ``most``, which is the largest variance they may have.
    """
    spread, mean = rows.new_tensor(most), rows.mean(0)
    for _ in range(_ROUNDS if len(rows) > 1 else 0):
        weights = (1 / (spread + noise)).unsqueeze(-1)
        mean = (center / most + (weights * rows).sum(0)) / (1 / most + weights.sum())
        apart = (rows - mean).square().mean(-1) * len(rows) / (len(rows) - 1) - noise
        shares = weights.squeeze(-1) / weights.sum()
        spread = (shares * apart).sum().clamp(_SMALL, most)
    share = sure * spread / (spread + noise)
    return ReadOff(mean + share.unsqueeze(-1) * (rows - mean), share)
