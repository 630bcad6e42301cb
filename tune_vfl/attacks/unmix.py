"""Unmixing: gradients of single rows from those of mixtures by least squares, then gradient completion."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.gradient_completion import GradientCompletion
from tune_vfl.protocol.granted import MixedGradients, Mixtures, Recording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array
    from torch import Tensor

    from tune_vfl.protocol.view import Moment, View

    Array = NDArray[np.float64]

RIDGE = 0.03
"""For each epoch: shares of one epoch's mixtures alone are nearly dependent where two rows have half of each other."""
MOST_STEPS, PRECISION = 200, 1e-6


@attack("unmix")
class Unmix(GradientCompletion):
    """Solves for the gradients of single rows of mixtures, then completes as ``gradient_completion`` does.

    The gradient of a mixture's loss is nearly the mixture of its rows' gradients: exactly so in the labels, which are
    mixed in the same shares. The passive party mixes its rows itself, so it knows partners and shares. It finds the
    gradient of each row that fits best over the first epoch, the first quarter, the last quarter and all epochs: least
    squares with a small ridge. Mixtures that are drawn once give as many equations as there are rows, however long the
    training is; what they leave open the ridge sets to nearly 0.
    """

    summary = "undo the mixing of rows in received gradients by least squares, then complete them (gradient_completion)"
    reference = (
        "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning (completion); Zhang et al. "
        "2018, mixup: Beyond Empirical Risk Minimization; Huang et al. 2020, InstaHide: Instance-hiding Schemes for "
        "Private Distributed Learning"
    )
    capabilities = AttackCapabilities(sees=frozenset({"mixtures", "features", "bottom", "auxiliary"}), parties="joined")
    choice = "unmix"

    @property
    def draws(self) -> int:
        """One: least squares cost more than a second draw is worth."""
        return 1

    def moments(self) -> tuple[Moment, ...]:
        """Return none: the attack reads sums over spans of epochs instead."""
        return ()

    def tunable(self, epochs: int) -> Mapping[str, Sequence[Any]]:
        """Return strengths: spans are not the moments that ``reads`` names."""
        return {"strength": super().tunable(epochs)["strength"]}

    def seen(self, view: View) -> Mapping[str, Recording]:
        """Return the gradients of single rows, by the name of the span of epochs."""
        spans: Mapping[str, MixedGradients] = view.granted("mixtures")
        return {span: _as_received(unmixed(mixed)) for span, mixed in spans.items()}


def _as_received(gradients: Tensor) -> Recording:
    rows = gradients.shape[-2]
    return Recording(torch.arange(rows).expand(gradients.shape[:-1]), gradients / rows, ((0, rows),))


def unmixed(mixed: MixedGradients, ridge: float = RIDGE) -> Tensor:
    """Return each row's gradient by least squares: the G that makes ``||W G - R||^2 + E ridge ||G||^2`` smallest.

    W holds the shares, a line a mixture, and R the gradients received. Only ``W'R``, the totals, is known of R, so
    the normal equations are solved, by conjugate gradients: the steps of LSQR, in other coordinates.

    Args:
        mixed: of E epochs.
        ridge: for each epoch.

    Returns:
        ``(*trials, N, d)``, in the order of the training split.
    """
    totals = mixed.totals.double().nan_to_num()
    by_member = totals.reshape(-1, *totals.shape[-2:])
    found = [
        _solved(_shares(mixed.mixtures, i), t.numpy(), ridge * len(mixed.mixtures)) for i, t in enumerate(by_member)
    ]
    return torch.from_numpy(np.stack(found)).to(mixed.totals.dtype).view(mixed.totals.shape)


def _shares(mixtures: Sequence[Mixtures], member: int) -> csr_array:
    """Return W ``(E N, N)`` of a member; epochs with the same mixtures are merged with their total weight."""
    from scipy.sparse import csr_array

    times = Counter(id(m) for m in mixtures)
    blocks = {id(m): m for m in mixtures}.values()
    partners = torch.cat([m.partners.reshape(-1, *m.partners.shape[-2:])[member] for m in blocks])
    shares = torch.cat(
        [m.shares.reshape(-1, *m.shares.shape[-2:])[member].double() * times[id(m)] ** 0.5 for m in blocks]
    )
    (lines, mix), rows = shares.shape, mixtures[0].shares.shape[-2]
    ends = np.arange(0, lines * mix + 1, mix)
    return csr_array((shares.flatten().numpy(), partners.flatten().numpy(), ends), shape=(lines, rows))


def _solved(shares: csr_array, totals: Array, penalty: float) -> Array:
    """Solve ``(W'W + penalty) G = totals`` for every column at once, by conjugate gradients."""
    back = shares.T.tocsr()
    found, left = np.zeros_like(totals), totals.copy()
    heading, size = left.copy(), (left**2).sum(0)
    goal = PRECISION**2 * size
    for _ in range(MOST_STEPS):
        if (size <= goal).all():
            break
        image = back @ (shares @ heading) + penalty * heading
        step = size / np.maximum((heading * image).sum(0), np.finfo(np.float64).tiny)
        found += step * heading
        left -= step * image
        size, before = (left**2).sum(0), size
        heading = left + size / np.maximum(before, np.finfo(np.float64).tiny) * heading
    return found
