"""The task loss and the class probabilities, for any leading axes and for one-logit binary nets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def task_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, a mean over the batch, per member.

    Args:
        logits: ``(*trials, B, K)``, or ``(*trials, B, 1)``: the positive class's logit of a binary target.
        targets: ``(*trials, B)`` int64 classes or ``(*trials, B, K)`` soft labels (not necessarily summing to 1).

    Returns:
        ``(*trials,)`` losses.
    """
    lead, batch = logits.shape[:-2], logits.shape[-2]
    if logits.shape[-1] == 1:
        wanted = targets[..., 1] if targets.dim() == logits.dim() else targets.to(logits.dtype)
        rows = F.binary_cross_entropy_with_logits(logits.squeeze(-1), wanted, reduction="none")
    elif targets.dim() == logits.dim():
        rows = -(targets * F.log_softmax(logits, dim=-1)).sum(-1)
    elif not lead:
        return F.cross_entropy(logits, targets)
    else:
        flat = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction="none")
        rows = flat.view(*lead, batch)
    return rows.mean(-1)


def task_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the gradient of :func:`task_loss` with respect to the logits, in closed form; same arguments, same shape.

    Each row's is (sum t) p - t over the batch's rows, for probabilities p and a target t.
    """
    rows, soft = logits.shape[-2], targets.dim() == logits.dim()
    if logits.shape[-1] == 1:
        wanted = targets[..., 1:] if soft else targets.unsqueeze(-1)
        return torch.sigmoid(logits).sub_(wanted).div_(rows)
    # Of two classes a softmax is a sigmoid of the difference, which takes a tenth of the time over so short rows.
    found = torch.sigmoid(logits - logits.flip(-1)) if logits.shape[-1] == 2 else torch.softmax(logits, dim=-1)
    if soft:
        return found.mul_(targets.sum(-1, keepdim=True)).sub_(targets).div_(rows)
    true = targets.unsqueeze(-1)
    return found.scatter_add_(-1, true, found.new_full((), -1).expand(true.shape)).div_(rows)


def class_probabilities(logits: Tensor) -> Tensor:
    """Probabilities ``(*trials, B, K)`` from ``(*trials, B, K)`` logits, or from one positive-class logit."""
    if logits.shape[-1] == 1:
        # Not 1 - p: that rounds to 0 for sure positives, which then tie where AUC should rank them.
        return torch.sigmoid(torch.cat([-logits, logits], dim=-1))
    return torch.softmax(logits, dim=-1)


def loss_gradient(logits: Tensor, label: int | Tensor) -> Tensor:
    """Return the gradient of the mean cross-entropy with respect to the logits, linear in the label.

    For weights t of the classes it is ((sum t) p - t) / B in each row; for the positive class's logit alone
    ((t0 + t1) p - t1) / B.

    Args:
        logits: ``(*trials, B, K)``, or ``(*trials, B, 1)``.
        label: a class that every row has, or weights ``(*trials, B, K)`` of any sign and sum.
    """
    single = logits.shape[-1] == 1
    if isinstance(label, int):
        classes = torch.arange(2 if single else logits.shape[-1], device=logits.device)
        label = (classes == label).expand(*logits.shape[:-1], -1)
    weights = label.to(logits.dtype)
    p = torch.sigmoid(logits) if single else torch.softmax(logits, dim=-1)
    wanted = weights[..., 1:] if single else weights
    return (weights.sum(-1, keepdim=True) * p - wanted) / logits.shape[-2]
