"""The one split-training loop, with the hooks H0-H10 in their fixed order. It names no defense and no attack."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from tune_vfl.kernels.chain import Steps
from tune_vfl.models.base import VflNetwork
from tune_vfl.models.optimizers import Adam, AnyOptimizer, Sgd
from tune_vfl.protocol.hooks import Context, Hooks
from tune_vfl.protocol.known import take_back, taken_back
from tune_vfl.protocol.losses import loss_gradient, task_gradient
from tune_vfl.protocol.members import Batch, Rows
from tune_vfl.spec import Training

TOLERATED_BAD_STEPS = 0.01
"""Share of steps whose sent gradient may hold non-finite entries (sent as 0) before a member counts as diverged."""


def overriding(hooks: Sequence[Hooks], name: str) -> list[Callable[..., Any]]:
    """Return, in order, the bound methods of the hooks that override ``name``."""
    return [getattr(h, name) for h in hooks if getattr(type(h), name) is not getattr(Hooks, name)]


def optimizer(parameters: Sequence[nn.Parameter], training: Training) -> AnyOptimizer:
    """Return the recipe's optimizer, fused: element-wise, hence the same alone or in a pack."""
    if training.optimizer == "adam":
        return Adam(parameters, lr=training.lr, weight_decay=training.weight_decay, fused=True)
    return Sgd(parameters, lr=training.lr, momentum=training.momentum, weight_decay=training.weight_decay, fused=True)


