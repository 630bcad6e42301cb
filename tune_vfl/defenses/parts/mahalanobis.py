"""Mahalanobis distances under the covariance of a batch's rows.

On a CPU LAPACK and BLAS are called through scipy, member by member: at a width of 128 that takes a third of the time of
torch's batched functions, which invert a triangular matrix by solving for the identity.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RIDGE = 1e-3
"""Share of the mean variance that is added to every direction of the covariance, which is often singular."""
Numbers: TypeAlias = NDArray[np.floating[Any]]


def whitening(rows: Tensor) -> Tensor:
    """Return W ``(T, d, d)``, lower triangular, ``|W (a - b)|`` being the distance under the covariance of ``rows``.

    Args:
        rows: ``(T, B, d)``, entries of size 1 at most.
    """
    centered = rows - rows.mean(-2, keepdim=True)
    if rows.device.type == "cpu":
        return torch.from_numpy(np.stack([_whitening_on_host(member) for member in centered.numpy()]))
    return whitening_on_device(centered)


def lengths(white: Tensor, apart: Tensor) -> Tensor:
    """Return ``(T, m)``: the lengths ``|W a|`` of the rows of ``apart`` ``(T, m, d)``, which is used up."""
    if apart.device.type == "cpu":
        members = zip(white.numpy(), apart.numpy(), strict=True)
        return torch.from_numpy(np.stack([_lengths_on_host(*member) for member in members]))
    return lengths_on_device(white, apart)


def _whitening_on_host(centered: Numbers) -> Numbers:
    # Imported here, and below: all defenses are imported together, and importing scipy would double the time of that.
    from scipy.linalg import get_lapack_funcs

    count, d = centered.shape
    covariance = centered.T @ centered
    covariance /= count
    covariance.flat[:: d + 1] += RIDGE * covariance.trace() / d + 1e-12
    functions: Any = get_lapack_funcs(("potrf", "trtri"), (covariance,))
    factor, invert = functions
    # Both stop early at numbers that are not finite. No distance means anything then, so their codes are not checked.
    upper, _ = factor(covariance.T, lower=0, overwrite_a=1)
    inverse, _ = invert(upper, lower=0, overwrite_c=1)
    return inverse.T  # type: ignore[no-any-return]


def _lengths_on_host(white: Numbers, apart: Numbers) -> Numbers:
    from scipy.linalg import get_blas_funcs

    product: Any = get_blas_funcs("trmm", (white, apart))
    # BLAS reads arrays column by column: a transposed view is what it expects, and nothing is copied.
    found = product(1.0, white.T, apart.T, lower=0, trans_a=1, overwrite_b=1)
    return np.sqrt(np.einsum("dm,dm->m", found, found))  # type: ignore[no-any-return]


def whitening_on_device(centered: Tensor) -> Tensor:
    """Return :func:`whitening` of rows with mean 0, for all members at once."""
    d = centered.shape[-1]
    covariance = centered.mT @ centered / centered.shape[-2]
    mean_variance = covariance.diagonal(dim1=-2, dim2=-1).mean(-1).view(-1, 1, 1)
    eye = torch.eye(d, dtype=centered.dtype, device=centered.device)
    factor = torch.linalg.cholesky_ex(covariance + (RIDGE * mean_variance + 1e-12) * eye).L
    white: Tensor = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    return white


def lengths_on_device(white: Tensor, apart: Tensor) -> Tensor:
    """Return :func:`lengths`, for all members at once."""
    found: Tensor = torch.linalg.vector_norm(apart @ white.mT, dim=-1)
    return found
