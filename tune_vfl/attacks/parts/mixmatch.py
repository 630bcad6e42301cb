"""Training a completed model on few labels: plain cross-entropy, or the reduced MixMatch of Fu et al. (2022).

Everything runs for all members of a pack at once: inputs are ``(*trials, N, ...)``, members never mix, and the gradient
of the summed losses is each member's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tune_vfl.attacks.parts.mixed_rows import Cycle, Fit, MixedRows, Pool, StreamsByName, mixed_rows
from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.members import gather_rows


class FlatModel:
    """A model with all parameters in one tensor and all gradients in another, for updates in one call.

    Args:
        model: its parameters become views of that tensor.
        lr: learning rate of Adam.
    """

    def __init__(self, model: nn.Module, lr: float) -> None:
        parameters = list(model.parameters())
        self.values = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        self._gradient = torch.zeros_like(self.values)
        self.values.grad = self._gradient
        sizes = [p.numel() for p in parameters]
        mine, theirs = torch.split(self.values.detach(), sizes), torch.split(self._gradient, sizes)
        for p, value, gradient in zip(parameters, mine, theirs, strict=True):
            p.data, p.grad = value.view_as(p), gradient.view_as(p)
            p.requires_grad_(True)
        self._adam = Adam([self.values], lr=lr, fused=True)

    def descend(self, loss: Tensor) -> None:
        """Take a step of Adam on the sum of the members' losses."""
        self._gradient.zero_()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        self.step()

    def step(self) -> None:
        """Take a step of Adam on the current gradients."""
        self._adam.step()

    def shrink(self, share: float) -> None:
        """Keep this share of all parameters."""
        self.values.detach().mul_(share)


class MovingAverage:
    """Exponential moving average of tensors that change in place.

    Args:
        live: the model to average.
        decay: the weight of the average at each update.
    """

    def __init__(self, live: Sequence[Tensor], decay: float) -> None:
        self._live = [t.detach() for t in live]
        self._kept = [t.clone() for t in self._live]
        self._weight = 1 - decay

    def update(self) -> None:
        """Move towards the live values."""
        for kept, live in zip(self._kept, self._live, strict=True):
            kept.lerp_(live, self._weight)

    def restore(self) -> None:
        """Replace the weights by their averages."""
        for live, kept in zip(self._live, self._kept, strict=True):
            live.copy_(kept)


def interleave(first: Tensor, second: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Swap the second halves of two chunks of n rows, cut after row ``n // 2``; doing it twice gives them back."""
    n = first.shape[axis]
    (a, b), (c, d) = (torch.split(x, [n // 2, n - n // 2], axis) for x in (first, second))
    return torch.cat([a, d], axis), torch.cat([c, b], axis)


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """Raise probabilities ``(*trials, B, K)`` to the power 1/temperature and normalize them again."""
    powered = p ** (1 / temperature)
    return powered / powered.sum(-1, keepdim=True)


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy ``(*trials,)`` against soft targets, a mean over rows."""
    return -(targets * logits.log_softmax(-1)).sum(-1).mean(-1)


def supervised(model: nn.Module, x: Tensor, targets: Tensor, fit: Fit, *, streams: StreamsByName) -> None:
    """Train on labeled rows alone, in place; the model ends in evaluation mode.

    Args:
        model: ``(*trials, B, ...) -> (*trials, B, K)``; its parameters carry the leading axes.
        x: ``(*trials, A, ...)`` inputs.
        targets: ``(*trials, A, K)`` one-hot labels.
        fit: its ``ema_decay`` and the fields after it are not used.
        streams: the random streams by name.
    """
    flat = FlatModel(model, fit.lr)
    batches = Cycle(targets.shape[-2], fit.batch_size, streams("order"))
    model.train()
    for _ in range(fit.steps):
        at = batches.next()
        flat.descend(soft_cross_entropy(model(gather_rows(x, at)), gather_rows(targets, at)))
    model.eval()


def mixmatch(model: nn.Module, pool: Pool, fit: Fit, *, streams: StreamsByName) -> None:
    """Train on labeled and unlabeled rows, in place; the model ends averaged and in evaluation mode.

    A step: guess and sharpen targets for unlabeled rows (statistics of batch norm are updated by it), mix inputs and
    targets of both halves with one Beta(alpha, alpha) number per member, interleave the halves before two forward
    passes, cross-entropy on the labeled half plus a squared error on the other whose weight rises linearly, Adam,
    average, shrink the live parameters by ``1 - 0.02 * lr``.

    Args:
        model: ``(*trials, B, ...) -> (*trials, B, K)``; its parameters carry the leading axes.
        pool: labeled and unlabeled rows.
        fit: how long and how.
        streams: the random streams by name.
    """
    flat = FlatModel(model, fit.lr)
    average = MovingAverage([flat.values, *(b for b in model.buffers() if b.is_floating_point())], fit.ema_decay)
    model.train()
    step = 0
    for rows in mixed_rows(pool, fit, streams):
        for i, x in enumerate(rows.mixed):
            targets = mixed_targets(model, rows, i, fit.temperature)
            flat.descend(mixmatch_loss(model, x, targets, fit.unlabeled_weight * step / fit.steps))
            average.update()
            flat.shrink(1 - 0.02 * fit.lr)
            step += 1
    average.restore()
    model.eval()


@torch.no_grad()
def mixed_targets(model: nn.Module, rows: MixedRows, step: int, temperature: float) -> Tensor:
    """Guess targets for the unlabeled rows of a step and mix them as the rows are mixed.

    Args:
        model: guesses, in training mode.
        rows: drawn.
        step: which of them.
        temperature: of sharpening.

    Returns:
        ``(*trials, 2B, K)`` targets, labeled rows first.
    """
    guessed = sharpen(model(rows.guessed[step]).softmax(-1), temperature)
    own = torch.cat([rows.known[step], guessed], -2)
    return torch.lerp(gather_rows(own, rows.partners[step]), own, rows.shares[step])


def mixmatch_loss(model: nn.Module, x: Tensor, targets: Tensor, weight: float) -> Tensor:
    """Loss ``(*trials,)`` of a mixed batch: cross-entropy on the first half, weighted squared error on the other."""
    axis = targets.dim() - 2
    first, second = x.chunk(2, axis)
    first, second = interleave(first, second, axis)
    seen, unseen = interleave(model(first), model(second), axis)
    t_seen, t_unseen = targets.chunk(2, axis)
    squared = (unseen.softmax(-1) - t_unseen).square().mean((-1, -2))
    return soft_cross_entropy(seen, t_seen) + weight * squared
