"""The true binary class behind swapped labels, from what the model believes.

A gradient's size along the difference of the classes says how far the model is from the class that it was taught; so it
says what the model believes, which has seen the label party's columns too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot

if TYPE_CHECKING:
    from tune_vfl.attacks.parts.trust import Trust

_RAREST, _UNSURE = 1e-12, 0.02


def behind_swaps(received: Tensor, taught: Tensor, trust: Trust) -> Tensor:
    """Return logits ``(T, n, 2)`` of the true class.

    Args:
        received: ``(T, E, n, d)`` gradients of each row's own loss.
        taught: ``(T, n, 2)`` logits of the class taught.
        trust: with swaps.
    """
    swaps = trust.swaps
    assert swaps is not None  # noqa: S101 - the caller has looked
    flags = one_hot(taught.argmax(-1), 2).to(received.dtype)
    clean = believed(received, flags) @ torch.linalg.inv(swaps.double()).float()
    logs = clean.clamp(_UNSURE, 1 - _UNSURE).log() + flags @ swaps.clamp(min=_RAREST).log().mT
    return trust.balanced(logs)


def believed(received: Tensor, flags: Tensor) -> Tensor:
    """Return the model's class probabilities ``(T, n, K)``, averaged over the epochs.

    Along the difference of a class from the rest a gradient is ``a (y - p)``, y being 1 for a row that was taught the
    class. The scale a is the one at which p is calibrated: then E (y - p)^2 = E p (1 - p) = E |y - p| / 2.

    Args:
        received: ``(T, E, n, d)`` gradients.
        flags: ``(T, n, K)`` 1 for the class that a row was taught.
    """
    of_class = flags.unsqueeze(1)  # (T, 1, n, K)
    counts = of_class.sum(-2).unsqueeze(-1).clamp(min=1)  # (T, 1, K, 1)
    sums = of_class.mT @ received  # (T, E, K, d)
    rest = (received.shape[-2] - counts).clamp(min=1)
    apart = sums / counts - (received.sum(-2, keepdim=True) - sums) / rest
    along = received @ (apart / apart.norm(dim=-1, keepdim=True).clamp(min=1e-30)).mT  # (T, E, n, K)
    along = torch.where(of_class > 0, along.clamp(min=0), along.clamp(max=0))
    square, size = (part.sum(-2, keepdim=True) for part in (along.square(), along.abs()))
    belief = of_class - along * size / (2 * square).clamp(min=1e-30)
    return belief.mean(1).clamp(0, 1)
