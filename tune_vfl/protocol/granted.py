"""What reconstructions and batch label inference see, beside the recordings of :mod:`tune_vfl.protocol.view`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from tune_vfl.seeds import Stream


@dataclass(frozen=True, eq=False)
class Received:
    """What a passive party sent to the label party for the rows whose features are to be reconstructed.

    Attributes:
        ids: ``(*trials, M)`` positions in the training split.
        embeddings: ``(*trials, M, d)`` as they were sent, once the training was over.
        shape: of one row of the passive party: ``(d_x,)`` of a table, ``(C, H, W)`` of images with pixels in [0, 1].
    """

    ids: Tensor
    embeddings: Tensor
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Other rows of the passive party whose features the label party knows, and what was sent for them.

    Attributes:
        features: ``(*trials, A, ...)``.
        embeddings: ``(*trials, A, d)``, sent as those of :class:`Received` were.
    """

    features: Tensor
    embeddings: Tensor


@dataclass(frozen=True, eq=False)
class FirstBatch:
    """What a passive party holds of the first batch where only the gradient of its parameters reaches it in the clear.

    Attributes:
        ids: ``(*trials, B)`` positions in the training split.
        features: ``(*trials, B, ...)`` its own.
        gradient: for each parameter of the bottom model, in order, the gradient that the received one causes.
        bottom: makes a copy of the bottom model as it was before the first step.
        others: how many other parties send embeddings, the label party included where it has features.
        aggregation: how the label party joins them.
        top: makes a fresh top model of the known shape from a stream; None where the joined embeddings are the logits.
    """

    ids: Tensor
    features: Tensor
    gradient: tuple[Tensor, ...]
    bottom: Callable[[], nn.Module]
    others: int
    aggregation: Literal["concat", "sum", "mean"]
    top: Callable[[Stream], nn.Module] | None
