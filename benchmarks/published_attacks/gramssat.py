"""GRAMSSAT: a surrogate top model that matches received gradients and learns from known and unknown rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from benchmarks.published_attacks.held import PartyData, seeded
from tune_vfl.attacks.base import Attack, AttackCapabilities
from tune_vfl.attacks.parts.mixmatch import sharpen, soft_cross_entropy
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict

BATCH, EPOCHS, LAYERS = 32, 10, 4
TEMPERATURE, MIXED, UNLABELED = 0.8, 0.75, 50.0


@dataclass(frozen=True)
class SurrogateTraining:
    """Training of a surrogate model.

    Attributes:
        relative: the gradient term is divided by the received gradients' mean square, so that it is of order 1.
        lr: learning rate; of SGD as released, of Adam where ``relative``.
        passes: over the recorded epochs.
    """

    relative: bool
    lr: float
    passes: int


RECIPES = {
    "released": SurrogateTraining(relative=False, lr=1e-3, passes=1),
    "relative": SurrogateTraining(relative=True, lr=2e-3, passes=3),
}


class Gramssat(Attack[Strict]):
    """Trains a surrogate of the top model on embeddings: its gradients match the received ones, MixMatch does the rest.

    Loss of a batch of 32: squared distance between the received gradients and those of the surrogate's cross-entropy
    against pseudo-labels (of the nearest known embedding at that epoch), plus MixMatch on known and unknown embeddings
    (temperature .8, weight 50). Four layers of batch norm and a linear map, over the last ten epochs. ``released`` is
    the released code's recipe, SGD at 1e-3; ``relative`` weighs the gradient term by the gradients' own size and uses
    Adam, three passes long. Batches are drawn anew, and MixMatch reads the trained model's embeddings.
    """

    name = "gramssat"
    summary = "a surrogate top model by gradient matching and MixMatch"
    reference = "Zhang et al. 2025, GRAMSSAT: An Efficient Label Inference Attack Against Two-Party Split Learning"
    capabilities = AttackCapabilities(sees=frozenset({"visits", "features", "bottom", "auxiliary"}), stackable=False)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the surrogate's class probabilities for the final embeddings, a variant a recipe."""
        held = PartyData.of(view)
        found = {}
        for name, recipe in RECIPES.items():
            with seeded(view, name):
                model = trained(held, recipe)
            found[name] = held.answer(model(held.embedding).softmax(-1).detach())
        return found


def surrogate(width: int, classes: int) -> nn.Sequential:
    """Return batch norm and a linear map, layer by layer."""
    sizes = [width] * LAYERS + [classes]
    return nn.Sequential(*(part for a, b in pairwise(sizes) for part in (nn.BatchNorm1d(a), nn.Linear(a, b))))


def trained(held: PartyData, recipe: SurrogateTraining) -> nn.Sequential:
    """Return the trained surrogate in evaluation mode."""
    model = surrogate(held.embedding.shape[1], held.classes)
    parameters = list(model.parameters())
    optimizer: torch.optim.Optimizer = torch.optim.SGD(parameters, lr=recipe.lr, momentum=0.9, weight_decay=5e-4)
    if recipe.relative:
        optimizer = torch.optim.Adam(parameters, lr=recipe.lr)
    size = held.received.square().mean().clamp_min(1e-30) if recipe.relative else torch.tensor(float(BATCH**2))
    for sent, received, unknown in batches(held, recipe.passes):
        loss = gradient_distance(model, sent, received, held) / size + mixmatch_loss(model, unknown, held)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def batches(held: PartyData, passes: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield batches: an epoch's embeddings and then those of the known rows, gradients, final embeddings."""
    rows = len(held.embedding)
    for _ in range(passes):
        for sent, received in zip(held.sent[-EPOCHS:], held.received[-EPOCHS:], strict=True):
            for at in torch.randperm(rows)[: rows // BATCH * BATCH].view(-1, BATCH):
                yield torch.cat([sent[at], sent[held.ids]]), received[at], held.embedding[at]


def gradient_distance(model: nn.Module, sent: Tensor, received: Tensor, held: PartyData) -> Tensor:
    """Return the squared distance of the surrogate's gradients to the received ones, of rows' own losses.

    Args:
        model: the surrogate.
        sent: ``(B + A, d)`` embeddings of the batch and of the known rows at that epoch.
        received: ``(B, d)``.
        held: for the known labels.
    """
    mine, known = sent[: len(received)].clone().requires_grad_(True), sent[len(received) :]
    pseudo = held.labels[torch.cdist(mine.detach(), known).argmin(1)]
    loss = cross_entropy(model(mine), pseudo, reduction="sum")
    gradient: Tensor = torch.autograd.grad(loss, mine, create_graph=True)[0]
    return (gradient - received).square().sum()


def mixmatch_loss(model: nn.Module, unknown: Tensor, held: PartyData) -> Tensor:
    """Return MixMatch's loss on known rows and on a batch of final embeddings ``(B, d)``."""
    at = torch.randint(len(held.ids), (BATCH,))
    with torch.no_grad():
        guessed = sharpen(model(unknown).softmax(-1), TEMPERATURE)
    targets = torch.cat([one_hot(held.labels[at], held.classes).float(), guessed])
    inputs = torch.cat([held.embedding[held.ids[at]], unknown])
    share = torch.distributions.Beta(MIXED, MIXED).sample()
    share, order = torch.maximum(share, 1 - share), torch.randperm(len(inputs))
    logits = model(share * inputs + (1 - share) * inputs[order])
    mixed = share * targets + (1 - share) * targets[order]
    squared = (logits[BATCH:].softmax(-1) - mixed[BATCH:]).square().mean()
    loss: Tensor = soft_cross_entropy(logits[:BATCH], mixed[:BATCH]) + UNLABELED * squared
    return loss
