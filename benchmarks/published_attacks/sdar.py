"""SDAR's label variant: a simulator and a head on few labeled rows, kept close to the real embeddings by a critic."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from benchmarks.published_attacks.held import PartyData, seeded
from tune_vfl.attacks.base import Attack, AttackCapabilities
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict

STEPS, BATCH, HIDDEN = 2000, 128, 64
CRITIC_LR, LR, WEIGHT, FLIPPED = 2e-5, 1e-3, 0.02, 0.2


class Sdar(Attack[Strict]):
    """Trains a copy of the bottom model with a label head, while a critic tells its embeddings from the real ones.

    In the paper the server of a U-shaped split infers the labels of a client whose first and last layers it lacks. A
    passive party lacks the last ones alone: its simulator starts as its own bottom model. Losses, learning rates, the
    weight .02 of the critic and the 20% of labels flipped in each step are the released configuration; the decoder
    reconstructs features, which this attacker has, and is left out. As in the paper ``sdar`` reads the label off the
    real embedding; ``simulated`` reads it off the simulator's, which this attacker can make, and ``no_critic`` does so
    after a training without the regularization.
    """

    name = "sdar"
    summary = "simulator and label head on few labels, under adversarial regularization"
    reference = "Zhu et al. 2025, Passive Inference Attacks on Split Learning via Adversarial Regularization"
    capabilities = AttackCapabilities(sees=frozenset({"visits", "features", "bottom", "auxiliary"}), stackable=False)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the head's class probabilities, a variant each."""
        held, x = PartyData.of(view), view.features.train
        scores = {}
        for name, weight in (("simulated", WEIGHT), ("no_critic", 0.0)):
            simulator = view.bottom()
            with seeded(view, name):
                head = trained(held, simulator, x[held.ids], weight)
            scores[name] = in_chunks(nn.Sequential(simulator, nn.Flatten(), head), x, 0).softmax(-1)
            if weight:
                scores["sdar"] = in_chunks(head, held.embedding, 0).softmax(-1)
        return {name: held.answer(of_rows) for name, of_rows in scores.items()}


def trained(held: PartyData, simulator: nn.Module, known: Tensor, weight: float) -> nn.Module:
    """Return the label head ``(B, d) -> (B, K)`` after the training.

    Args:
        held: real embeddings, and the labels of the known rows.
        simulator: the attacker's bottom model, which the training changes.
        known: ``(A, ...)`` features of the known rows.
        weight: of the critic in the simulator's loss.
    """
    width = held.embedding.shape[1]
    head = nn.Linear(width, held.classes)
    critic = nn.Sequential(nn.Linear(width, HIDDEN), nn.LeakyReLU(0.2), nn.Linear(HIDDEN, 1))
    for parameter in simulator.parameters():
        parameter.requires_grad_(True)
    ours = torch.optim.Adam([*simulator.parameters(), *head.parameters()], lr=LR)
    theirs = torch.optim.Adam(critic.parameters(), lr=CRITIC_LR)
    for _ in range(STEPS):
        flipped = torch.rand(len(known)) < FLIPPED
        labels = torch.where(flipped, torch.randint(held.classes, (len(known),)), held.labels)
        made, real = simulator(known).flatten(1), held.embedding[torch.randint(len(held.embedding), (BATCH,))]
        loss = cross_entropy(head(made), labels)
        if weight:
            loss = loss + weight * _said(critic(made), real=True)
        ours.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        ours.step()
        if weight:
            theirs.zero_grad()
            told = _said(critic(real), real=True) + _said(critic(made.detach()), real=False)
            told.backward()  # type: ignore[no-untyped-call]
            theirs.step()
    return head


def _said(logits: Tensor, *, real: bool) -> Tensor:
    return binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(real)))
