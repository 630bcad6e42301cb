"""The hooks H0-H10 of the training loop: the actions of defenses and acting attackers, in their order.

Trees call H0, H1 and H5, and two hooks of their own, and sums have two more. These stand last.

Every tensor has shape ``(*trials, B, d)``: ``*trials`` is empty for one trial and ``(T,)`` for a pack.
The order within a step is fixed by :mod:`tune_vfl.protocol.loop`; a hook that a class does not override costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from tune_vfl.models.optimizers import AnyOptimizer
from tune_vfl.protocol.members import Batch
from tune_vfl.protocol.partitions import Partitions


@dataclass(eq=False)
class Context:
    """The label party's knowledge of a step when its cut gradient is changed (H7).

    Attributes:
        embeddings: the embedding of each passive party, ``(*trials, B, d_k)``, detached.
        logits: ``(*trials, B, K)`` (or ``(*trials, B, 1)``), detached.
        targets: the targets of the loss.
        ids: ``(*trials, B)`` the rows' ids.
        epoch, step: both from 0; ``step`` counts over the whole training.
        per_class_gradient: ``label -> (*trials, B, d)``: this party's gradient of the mean cross-entropy, had every row
            had the class ``label``; or, linear in them, for weights ``(*trials, B, K)`` of the classes, of any sign.
        joined: ``(*trials, B, d)`` the sum or mean of the parties' embeddings, detached; None where they stand side by
            side or there is one party.
    """

    embeddings: Sequence[Tensor]
    logits: Tensor
    targets: Tensor
    ids: Tensor
    epoch: int
    step: int
    per_class_gradient: Callable[[int | Tensor], Tensor]
    joined: Tensor | None = None


class RowsById(Protocol):
    """Training rows of all parties by id; :class:`tune_vfl.protocol.members.Rows` implements it."""

    def take(self, ids: Tensor) -> list[Tensor]:
        """Return the features ``(*trials, B, ...)`` of rows ``(*trials, B)``: passive parties, then the label party."""


class Hooks:
    """Identity on every hook; a defense or an acting attacker overrides the ones it needs."""

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0, once before training.

        Args:
            y: ``(*trials, N)`` int64 true labels of the training rows.
            ids: ``(*trials, N)`` int64, distinct and not negative: the rows' ids, by which other hooks look up.
            active_features: ``(*trials, N, ...)`` the label party's own features, where it has any.
            seed: an int for one trial, a seed per member for a pack; every draw of the defense comes from it.
        """

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """H2, at the start of a step and before H1: the input of the bottom models in place of the rows.

        Args:
            batch: the rows of the step; ``y`` and ``ids`` stay what they are.
            rows: for other training rows.
            epoch: from 0.
        """
        return batch

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: the targets of the loss: ``(*trials, B)`` int64 classes or ``(*trials, B, K)`` soft labels."""
        return y

    def wrap_bottom(self, bottom: nn.Module) -> nn.Module:
        """H2: put layers into a passive party's bottom model (passports)."""
        return bottom

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """H3: the tensor that a passive party sends in place of its embedding ``(*trials, B, d)``."""
        return embedding

    def wrap_top(self, top: nn.Module) -> nn.Module:
        """H4: put layers into the top model."""
        return top

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the loss ``(*trials,)``, a mean over the batch; by default cross-entropy."""
        from tune_vfl.protocol.losses import task_loss

        return task_loss(logits, targets)

    def top_step(self) -> None:
        """H6: after the label party stepped its own models."""

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """H7: the tensor that the label party sends in place of the cut gradient.

        Args:
            grad: ``(*trials, B, d)`` gradient of the batch-mean loss with respect to this party's embedding.
            y: ``(*trials, B)`` true labels.
            context: what the label party knows of the step; None in a loop that does not offer it.
            party: the passive party it is for.
        """
        return grad

    def screen(self, gradients: list[Tensor]) -> list[Tensor]:
        """H7b: a last change of all gradients before the label party sends them."""
        return gradients

    def gradient_received(self, gradient: Tensor, *, party: int, ids: Tensor, epoch: int, step: int) -> None:
        """H8: observe the tensor that the passive party receives."""

    def local_optimizer(self, bottom: nn.Module, *, party: int) -> AnyOptimizer | None:
        """H9: the passive party's own optimizer for its bottom model; None for the recipe's."""
        return None

    def client_update(self, update: Tensor, *, taking: Tensor) -> Tensor:
        """In the horizontal setting, at the end of a client's round: the upload in place of the client's update.

        Args:
            update: ``(*trials, 1, n)`` how far its training moved each of the n parameters that it shares.
            taking: ``(*trials, 1, 1)`` bool; of clients that take no part nothing leaves, nor may anything be kept.
        """
        return update

    def decode(self, logits: Tensor) -> Tensor:
        """H10: class scores ``(*trials, B, K)``, larger is more likely; by default the probabilities."""
        from tune_vfl.protocol.losses import class_probabilities

        return class_probabilities(logits)

    def kept_at_home(self, shares: Tensor, *, round_: int) -> Tensor:
        """With trees, before a level is split: the nodes that the label party splits by itself.

        Of these and all below them no passive party is told the rows. It is asked once more for the leaves.

        Args:
            shares: ``(M, K)`` the shares of the classes (H1) among the training rows of each node of the level; 0 of
                all classes in a node without rows.
            round_: from 0; for more than two classes a round grows a tree a class.

        Returns:
            ``(M,)`` bool.
        """
        return torch.zeros(len(shares), dtype=torch.bool)

    def tellable(self, rows: Tensor, *, of_all: Tensor) -> Tensor:
        """With trees: the nodes that passive parties may be told, asked of all that a split could make.

        A passive party's column is split only so that both sides may be told; where the label party's column parts a
        node otherwise, both sides and all below them stay at the label party.

        Args:
            rows: ``(..., K)`` how many training rows of each class (H1) stand in a node.
            of_all: ``(K,)`` how many there are.

        Returns:
            ``(...)`` bool.
        """
        return torch.ones(rows.shape[:-1], dtype=torch.bool)

    def partitions_told(self, partitions: Partitions, *, party: int) -> None:
        """With trees, after the last one: observe the nodes whose rows a passive party knows."""

    def send_sums(self, sums: Tensor, *, party: int) -> Tensor:
        """With sums, at each step: what a passive party is told in the place of its columns' sums.

        Args:
            sums: ``(*trials, K, d)`` the batch's mean of a row's residual in each logit times the party's columns.
            party: the passive party it is for.
        """
        return sums

    def sums_told(self, sums: Tensor, weights: Tensor, *, party: int, ids: Tensor, epoch: int) -> None:
        """With sums: observe what a passive party is told.

        Args:
            sums: ``(*trials, K, d)``.
            weights: ``(*trials, K, d)`` the party's own, before they step by the sums.
            party: the passive party.
            ids: ``(*trials, B)`` the rows that were summed over.
            epoch: from 0.
        """
