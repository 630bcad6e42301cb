"""Training a completed model on few labels: plain cross-entropy, or the reduced MixMatch of Fu et al. (2022).

Everything runs for all members of a pack at once: inputs are ``(*trials, N, ...)``, members never mix, and the gradient
of the summed losses is each member's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.special import betaincinv
from torch import Tensor, nn

from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.members import gather_rows
from tune_vfl.seeds import Stream

StreamsByName = Callable[[str], Stream]
_BLOCK = 256


@dataclass(frozen=True)
class Fit:
    """How long and how a model is trained; the constants of Fu et al.'s MixMatch where it is one."""

    steps: int
    lr: float
    batch_size: int
    ema_decay: float = 0.99
    temperature: float = 0.8
    alpha: float = 0.75
    unlabeled_weight: float = 50.0


class Cycle:
    """Endless batches of positions ``0..n-1``: a new random order whenever fewer than a batch are left."""

    def __init__(self, n: int, batch: int, stream: Stream) -> None:
        self._n, self._batch, self._stream = n, batch, stream
        self._at, self._order = n, torch.empty(0)

    def next(self) -> Tensor:
        """Return the next ``(*trials, batch)`` positions."""
        if self._at + self._batch > self._n:
            self._order, self._at = self._stream.permutation(self._n), 0
        self._at += self._batch
        return self._order[..., self._at - self._batch : self._at]


class AveragedModel:
    """Exponential moving average of a model's parameters and running statistics."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._live = [t for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()]
        self._kept = [t.detach().clone() for t in self._live]
        self._weight = 1 - decay

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the live values."""
        torch._foreach_lerp_(self._kept, [t.detach() for t in self._live], self._weight)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the averages into the model."""
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


def _optimizer(model: nn.Module, lr: float) -> tuple[Adam, list[Tensor]]:
    parameters: list[Tensor] = [p.requires_grad_(True) for p in model.parameters()]
    return Adam(parameters, lr=lr, fused=True), parameters


def supervised(model: nn.Module, x: Tensor, targets: Tensor, fit: Fit, *, streams: StreamsByName) -> None:
    """Train on labeled rows alone, in place; the model ends in evaluation mode.

    Args:
        model: ``(*trials, B, ...) -> (*trials, B, K)``; its parameters carry the leading axes.
        x: ``(*trials, A, ...)`` inputs.
        targets: ``(*trials, A, K)`` one-hot labels.
        fit: its ``ema_decay`` and what follows are not used.
        streams: the random streams by name.
    """
    optimizer, _ = _optimizer(model, fit.lr)
    batches = Cycle(targets.shape[-2], fit.batch_size, streams("order"))
    model.train()
    for _ in range(fit.steps):
        at = batches.next()
        optimizer.zero_grad()
        soft_cross_entropy(model(gather_rows(x, at)), gather_rows(targets, at)).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval()


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows to learn from.

    Attributes:
        x: ``(*trials, N, ...)`` inputs of all rows.
        at: ``(*trials, A)`` positions of the labeled rows.
        targets: ``(*trials, A, K)`` their one-hot labels.
        rest: ``(*trials, U)`` positions of the unlabeled rows.
    """

    x: Tensor
    at: Tensor
    targets: Tensor
    rest: Tensor


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
    optimizer, parameters = _optimizer(model, fit.lr)
    average = AveragedModel(model, fit.ema_decay)
    # The names of streams decide what is drawn from them: in another spelling every measured number would move.
    labeled = Cycle(pool.at.shape[-1], fit.batch_size, streams("labelled"))
    unlabeled = Cycle(pool.rest.shape[-1], fit.batch_size, streams("unlabelled"))
    mixes = _Mixes(fit, streams("mix"), streams("pairs"))
    model.train()
    for step in range(fit.steps):
        chosen = labeled.next()
        others = gather_rows(pool.rest, unlabeled.next())
        pair = gather_rows(pool.x, gather_rows(pool.at, chosen)), gather_rows(pool.x, others)
        batch = mixed_batch(model, pair, gather_rows(pool.targets, chosen), mixes.next(), fit.temperature)
        loss = mixmatch_loss(model, *batch, fit.unlabeled_weight * step / fit.steps)
        optimizer.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        average.update()
        with torch.no_grad():
            torch._foreach_mul_(parameters, 1 - 0.02 * fit.lr)
    average.restore()
    model.eval()


class _Mixes:
    """Draws for mixing: a share per step and member, at least one half, and whom each of the 2B rows is mixed with."""

    def __init__(self, fit: Fit, shares: Stream, pairs: Stream) -> None:
        self._fit, self._shares, self._pairs, self._at = fit, shares, pairs, _BLOCK

    def next(self) -> tuple[Tensor, Tensor]:
        """Return ``(*trials,)`` shares and ``(*trials, 2B)`` positions."""
        if self._at == _BLOCK:
            uniform = self._shares.uniform(_BLOCK)
            beta = torch.from_numpy(betaincinv(self._fit.alpha, self._fit.alpha, uniform.double().cpu().numpy()))
            self._share = torch.maximum(beta, 1 - beta).to(uniform)
            self._order = self._pairs.uniform(_BLOCK, 2 * self._fit.batch_size).argsort(-1)
            self._at = 0
        self._at += 1
        return self._share[..., self._at - 1], self._order[..., self._at - 1, :]


@torch.no_grad()
def mixed_batch(
    model: nn.Module, pair: tuple[Tensor, Tensor], known: Tensor, mix: tuple[Tensor, Tensor], temperature: float
) -> tuple[Tensor, Tensor]:
    """Guess targets for unlabeled rows and mix both halves.

    Args:
        model: guesses, in training mode.
        pair: ``(*trials, B, ...)`` labeled and as many unlabeled inputs.
        known: ``(*trials, B, K)`` the labeled rows' targets.
        mix: ``(*trials,)`` share of each row itself, and ``(*trials, 2B)`` whom it is mixed with.
        temperature: of sharpening.

    Returns:
        ``(*trials, 2B, ...)`` inputs and ``(*trials, 2B, K)`` targets, labeled rows first.
    """
    guessed = sharpen(model(pair[1]).softmax(-1), temperature)
    return _mixed(torch.cat(pair, known.dim() - 2), *mix), _mixed(torch.cat([known, guessed], -2), *mix)


def mixmatch_loss(model: nn.Module, x: Tensor, targets: Tensor, weight: float) -> Tensor:
    """Loss ``(*trials,)`` of a mixed batch: cross-entropy on the first half, weighted squared error on the other."""
    axis = targets.dim() - 2
    first, second = x.chunk(2, axis)
    first, second = interleave(first, second, axis)
    seen, unseen = interleave(model(first), model(second), axis)
    t_seen, t_unseen = targets.chunk(2, axis)
    squared = (unseen.softmax(-1) - t_unseen).square().mean((-1, -2))
    return soft_cross_entropy(seen, t_seen) + weight * squared


def _mixed(rows: Tensor, share: Tensor, order: Tensor) -> Tensor:
    own = share.to(rows.dtype).view(*share.shape, *[1] * (rows.dim() - share.dim()))
    return torch.lerp(gather_rows(rows, order), rows, own)
