"""The inference head of model completion, with leading axes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from tune_vfl.models.layers import Linear, affine
from tune_vfl.seeds import Stream


class MemberNorm(nn.Module):
    """Batch normalization with statistics of its own for each member of a pack.

    Members are laid side by side as channels, so that one call of torch's kernel serves all.

    Args:
        width: d.
        lead: the leading axes, ``()`` or ``(T,)``.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, lead: tuple[int, ...]) -> None:
        super().__init__()
        channels = width * (lead[0] if lead else 1)
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize ``(*trials, B, d)`` over its rows, or by the running statistics in evaluation mode."""
        flat = x if x.dim() == 2 else x.transpose(0, 1).flatten(1)
        out = batch_norm(flat, self.mean, self.variance, self.weight, self.bias, self.training)
        return out if x.dim() == 2 else out.view(x.shape[1], x.shape[0], x.shape[2]).transpose(0, 1)


class ClassScores(Linear):
    """A linear map to classes with weights centered over the classes.

    The softmax does not see the difference. But as long as all rows are equal no gradient may reach what is before: of
    products that cancel some rounding is left, of which Adam makes whole steps, so that what is learned would depend on
    how many members share a pack.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*trials, B, d_in)`` to ``(*trials, B, K)``."""
        return affine(x, self.weight - self.weight.mean(-2, keepdim=True), self.bias)


class InferenceHead(nn.Sequential):
    """Batch norm, ReLU, linear, layer by layer in this order: embeddings are normalized and rectified first.

    Weights start at one, so that no class is preferred; the labels break the symmetry (Fu et al. 2022, released code).

    Args:
        width: d of the embeddings ``(*trials, B, d)``.
        classes: K of the logits ``(*trials, B, K)``.
        layers: how many linear layers; all but the last keep the width.
        stream: where the starting biases come from; its leading axes are the head's.
    """

    def __init__(self, width: int, classes: int, *, layers: int, stream: Stream, lead: tuple[int, ...]) -> None:
        parts: list[nn.Module] = []
        for layer in range(layers):
            last = layer == layers - 1
            linear = ClassScores(width, classes, stream=stream) if last else Linear(width, width, stream=stream)
            nn.init.ones_(linear.weight)
            parts += [MemberNorm(width, lead), nn.ReLU(), linear]
        super().__init__(*parts)
