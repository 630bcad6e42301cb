"""Information of an embedding beyond the extension columns that a defense had the attacker add."""

from __future__ import annotations

import torch
from torch import Tensor

KNOTS = 11
"""Where a mean embedding is fitted over the range of an added column; straight lines in between."""
PRODUCTS = 0.3
"""Scale of the products of embeddings and added columns: there are many, and most bottoms need none."""


class Conditioned:
    """Maps rows to features, embeddings less their mean at the row's added columns, and products of these with those.

    A random column that the top model needs fills most of an embedding, and a penalty on coefficients then drowns what
    little else there is. The mean is fitted to all rows, which needs no labels: least squares on lines between
    :data:`KNOTS` values of each column, added up. Features and embeddings are standardized.

    Args:
        x: ``(*trials, n, d)`` the attacker's features, the added columns last.
        e: ``(*trials, n, w)`` their embeddings.
        added: how many columns were added.
    """

    def __init__(self, x: Tensor, e: Tensor, added: int) -> None:
        self._added = added
        low, high = x[..., -added:].aminmax(dim=-2, keepdim=True)
        self._low, self._range = low, torch.where(high > low, high - low, 1.0)
        hats = self._hats(x)
        # A little ridge, a row in ten thousand: the hats of each column add up to 1, so those of several columns are
        # linearly dependent, and a hat may hold no row at all.
        ridge = 1e-4 * hats.shape[-2] * torch.eye(hats.shape[-1], dtype=hats.dtype, device=hats.device)
        self._means = torch.linalg.solve(hats.mT @ hats + ridge, hats.mT @ e)
        self._x, self._rest = _Scaler(x), _Scaler(e - hats @ self._means)

    def _hats(self, x: Tensor) -> Tensor:
        place = (x[..., -self._added :] - self._low) / self._range * (KNOTS - 1)
        away = place.clamp(0, KNOTS - 1).unsqueeze(-1) - torch.arange(KNOTS, device=x.device)
        return (1 - away.abs()).clamp_min(0).flatten(-2)

    def __call__(self, x: Tensor, e: Tensor) -> Tensor:
        """Map rows ``(*trials, n, ...)`` and their embeddings to ``(*trials, n, d + w + w * added)``."""
        own, rest = self._x(x), self._rest(e - self._hats(x) @ self._means)
        products = rest.unsqueeze(-1) * own[..., -self._added :].unsqueeze(-2)
        return torch.cat([own, rest, PRODUCTS * products.flatten(-2)], dim=-1)


class _Scaler:
    def __init__(self, rows: Tensor) -> None:
        spread, self._center = torch.std_mean(rows, dim=-2, keepdim=True)
        self._spread = torch.where(spread > 0, spread, 1.0)

    def __call__(self, rows: Tensor) -> Tensor:
        return (rows - self._center) / self._spread
