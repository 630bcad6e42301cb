"""Embeddings and gradients of every training row at many epochs, as an attacker recorded them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tune_vfl.protocol.mechanism import Mechanism, PerMember


@dataclass(frozen=True, eq=False)
class Visits(PerMember):
    """A passive party's sent embeddings and received gradients over the training, in the split's order.

    Gradients are those of a row's own loss: the received ones times the rows of their batch. Of a long training an
    entry of the axis E is a mean over several neighboring epochs, in which noise drawn anew averages out.

    Attributes:
        sent: ``(*trials, E, N, d)`` embeddings.
        received: ``(*trials, E, N, d)`` gradients for them.
        places: ``(*trials, E, N)`` int64 each row's place in the order of the rows of its epoch, of several epochs the
            last one: rows ``[s * batch, (s + 1) * batch)`` of it made up step s.
        times: the epoch of each entry of E, of several epochs their mean.
        batch: rows of a step.
        widths: columns of each party of several side by side; empty of a single one.
        mechanism: what the defense declares about how it works; None where it declares nothing.
    """

    sent: Tensor
    received: Tensor
    places: Tensor
    times: tuple[float, ...]
    batch: int
    widths: tuple[int, ...] = ()
    mechanism: Mechanism | None = None
