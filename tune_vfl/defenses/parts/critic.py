"""A Wasserstein critic of scalar predictions at the label party, and the orientation of its scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tune_vfl.kernels.chain import Steps
from tune_vfl.models.layers import Linear
from tune_vfl.models.optimizers import Adam
from tune_vfl.seeds import Stream

Bound = Callable[[int], float | Tensor]
"""``dims -> the members' clipping bounds``, ready for a weight with so many axes after the leading ones."""


class Critic(nn.Module):
    """Tells labels from predictions: Linear(1, hidden), LeakyReLU, Linear(hidden, 1), LeakyReLU.

    Args:
        hidden: the hidden layer's width.
        lr: of its own Adam.
        stream: where the starting weights come from.
        device: where it is trained.
    """

    def __init__(self, hidden: int, *, lr: float, stream: Stream, device: torch.device) -> None:
        super().__init__()
        self._linear = [Linear(1, hidden, stream=stream), Linear(hidden, 1, stream=stream)]
        self.layers = nn.Sequential(self._linear[0], nn.LeakyReLU(), self._linear[1], nn.LeakyReLU()).to(device)
        self._steps = Steps(self.layers)
        self._trained = [chain.line for chain in self._steps.chains] or list(self.parameters())
        self._optimizer = Adam(self._trained, lr=lr, fused=True)

    def forward(self, values: Tensor) -> Tensor:
        """Map ``(*trials, B, 1)`` to ``(*trials, B, 1)``; larger is more like a label."""
        return self._steps(values)

    @torch.enable_grad()
    def step(self, real: Tensor, made: Tensor, bound: Bound) -> None:
        """Take one step towards telling the two apart, then clip the weights.

        Args:
            real: ``(*trials, B)`` labels with noise.
            made: ``(*trials, B)`` predictions.
            bound: how far from 0 a weight may be.
        """
        self._learn(True)
        # One after the other: what both pull at alike cancels to the last bit, and Adam would make steps of a rest.
        distance = self(made.detach().unsqueeze(-1)).mean((-2, -1)) - self(real.unsqueeze(-1)).mean((-2, -1))
        self._optimizer.zero_grad()
        distance.sum().backward()
        self._optimizer.step()
        # Until the next step the critic only scores predictions, and the loss made of that must not train it.
        self._learn(False)
        with torch.no_grad():
            for layer in self._linear:
                for dims, weight in ((2, layer.weight), (1, layer.bias)):
                    limit = torch.as_tensor(bound(dims), device=weight.device)
                    weight.copy_(torch.minimum(torch.maximum(weight, -limit), limit))

    def _learn(self, does: bool) -> None:
        self.requires_grad_(does)
        for trained in self._trained:
            trained.requires_grad_(does)


def positives_rank_low(scores: Tensor, y: Tensor) -> Tensor:
    """Return whether the ROC AUC of each member's scores is below 1/2.

    A tie counts one half. Where only one class occurs there is no AUC, and the answer is False.

    Args:
        scores: ``(*trials, M)``.
        y: ``(*trials, M)``, 1 for positives.

    Returns:
        ``(*trials,)`` bool.
    """
    ordered = scores.contiguous().sort(-1).values
    below = torch.searchsorted(ordered, scores.contiguous())
    up_to = torch.searchsorted(ordered, scores.contiguous(), right=True)
    # Twice a row's mean rank less the mean of all ranks: whole numbers, whose sum is exact in any order.
    offset = below + up_to - scores.shape[-1]
    return (offset * (y == 1)).sum(-1) < 0


class LastPass:
    """The scores and labels of the last rows that were seen, as many as one pass over the training rows has.

    Args:
        rows: N.
    """

    def __init__(self, rows: int) -> None:
        self._rows, self._held = rows, 0
        self._steps: deque[tuple[Tensor, Tensor]] = deque()
        self._inverted: Tensor | None = None

    def add(self, scores: Tensor, y: Tensor) -> None:
        """Add a batch ``(*trials, B)``, and drop batches of an earlier pass."""
        self._steps.append((scores.detach(), y))
        self._held += scores.shape[-1]
        while self._held - self._steps[0][0].shape[-1] >= self._rows:
            self._held -= self._steps.popleft()[0].shape[-1]
        self._inverted = None

    @property
    def inverted(self) -> Tensor | None:
        """``(*trials,)`` bool: whether positives have the lower scores; None before the first batch."""
        if self._inverted is None and self._steps:
            scores, y = (torch.cat(list(parts), dim=-1) for parts in zip(*self._steps, strict=True))
            self._inverted = positives_rank_low(scores, y)
        return self._inverted
