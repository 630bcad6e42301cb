"""Labels of a batch, read off the gradient of the last layer."""

from __future__ import annotations

import torch
from torch import Tensor


def gradient_of_logits(last: Tensor, num_classes: int) -> Tensor | None:
    """Return by class ``(G, K)`` a batch's sum of ``(p - y) / B``, or a proxy of the same sign; None if hidden.

    The gradient of the last bias is that sum. Without a bias each class's row of the last weights has the sign of that
    sum in its own sum, where what the layer reads is positive (Zhao et al., iDLG, section 3.1). Where the network gives
    the logit of the positive class alone, the other class's is its negative.

    Args:
        last: ``(G, outputs)`` or ``(G, outputs, d)`` gradients of the network's last parameter.
        num_classes: K.
    """
    found = last.sum(-1) if last.dim() == 3 else last
    if found.shape[-1] == 1 and num_classes == 2:
        return torch.cat([-found, found], -1)
    return found if found.shape[-1] == num_classes else None


def labels_of_batches(residual: Tensor, batch: int, prior: Tensor) -> Tensor:
    """Return the labels ``(G, B)`` of batches, in no order: exactly those of single rows, a guess at those of more.

    Of a single row's probabilities less its label only the label's entry is negative (Zhao et al., iDLG). Of a batch,
    classes with a negative entry are there at least once. The other rows fall to the classes that come next once a
    row's share is taken off, entries being compared with what the network says of any row (after Wainakh et al.,
    User-Level Label Leakage from Gradients in Federated Learning, PoPETs 2022).

    Args:
        residual: ``(G, K)``, see :func:`gradient_of_logits`.
        batch: B.
        prior: ``(K,)`` mean probabilities that the network gives.
    """
    if batch == 1:
        return residual.argmin(-1, keepdim=True)
    left = (prior - residual) * batch
    sure = residual < 0
    found = []
    for _ in range(batch):
        # Classes that are surely present come first, once; then those with most rows left.
        key = torch.where(sure, left + 2 * batch, left)
        pick = key.argmax(-1, keepdim=True)
        found.append(pick)
        left = left.scatter_add(-1, pick, -torch.ones_like(left[:, :1]))
        sure = sure.scatter(-1, pick, value=False)
    return torch.cat(found, -1)
