"""A model of gradients over epochs: a linear function of the sent embedding, a jump by class, and noise.

For row i at epoch e: ``g = A_e phi(z) + m_e(class) + noise(S_e)``, A, m and S free at each epoch. A row's class is the
same at all epochs, so that evidence adds up where noise does not. Rows come last in all large tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tune_vfl.attacks.parts.folded_rows import FOLDS, FoldedRows, others

WIDEST = 32
"""Principal columns of the gradients that are kept of an epoch."""
SENT = 16
"""Principal columns of the embeddings."""
_RIDGE, _SHRINK, _OWN_SHARE = 1e-3, 0.05, 0.8


class VisitModel:
    """Log likelihoods of the classes at each epoch, fitted to class probabilities without the row's fold.

    Args:
        received: ``(T, E, N, d)`` gradients.
        sent: ``(T, E, N, d)`` embeddings.
        explained: ``(T, N, c)`` further columns that the gradient may be a linear function of.
        rows: the folds.
        num_classes: K.
    """

    def __init__(self, received: Tensor, sent: Tensor, explained: Tensor, rows: FoldedRows, num_classes: int) -> None:
        self.rows, self.num_classes = rows, num_classes
        gradient = principal(scaled(received), WIDEST)
        phi = standardized(principal(standardized(sent), SENT))
        extra = standardized(explained).unsqueeze(1).expand(-1, phi.shape[1], -1, -1)
        self._explaining = phi.shape[-1] + extra.shape[-1]
        self._visits = rows.fold(torch.cat([phi, extra, gradient], -1)).transpose(1, 2)  # (T, E, F, q, n)
        self._visits = self._visits.contiguous()
        p = self._explaining
        products = self._visits @ self._visits.mT
        without = others(products.transpose(1, 2)).transpose(1, 2).double()
        count = rows.mask.sum((-1, -2, -3))
        self._count = (count.sum() - count).double().view(FOLDS, 1, 1)
        self._inverse = torch.linalg.inv(without[..., :p, :p] + _RIDGE * self._count * torch.eye(p))
        self._cross = without[..., :p, p:]
        noise = (without[..., p:, p:] - self._cross.mT @ self._inverse @ self._cross) / self._count
        self._precision = torch.linalg.inv(shrunk(noise))
        self._sums = self._visits.sum(-1).double()

    def linear(self, shares: Tensor) -> Tensor:
        """Return log likelihood ratios of each class to the first, epoch by epoch, one covariance for all classes.

        Args:
            shares: ``(T, F, S, K, n)`` class probabilities of S candidates.

        Returns:
            ``(T, F, S, E, K - 1, n)``.
        """
        weights, offsets = self._discriminant(shares)
        t, _, starts, k, size = shares.shape
        flat = weights.flatten(-3, -2).float()
        said = torch.stack([flat[:, e] @ visits for e, visits in enumerate(self._visits.unbind(1))], 2)
        said = said.view(t, FOLDS, -1, starts, k - 1, size) + offsets.permute(0, 2, 1, 3, 4).unsqueeze(-1).float()
        return said.transpose(2, 3)

    def curved(self, shares: Tensor) -> Tensor:
        """Return :meth:`linear` with a covariance for each class: a defense's noise may depend on the class.

        The same arguments and shape.
        """
        jump = self._fitted(shares)[0]
        slope = self._inverse.unsqueeze(-3) @ (
            self._cross.unsqueeze(-3) - self._moments(shares)[..., : self._explaining].mT @ jump
        )
        p, found = self._explaining, []
        for e, visits in enumerate(self._visits.unbind(1)):
            left = visits[..., p:, :].unsqueeze(2) - slope[:, e].mT.float() @ visits[..., :p, :].unsqueeze(2)
            found.append(_curved_ratios(left, shares))  # (T, F, S, K - 1, n)
        return torch.stack(found, 3)

    def _moments(self, shares: Tensor) -> Tensor:
        """Return ``(T, E, F, S, K, q)`` sums of the visits of each class over the other folds."""
        t, _, starts, k, size = shares.shape
        of_all_but_first = shares[:, :, :, 1:].reshape(t, FOLDS, starts * (k - 1), size).mT
        sums = torch.stack([visits @ of_all_but_first for visits in self._visits.unbind(1)], 1).double()
        sums = sums.mT.reshape(*sums.shape[:3], starts, k - 1, -1)
        first = self._sums[..., None, None, :] - sums.sum(-2, keepdim=True)
        return others(torch.cat([first, sums], -2).transpose(1, 2)).transpose(1, 2)

    def _fitted(self, shares: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return jumps ``(T, E, F, S, K, d)``, and the parts of the covariance that they explain."""
        moments = self._moments(shares)
        counts = others(shares.sum(-1).double()).unsqueeze(1)  # (T, 1, F, S, K)
        of_phi, of_gradient = moments[..., : self._explaining], moments[..., self._explaining :]
        projected = of_phi @ self._inverse.unsqueeze(-3)
        within = torch.diag_embed(counts + _RIDGE * self._count) - projected @ of_phi.mT
        beyond = of_gradient - projected @ self._cross.unsqueeze(-3)
        return torch.linalg.solve(within, beyond), within, beyond, of_phi

    def _discriminant(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        jump, within, beyond, of_phi = self._fitted(shares)
        precision, count = self._precision.unsqueeze(-3), self._count.unsqueeze(-1)
        # The jumps are taken out of the noise's covariance by Woodbury's identity.
        scaled = beyond @ precision
        apart = jump[..., 1:, :] - jump[..., :1, :]
        along = apart @ precision
        along = along + (along @ beyond.mT / count) @ torch.linalg.solve(within - scaled @ beyond.mT / count, scaled)
        slope = self._inverse.unsqueeze(-3) @ (self._cross.unsqueeze(-3) - of_phi.mT @ jump)
        middle = (jump[..., 1:, :] + jump[..., :1, :]) / 2
        return torch.cat([-(along @ slope.mT), along], -1), -(along * middle).sum(-1)


def _curved_ratios(left: Tensor, shares: Tensor) -> Tensor:
    """Return log density ratios ``(T, F, S, K - 1, n)`` of residuals ``(T, F, S, d, n)``, fitted on other folds."""
    counts = others(shares.sum(-1)).clamp(min=1e-6)
    means, covariances = [], []
    for k in range(shares.shape[-2]):
        weighted = left * shares[..., k : k + 1, :]
        mean = others(weighted.sum(-1)) / counts[..., k, None]
        means.append(mean)
        square = others(weighted @ left.mT) / counts[..., k, None, None]
        covariances.append(square - mean.unsqueeze(-1) * mean.unsqueeze(-2))
    share = counts / counts.sum(-1, keepdim=True)
    common = sum(c * share[..., k, None, None] for k, c in enumerate(covariances))
    densities = []
    for mean, covariance in zip(means, covariances, strict=True):
        own = shrunk((_OWN_SHARE * covariance + (1 - _OWN_SHARE) * common).double(), 1e-2)
        root = torch.linalg.cholesky(torch.linalg.inv(own)).float()
        far = (root.mT @ (left - mean.unsqueeze(-1))).square().sum(-2)
        densities.append(root.diagonal(dim1=-1, dim2=-2).log().sum(-1, keepdim=True) - far / 2)
    return torch.stack([d - densities[0] for d in densities[1:]], -2)


def standardized(rows: Tensor) -> Tensor:
    """Return ``(..., N, d)`` columns with mean 0 and variance 1; columns that do not vary become 0."""
    finite = rows.float().nan_to_num(0.0, 0.0, 0.0)
    spread, center = torch.std_mean(finite, -2, keepdim=True)
    return torch.where(spread > 1e-6 * center.abs() + 1e-30, (finite - center) / spread.clamp(min=1e-30), 0.0)


def scaled(rows: Tensor) -> Tensor:
    """Return centered rows ``(..., N, d)`` whose entries have a mean square of 1."""
    finite = rows.float().nan_to_num(0.0, 0.0, 0.0)
    centered = finite - finite.mean(-2, keepdim=True)
    size = centered.square().mean((-1, -2), keepdim=True).sqrt()
    return torch.where(size > 0, centered / size.clamp(min=1e-30), 0.0)


def principal(rows: Tensor, count: int) -> Tensor:
    """Return the ``count`` main coordinates of centered rows ``(..., N, d)``; narrower rows as they are."""
    if rows.shape[-1] <= count:
        return rows
    axes = torch.linalg.eigh((rows.mT @ rows).double()).eigenvectors[..., -count:]
    main: Tensor = rows @ axes.to(rows.dtype)
    return main


def shrunk(covariance: Tensor, share: float = _SHRINK) -> Tensor:
    """Draw a covariance ``(..., d, d)`` towards a multiple of the identity with its trace."""
    mean = covariance.diagonal(dim1=-1, dim2=-2).mean(-1)[..., None, None].clamp(min=1e-12)
    return (1 - share) * covariance + share * mean * torch.eye(covariance.shape[-1], dtype=covariance.dtype)