def torchs_optimizer(parameters: Sequence[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    """Return the same as an optimizer of torch's, for loops of a user's own and torch's schedules."""
    options: dict[str, Any] = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": True}
    if training.optimizer == "adam":
        return torch.optim.Adam(parameters, **options)
    return torch.optim.SGD(parameters, momentum=training.momentum, **options)


def learning_rate(training: Training, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0."""
    if training.lr_schedule == "inverse_sqrt":
        return training.lr / math.sqrt(epoch + 1)
    if training.lr_schedule == "multistep":
        return training.lr * training.lr_decay ** sum(epoch >= m for m in training.milestones)
    return training.lr


class SplitTraining:
    """Trains one network, or a pack of them in one pass.

    Args:
        network: freshly built; hooks may already have wrapped its models.
        rows: the training rows.
        training: the recipe.
        hooks: defenses and acting attackers, in order; each sees what the ones before it made.
        lead: the leading axes ``*trials``.

    Attributes:
        diverged: ``(*trials,)`` bool, once it has run: parameters or more than 1% of the sent gradients became
            non-finite.
        epochs: number of finished epochs; fewer than the recipe's only if every member diverged.
    """

    diverged: Tensor
    epochs: int = 0

    def __init__(
        self, network: VflNetwork, rows: Rows, training: Training, hooks: Sequence[Hooks], lead: tuple[int, ...]
    ) -> None:
        self.network, self.rows, self.training, self.hooks, self.lead = network, rows, training, list(hooks), lead
        self._inputs = overriding(hooks, "inputs")
        self._labels = overriding(hooks, "labels")
        self._send = overriding(hooks, "send_embedding")
        self._losses = overriding(hooks, "loss")
        self._top_step = overriding(hooks, "top_step")
        self._cut = overriding(hooks, "cut_gradient")
        self._screen = overriding(hooks, "screen")
        self._received = overriding(hooks, "gradient_received")
        # Where nothing may change a gradient on its way, one backward pass through both sides is the same and cheaper.
        self._cuts_graph = bool(self._cut or self._screen)
        self._optimizers = self._make_optimizers(hooks)
        self._bad_steps = torch.zeros(lead, device=next(network.parameters()).device)
        self._step = 0

    def _make_optimizers(self, hooks: Sequence[Hooks]) -> list[AnyOptimizer]:
        network = self.network
        own: list[AnyOptimizer] = []
        taken: set[int] = set()
        for propose in overriding(hooks, "local_optimizer"):
            for party, bottom in enumerate(network.bottoms):
                proposed = propose(bottom, party=party)
                if proposed is not None:
                    own.append(proposed)
                    taken.update(id(p) for p in bottom.parameters())
        self._bottoms = [self._stepping(bottom, taken) for bottom in network.bottoms]
        self._own = None if network.own_bottom is None else self._stepping(network.own_bottom, taken)
        self._top = None if network.top is None else self._stepping(network.top, taken)
        chains = [c for part in (*self._bottoms, self._own, self._top) if isinstance(part, Steps) for c in part.chains]
        taken.update(id(p) for chain in chains for p in chain.replaced)
        common = [*(c.line for c in chains), *(p for p in network.parameters() if id(p) not in taken)]
        return [optimizer(common, self.training), *own]

    def _stepping(self, model: nn.Module, taken: set[int]) -> nn.Module | Steps:
        """Return the network to run in a step; a custom optimizer reads parameters one by one."""
        apart = not self.lead or any(id(p) in taken for p in model.parameters())
        return model if apart else Steps(model)

    def run(self) -> Self:
        """Train for all epochs, or until every member has diverged; return this training."""
        for _ in self.steps():
            pass
        return self

    def steps(self, *, deadline: float | None = None) -> Iterator[None]:
        """Run as :meth:`run`, yielding after every step: the caller may read the clock or stop.

        Raises:
            TimeoutError: when ``time.monotonic()`` passes ``deadline``, looked at once an epoch.
        """
        self.network.train()
        for epoch in range(self.training.epochs):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"training stopped after {epoch} of {self.training.epochs} epochs: out of time")
            yield from self.epoch_steps(epoch)
            self.epochs = epoch + 1
            if bool(self._not_finite().all()):
                break
        self.settle()

    def epoch_steps(self, epoch: int, most: int | None = None) -> Iterator[None]:
        """Train one epoch, counted from 0, or the first ``most`` batches of it, step by step."""
        for group in self._optimizers[0].param_groups:
            group["lr"] = learning_rate(self.training, epoch)
        for batch in itertools.islice(self.rows.batches(self.training.batch_size), most):
            self._train_batch(batch, epoch)
            self._step += 1
            yield

    def settle(self) -> None:
        """End the training: mark diverged members, and switch the network to evaluation."""
        self.network.eval()
        too_many = self._bad_steps > TOLERATED_BAD_STEPS * self._step
        self.diverged = self._not_finite() | too_many

    def forget_momenta(self) -> None:
        """Reset all optimizers, as for a client that received new parameters."""
        for own in self._optimizers:
            own.state.clear()

    def _not_finite(self) -> Tensor:
        """Return ``(*trials,)``: whether any parameter is non-finite. A NaN loss always ends up in the parameters."""
        with torch.no_grad():
            sums = [p.flatten(len(self.lead)).sum(-1) for p in self.network.parameters()]
            return ~torch.isfinite(torch.stack(sums)).all(0)

    def _train_batch(self, batch: Batch, epoch: int) -> None:
        network = self.network
        for inputs in self._inputs:  # H2
            batch = inputs(batch, self.rows, epoch=epoch)
        targets = batch.y
        for labels in self._labels:  # H1
            targets = labels(targets, batch.ids)
        sent = []
        for party, bottom in enumerate(self._bottoms):
            embedding = bottom(rows_for(bottom, batch, party))  # H2
            for send in self._send:  # H3
                embedding = send(embedding, party=party)
            sent.append(embedding)
        own = None if self._own is None else self._own(rows_for(self._own, batch, len(sent)))
        outgoing = sent if own is None or not self.training.protect_own_bottom else [*sent, own]
        arrived = [self._arrive(e) for e in outgoing]
        untouched = [own] if own is not None and len(outgoing) == len(sent) else []
        joined = network.join([*arrived, *untouched])
        logits = joined if self._top is None else self._top(joined)  # H4
        self._go_back(logits, targets, arrived[: len(sent)])  # H5
        released = self._release(arrived, batch, logits, targets, epoch=epoch, joined=joined)
        for party in range(len(sent)):
            for receive in self._received:  # H8
                receive(released[party], party=party, ids=batch.ids, epoch=epoch, step=self._step)
        if self._cuts_graph:
            take_back(outgoing, released)  # H9
        self.tell(batch, epoch)
        for opt in self._optimizers:
            opt.step()
            opt.zero_grad()
        for after in self._top_step:  # H6
            after()

    def tell(self, batch: Batch, epoch: int) -> None:
        """Before the models step: what else leaves the label party than gradients of embeddings; here nothing."""

    def _go_back(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> None:
        """Backpropagate the loss to the embeddings; the gradient of plain cross-entropy has a closed form."""
        again = bool(self._cut)  # a defense may ask for gradients per class (H7): this pass's graph once more
        if not self._losses:
            take_back([logits], [task_gradient(logits.detach(), targets)], retain_graph=again)
        else:
            loss = self._losses[-1](logits, targets, embeddings).sum()
            loss.backward(retain_graph=again)

    def _arrive(self, embedding: Tensor) -> Tensor:
        """Return the label party's input; its ``grad`` is the cut gradient after the backward pass."""
        if self._cuts_graph:
            return embedding.detach().requires_grad_()
        if self._received:
            embedding.retain_grad()
        return embedding

    def _release(
        self,
        arrived: Sequence[Tensor],
        batch: Batch,
        logits: Tensor,
        targets: Tensor,
        *,
        epoch: int,
        joined: Tensor,
    ) -> list[Tensor]:
        """Return the gradients that the label party sends: each through H7, then all of them through H7b."""
        if not self._cuts_graph:
            return [e.grad for e in arrived if e.grad is not None] if self._received else []
        grads = [e.grad for e in arrived if e.grad is not None]
        scale = batch.y.shape[-1] if self.training.grad_scale == "per_sample" else 1
        embeddings = [e.detach() for e in arrived]
        total = self.network.total(joined, len(arrived))
        for party, grad in enumerate(grads):
            context = Context(
                embeddings=embeddings,
                logits=logits.detach(),
                targets=targets,
                ids=batch.ids,
                epoch=epoch,
                step=self._step,
                per_class_gradient=class_gradient(logits, arrived[party], scale),
                joined=total,
            )
            changed = grad * scale if scale != 1 else grad
            for cut in self._cut:  # H7
                changed = cut(changed, y=batch.y, context=context, party=party)
            grads[party] = changed / scale if scale != 1 else changed
        for screen in self._screen:  # H7b
            grads = screen(grads)
        return self._finite(grads)

    def _finite(self, grads: list[Tensor]) -> list[Tensor]:
        """Replace non-finite entries by 0, and count the steps of each member that had any."""
        # A finite sum has finite terms, so one number tells that all is well. On a GPU reading that number would stall
        # every step until the device has caught up, so there the entries are always put right.
        if self._bad_steps.device.type == "cpu" and all(math.isfinite(float(g.sum())) for g in grads):
            return grads
        bad = torch.zeros(self.lead, dtype=torch.bool, device=self._bad_steps.device)
        for grad in grads:
            bad |= ~torch.isfinite(grad.sum((-2, -1)))
        self._bad_steps += bad
        return [torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0) for g in grads]


def rows_for(bottom: nn.Module | Steps, batch: Batch, place: int) -> Tensor:
    """Return the input of a bottom model: rows by seed if the members of a seed can share them, else by member."""
    shares = isinstance(bottom, Steps) and bottom.shares_rows
    return (batch.by_seed if shares else batch.features)[place]


def class_gradient(logits: Tensor, embedding: Tensor, scale: int) -> Callable[[int | Tensor], Tensor]:
    """Return ``label -> scale * gradient of the mean cross-entropy for the embedding`` if all rows had that label.

    One pass back through the top model's kept graph serves any weights of the classes: the gradient is linear in them.

    Args:
        logits: of the step, with their graph.
        embedding: what the gradient is taken for, ``(*trials, B, d)``.
        scale: factor of the gradient.
    """

    def gradient(label: int | Tensor) -> Tensor:
        wanted = loss_gradient(logits.detach(), label) * scale
        return taken_back([logits], [wanted], [embedding], retain_graph=True)[0]

    return gradient
