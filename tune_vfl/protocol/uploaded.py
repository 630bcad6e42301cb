"""Single-step gradients of a client as the server receives them, for attacks that reconstruct rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from tune_vfl.seeds import Stream

UploadedAt = Literal["first", "last"]
"""``first``: before the first round, by the starting weights; ``last``: by the weights after the last one."""


@dataclass(frozen=True, eq=False)
class Uploads:
    """Gradients of single steps of a client on batches of rows under attack.

    Attributes:
        ids: ``(*trials, M)`` positions in the client's training rows, batch after batch.
        batch: rows of a batch; M is a multiple of it.
        gradients: by moment ``(*trials, M / batch, n)``, the uploaded update over minus the learning rate: of the
            parameters that are uploaded, one after the other as the network lists them.
        shape: of one row: ``(d_x,)`` of a table, ``(C, H, W)`` of images with pixels in [0, 1].
        steps: like ``gradients``, where the client takes the step by its recipe's optimizer: by Adam, whose first step
            is about the signs of the gradient. Empty where that is SGD.
    """

    ids: Tensor
    batch: int
    gradients: Mapping[UploadedAt, Tensor]
    shape: tuple[int, ...]
    steps: Mapping[UploadedAt, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class KnownClient:
    """A client's network as a white-box server has it: all but its secrets.

    Attributes:
        network: ``(moment, name) -> (B, ...) -> (B, outputs)``: a copy of the bottom model with the top model on it, in
            this order; what is secret is guessed from the stream of the name.
        shared_from: the first parameter of the network whose gradient is uploaded, with all that follow it.
    """

    network: Callable[[UploadedAt, str], nn.Sequential]
    shared_from: int


@dataclass(frozen=True, eq=False)
class SharedPart:
    """A server's knowledge without bottom models: the top model, and the architecture of bottom models.

    Attributes:
        top: a copy of the one that clients trained on, by moment.
        bottom: an untrained bottom model, ``(B, ...) -> (B, d)``, from a stream.
    """

    top: Callable[[UploadedAt], nn.Module]
    bottom: Callable[[Stream], nn.Module]
