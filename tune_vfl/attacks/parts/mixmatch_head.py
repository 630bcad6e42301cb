"""MixMatch of a head of one layer on embeddings that stay as they are: its step written out, without autograd.

As the embeddings do not move, what batch norm makes of a batch before its scale and shift does not depend on the head,
and is computed for many steps at once; so are its running statistics, which nothing reads before the training is over.
What is left of a step are some twenty operations on small tensors, in place of some two hundred.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from tune_vfl.attacks.parts.inference_head import InferenceHead, MemberNorm
from tune_vfl.attacks.parts.mixed_rows import Fit, MixedRows, Pool, StreamsByName, mixed_rows
from tune_vfl.attacks.parts.mixmatch import FlatModel, MovingAverage, interleave
from tune_vfl.models.layers import Linear

_EPS, _MOMENTUM = 1e-5, 0.1
"""Constants of torch's batch norm."""


@torch.no_grad()
def mixmatch_of_head(head: InferenceHead, pool: Pool, fit: Fit, *, streams: StreamsByName) -> None:
    """Run :func:`tune_vfl.attacks.parts.mixmatch.mixmatch` on a head of one layer, without autograd.

    Args:
        head: trained in place; it ends averaged and in evaluation mode.
        pool: embeddings ``(*trials, N, d)`` of labeled and unlabeled rows.
        fit: how long and how.
        streams: the random streams by name.
    """
    norm, step = cast("MemberNorm", head[0]), _Step(head, fit)
    weights = _weights(fit)
    running = torch.stack([norm.mean, norm.variance]).mul_(1 - sum(weights) * _FRESH)
    done = 0
    for rows in mixed_rows(pool, fit, streams):
        normal, statistics = _normalized(rows)
        taken = running.new_tensor(weights[done : done + len(normal)])
        running += torch.tensordot(taken, statistics.flatten(2), 1)
        for i, x in enumerate(normal):
            step(x, rows, i, fit.unlabeled_weight * (done + i) / fit.steps)
        done += len(normal)
    step.average.restore()
    norm.mean.copy_(running[0])
    norm.variance.copy_(running[1])
    head.eval()


_SHARES = tuple(_MOMENTUM * (1 - _MOMENTUM) ** later for later in (2, 1, 0))
"""Weights in the running statistics of a step's three batches: guessed rows, and both chunks of mixed ones."""

_FRESH = sum(_SHARES)


def _weights(fit: Fit) -> list[float]:
    """Return the final weight of each step in the averaged running statistics."""
    found, total, kept = [], 0.0, 1.0
    for _ in range(fit.steps):
        total, kept = fit.ema_decay * total + kept, kept * (1 - _FRESH)
        found.append((1 - fit.ema_decay) * total)
    return found[::-1]


def _normalized(rows: MixedRows) -> tuple[Tensor, Tensor]:
    """Return rows after batch norm before scale and shift, and each step's contribution to its statistics.

    Returns:
        ``(M, T, 3B, d)``, mixed rows and then guessed ones; ``(M, 2, T, d)``, means and variances.
    """
    size, axis = rows.guessed.shape[-2], rows.mixed.dim() - 2
    labeled, unlabeled = rows.mixed.chunk(2, axis)
    normal, taken = [], []
    for chunk, share in zip((rows.guessed, *interleave(labeled, unlabeled, axis)), _SHARES, strict=True):
        mean = chunk.mean(-2, keepdim=True)
        centered = chunk - mean
        variance = centered.square().mean(-2, keepdim=True)  # torch's own takes ten times as long along this axis
        normal.append(centered.mul_((variance + _EPS).rsqrt_()))
        taken.append(share * torch.stack([mean.squeeze(-2), variance.squeeze(-2) * (size / (size - 1))], 1))
    mixed = interleave(normal[1], normal[2], axis)
    whole = torch.cat([*mixed, normal[0]], -2)
    return whole.view(len(whole), -1, *whole.shape[-2:]), torch.stack(taken).sum(0)


class _Step:
    """One step after the other, of heads that lie beside each other."""

    def __init__(self, head: InferenceHead, fit: Fit) -> None:
        norm, last = cast("MemberNorm", head[0]), cast("Linear", head[2])
        self._fit, self._flat = fit, FlatModel(head, fit.lr)
        self.average = MovingAverage([self._flat.values], fit.ema_decay)
        classes, width = last.weight.shape[-2:]
        shapes = [(-1, 1, width), (-1, 1, width), (-1, classes, width), (-1, classes, 1)]
        parameters = [norm.weight, norm.bias, last.weight, last.bias]
        self._scale, self._shift, self._weight, self._bias = (
            p.detach().view(shape) for p, shape in zip(parameters, shapes, strict=True)
        )
        self._gradients = [cast("Tensor", p.grad).view(s) for p, s in zip(parameters, shapes, strict=True)]

    def __call__(self, x: Tensor, rows: MixedRows, step: int, weight: float) -> None:
        """Take a step of a training on ``x (T, 3B, d)``, where the loss of unlabeled rows has this weight."""
        batch = x.shape[-2] // 3
        h = torch.addcmul(self._shift, x, self._scale).relu_()
        weights = self._weight - self._weight.mean(-2, keepdim=True)
        said = torch.baddbmm(self._bias, weights, h.transpose(1, 2)).softmax(1)  # (T, K, 3B): few rows multiply faster
        said, guessed = torch.split(said, [2 * batch, batch], -1)
        off = said - self._targets(guessed, rows, step)
        seen, unseen = off.chunk(2, -1)
        pushed = said[..., batch:]
        unseen = unseen * pushed
        unseen = torch.addcmul(unseen, pushed, unseen.sum(1, keepdim=True), value=-1)
        at_logits = torch.cat([seen, unseen.mul_(2 * weight / said.shape[1])], -1).div_(batch)
        self._descend(at_logits, weights, x[:, : 2 * batch], h[:, : 2 * batch])

    def _targets(self, guessed: Tensor, rows: MixedRows, step: int) -> Tensor:
        """Return mixed targets ``(T, K, 2B)``."""
        powered = guessed ** (1 / self._fit.temperature)
        known = rows.known[step].reshape(len(guessed), -1, guessed.shape[1]).transpose(1, 2)
        own = torch.cat([known, powered / powered.sum(1, keepdim=True)], -1)
        partners = rows.partners[step].reshape(len(guessed), 1, -1).expand_as(own)
        return torch.lerp(own.gather(-1, partners), own, rows.shares[step])

    def _descend(self, at_logits: Tensor, weights: Tensor, x: Tensor, h: Tensor) -> None:
        to_scale, to_shift, to_weight, to_bias = self._gradients
        torch.bmm(at_logits, h, out=to_weight)
        torch.sum(at_logits, 2, keepdim=True, out=to_bias)
        at_h = torch.ops.aten.threshold_backward(torch.bmm(at_logits.transpose(1, 2), weights), h, 0)
        torch.sum(at_h, 1, keepdim=True, out=to_shift)
        torch.sum(at_h.mul_(x), 1, keepdim=True, out=to_scale)
        self._flat.step()
        self.average.update()
        self._flat.shrink(1 - 0.02 * self._fit.lr)
