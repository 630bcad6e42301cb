"""Embeddings and gradients of every training row at many epochs, as an attacker recorded them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tune_vfl.protocol.mechanism import Mechanism, PerMember


@dataclass(frozen=True, eq=False)
class Visits(PerMember):
    """A passive party's sent embeddings and received gradients at several epochs, in the split's order.

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
