"""A model of gradients over epochs: a linear function of the sent embedding, a jump by class, and noise.

For row i at epoch e: ``g = A_e phi(z) + m_e(class) + noise(S_e)``, A, m and S free at each epoch. A row's class is the
same at all epochs, so that evidence adds up where noise does not. Rows come last in all large tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from tune_vfl.attacks.parts.columns import principal, scaled, standardized
from tune_vfl.attacks.parts.folded_rows import FoldedRows, others

WIDEST = 32
"""Principal columns of the gradients that are kept of an epoch."""
SENT = 16
"""Principal columns of the embeddings."""
_RIDGE, _SHRINK, _OWN_SHARE = 1e-3, 0.05, 0.8
_AT_ONCE = 2**18
"""Entries of a tensor of a few epochs at once: it fits a processor's cache."""


class VisitModel:
    """Log likelihoods of the classes at each epoch, fitted to class probabilities without the row's fold.

    Args:
        received: ``(T, E, N, d)`` gradients.
        sent: ``(T, E, N, d)`` embeddings.
        explained: ``(T, N, c)`` further columns that the gradient may be a linear function of.
        rows: the folds.
    """

    def __init__(self, received: Tensor, sent: Tensor, explained: Tensor, rows: FoldedRows) -> None:
        gradient = principal(scaled(received), WIDEST)
        phi = standardized(principal(standardized(sent), SENT))
        extra = standardized(explained).unsqueeze(1).expand(-1, phi.shape[1], -1, -1)
        self._explaining = p = phi.shape[-1] + extra.shape[-1]
        ones = torch.ones_like(phi[..., :1])  # so that products hold sums and counts too
        self._visits = rows.fold(torch.cat([phi, extra, gradient, ones], -1))  # (T, F, E, q, n)
        products = self._visits @ self._visits.mT
        self._sums = products[..., -1, :].double()
        without = others(products).double()
        self._count = without[..., -1:, -1:]
        self._inverse = torch.linalg.inv(without[..., :p, :p] + _RIDGE * self._count * torch.eye(p))
        self._cross = without[..., :p, p:-1]
        noise = (without[..., p:-1, p:-1] - self._cross.mT @ self._inverse @ self._cross) / self._count
        self._precision = torch.linalg.inv(shrunk(noise))

    def linear(self, shares: Tensor) -> Tensor:
        """Return log likelihood ratios of each class to the first, epoch by epoch, one covariance for all classes.

        Args:
            shares: ``(T, F, S, K, n)`` class probabilities of S candidates.

        Returns:
            ``(T, F, S, E, K - 1, n)``, 0 for missing rows.
        """
        weights = self._discriminant(shares)
        said = weights.flatten(3, 4).float() @ self._visits
        return said.view(*weights.shape[:-1], -1).transpose(2, 3)

    def curved(self, shares: Tensor) -> Tensor:
        """Return :meth:`linear` with a covariance for each class: a defense's noise may depend on the class.

        The same arguments and shape.
        """
        jump, _, _, of_phi = self._fitted(shares)
        slope = self._slope(jump, of_phi)
        width = self._visits.shape[-2] - self._explaining
        keep = torch.eye(self._visits.shape[-2], dtype=slope.dtype)[-width:]
        leave = (keep - pad(slope.mT, (0, width, 0, 1))).float()  # (T, F, E, S, d + 1, q)
        entries = leave[:, :, 0, ..., 0].numel() * shares[0, 0, 0, 1:].numel()  # of the largest tensor of an epoch
        few = max(1, _AT_ONCE // entries)
        found = []
        for part, visits in zip(torch.split(leave, few, 2), torch.split(self._visits, few, 2), strict=True):
            left = part.flatten(3, 4) @ visits
            found.append(_curved_ratios(left.view(*part.shape[:-1], -1), shares))
        return torch.cat(found, 2).transpose(2, 3)

    def _moments(self, shares: Tensor) -> Tensor:
        """Return ``(T, F, E, S, K, q)`` sums of the visits of each class over the other folds."""
        rest = shares[..., 1:, :]
        sums = (self._visits.flatten(2, 3) @ rest.flatten(2, 3).mT).double()
        sums = sums.view(*self._visits.shape[:-1], -1).mT.reshape(*self._sums.shape[:3], *rest.shape[2:4], -1)
        first = self._sums[..., None, None, :] - sums.sum(-2, keepdim=True)
        return others(torch.cat([first, sums], -2))

    def _fitted(self, shares: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return jumps ``(T, F, E, S, K, d)``, and the parts of the covariance that they explain."""
        of_phi, of_gradient, counts = self._moments(shares).tensor_split((self._explaining, -1), -1)
        projected = of_phi @ self._inverse.unsqueeze(-3)
        within = torch.diag_embed(counts.squeeze(-1) + _RIDGE * self._count) - projected @ of_phi.mT
        beyond = of_gradient - projected @ self._cross.unsqueeze(-3)
        return torch.linalg.solve(within, beyond), within, beyond, of_phi

    def _slope(self, jump: Tensor, of_phi: Tensor) -> Tensor:
        slope: Tensor = self._inverse.unsqueeze(-3) @ (self._cross.unsqueeze(-3) - of_phi.mT @ jump)
        return slope

    def _discriminant(self, shares: Tensor) -> Tensor:
        """Return weights ``(T, F, E, S, K - 1, q)`` of the visits."""
        jump, within, beyond, of_phi = self._fitted(shares)
        precision, count = self._precision.unsqueeze(-3), self._count.unsqueeze(-1)
        # The jumps are taken out of the noise's covariance by Woodbury's identity.
        scaled = beyond @ precision
        apart = jump[..., 1:, :] - jump[..., :1, :]
        along = apart @ precision
        along = along + (along @ beyond.mT / count) @ torch.linalg.solve(within - scaled @ beyond.mT / count, scaled)
        middle = (jump[..., 1:, :] + jump[..., :1, :]) / 2
        offsets = -(along * middle).sum(-1, keepdim=True)
        return torch.cat([-(along @ self._slope(jump, of_phi).mT), along, offsets], -1)


def _curved_ratios(left: Tensor, shares: Tensor) -> Tensor:
    """Return log density ratios to the first class, of normal densities that are fitted on the other folds.

    Args:
        left: ``(T, F, E, S, d + 1, n)`` residuals, and ones below them; 0 for missing rows.
        shares: ``(T, F, S, K, n)`` class probabilities.

    Returns:
        ``(T, F, E, S, K - 1, n)``.
    """
    rest, width = shares[:, :, None, :, 1:], left.shape[4]
    # Of many classes the products of all columns are formed once, of few the products with each class.
    many = 2 * rest.shape[4] > width
    products = (left.unsqueeze(5) if many else rest.unsqueeze(5)) * left.unsqueeze(4)
    sums = rest @ products.flatten(4, 5).mT if many else products.flatten(4, 5) @ left.mT
    sums = sums.view(*left.shape[:4], rest.shape[4], width, width)
    first = (left @ left.mT).unsqueeze(4) - sums.sum(4, keepdim=True)
    sums = others(torch.cat([first, sums], 4).double())  # (T, F, E, S, K, d + 1, d + 1)
    counts = sums[..., -1:, -1:].clamp(min=1)  # a class of less than a row has no covariance
    means = sums[..., :-1, -1:] / counts
    covariances = sums[..., :-1, :-1] / counts - means @ means.mT
    common = (covariances * counts / counts.sum(4, keepdim=True)).sum(4, keepdim=True)
    own = shrunk(_OWN_SHARE * covariances + (1 - _OWN_SHARE) * common, 1e-2)
    # A log density is a quadratic form of the residual with a one below it.
    precision = torch.linalg.inv(own)
    along = precision @ means
    offset = -(means.mT @ along + torch.linalg.slogdet(own).logabsdet[..., None, None]) / 2
    forms = torch.cat([torch.cat([precision / -2, along], -1), pad(offset, (means.shape[-2], 0))], -2)
    forms = (forms[..., 1:, :, :] - forms[..., :1, :, :]).float()
    if many:
        return forms.flatten(5) @ products.flatten(4, 5)
    said = (forms.flatten(4, 5) @ left).view(*forms.shape[:-1], -1)
    return (said * left.unsqueeze(4)).sum(-2)


def shrunk(covariance: Tensor, share: float = _SHRINK) -> Tensor:
    """Draw a covariance ``(..., d, d)`` towards a multiple of the identity with its trace."""
    mean = covariance.diagonal(dim1=-1, dim2=-2).mean(-1)[..., None, None].clamp(min=1e-12)
    return (1 - share) * covariance + share * mean * torch.eye(covariance.shape[-1], dtype=covariance.dtype)
