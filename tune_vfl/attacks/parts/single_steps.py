"""A client's network as a function of a batch: the gradients that a step on it uploads, for many batches at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from tune_vfl.models.images import BATCH_NORMS
from tune_vfl.models.layers import Dropout, M
from tune_vfl.protocol.losses import task_loss

_DROPOUTS = (
    *(Dropout, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)


class _OfTheBatch(nn.Module):
    """A batch norm in training mode without running statistics, so that it is a function of its input.

    Args:
        norm: the batch norm; one value a channel is normed by its running statistics, as :mod:`tune_vfl.models.images`
            does.
    """

    def __init__(self, norm: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm) -> None:
        super().__init__()
        self.weight, self.bias, self._eps = norm.weight, norm.bias, norm.eps
        self._mean, self._var = norm.running_mean, norm.running_var

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(B, C, ...)`` to the same shape."""
        if x.numel() == x.shape[1]:
            return F.batch_norm(x, self._mean, self._var, self.weight, self.bias, False, 0.0, self._eps)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self._eps)


def as_trained(network: M) -> M:
    """Switch a network to a client's training behavior as far as the server can know it; in place, and returned.

    Batch norms use batch statistics and do not update running ones. Dropout masks are the client's secret: nothing is
    dropped.
    """
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, BATCH_NORMS):
                setattr(module, name, _OfTheBatch(child))
    network.train().requires_grad_(False)
    for module in network.modules():
        if isinstance(module, _DROPOUTS):
            module.eval()
    return network


class SingleStep:
    """The upload of one step of SGD on one batch.

    Args:
        network: ``(B, ...) -> (B, outputs)``, see :func:`as_trained`.
        shared_from: the first of its parameters that is uploaded, with all that follow it.
    """

    def __init__(self, network: nn.Module, shared_from: int = 0) -> None:
        self.network = network
        named = [(name, p.detach()) for name, p in network.named_parameters()]
        self._kept, self._shared = dict(named[:shared_from]), dict(named[shared_from:])
        self.width = sum(p.numel() for p in self._shared.values())

    def same_as(self, other: SingleStep) -> bool:
        """Whether another step is through a network of the same numbers."""
        tensors = [[*s.network.parameters(), *s.network.buffers()] for s in (self, other)]
        return all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))

    def gradient(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the gradient ``(n,)`` of the mean cross-entropy, of all uploaded parameters one after the other.

        It can be differentiated once more, and mapped over many batches (``torch.func.vmap``).

        Args:
            x: ``(B, ...)``.
            targets: ``(B, K)`` probabilities.
        """

        def loss(shared: dict[str, Tensor]) -> Tensor:
            return task_loss(functional_call(self.network, {**self._kept, **shared}, (x,)), targets)

        return torch.cat([g.flatten() for g in grad(loss)(self._shared).values()])

    def slopes(self, x: Tensor, targets: Tensor, probe: Tensor) -> Tensor:
        """Return ``(G, B, ...)``: derivatives of a weighted sum of each batch's gradient with respect to its rows.

        Args:
            x: ``(G, B, ...)``.
            targets: ``(G, B, K)`` probabilities.
            probe: ``(n,)`` the weights.
        """

        def along(rows: Tensor, of: Tensor) -> Tensor:
            return self.gradient(rows, of) @ probe

        found: Tensor = vmap(grad(along), randomness="same")(x, targets)
        return found.detach()

    def matrices(self, gradients: Tensor) -> Iterator[Tensor]:
        """Yield, of gradients ``(G, n)``, those of each parameter with two axes, the last one first: ``(G, m, n)``."""
        end = gradients.shape[-1]
        for parameter in reversed(self._shared.values()):
            start = end - parameter.numel()
            if parameter.dim() == 2:
                yield gradients[:, start:end].reshape(-1, *parameter.shape)
            end = start

    def last(self, gradients: Tensor) -> Tensor:
        """Return of gradients ``(G, n)`` those of the last parameter, ``(G, ...)``."""
        parameter = next(reversed(self._shared.values()))
        return gradients[:, gradients.shape[-1] - parameter.numel() :].reshape(-1, *parameter.shape)

    def first_linear(self, gradients: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the gradients of weight and bias of the first linear layer, out of gradients ``(G, n)``.

        Returns:
            ``(G, d_out, d_in)`` and ``(G, d_out)``; None where the first layer is another or without bias, or is not
            uploaded.
        """
        if self._kept or len(self._shared) < 2:
            return None
        (layer, weight), (same, bias) = list(self._shared.items())[:2]
        if weight.dim() != 2 or bias.shape != weight.shape[:1] or layer.rpartition(".")[0] != same.rpartition(".")[0]:
            return None
        w, b = gradients[:, : weight.numel()], gradients[:, weight.numel() : weight.numel() + bias.numel()]
        return w.reshape(-1, *weight.shape), b
