"""Embeddings and gradients of every training row at many epochs, as an attacker recorded them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from tune_vfl.protocol.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class Visits:
    """What a passive party sent and received for each training row at several epochs, in the split's order.

    Gradients are those of a row's own loss: the received ones times the rows of their batch.

    Attributes:
        sent: ``(*trials, E, N, d)`` embeddings of E single epochs.
        received: ``(*trials, E, N, d)`` gradients of the same epochs.
        sent_means: ``(*trials, P, N, d)`` each row's mean embedding over each of P parts of the training.
        received_means: ``(*trials, P, N, d)`` its mean gradient, in which noise drawn anew averages out.
        direction_means: ``(*trials, P, N, d)`` the mean of its gradients scaled to length 1.
        mechanism: what the defense declares about how it works; None where it declares nothing.
    """

    sent: Tensor
    received: Tensor
    sent_means: Tensor
    received_means: Tensor
    direction_means: Tensor
    mechanism: Mechanism | None = None

    def batched(self) -> Visits:
        """Return the visits of one training with a leading axis of 1."""
        known = self.mechanism and self.mechanism.batched()
        tensors = {name: value.unsqueeze(0) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **tensors, mechanism=known)
