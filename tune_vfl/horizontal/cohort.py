"""Clients trained in one pass: all of them if they stack, else one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tune_vfl.horizontal.vector import Vector
from tune_vfl.models.base import VflNetwork
from tune_vfl.protocol.hooks import Hooks, RowsById
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Batch, Rows
from tune_vfl.spec import Training

BottomOf = Literal["shared", "hidden", "kept"]
"""Handling of a client's bottom model, see :class:`tune_vfl.defenses.base.DefenseCapabilities`."""


class ClientSide(Hooks):
    """A defense's hooks during a client's local training; nothing leaves a client before the end of its round."""

    def __init__(self, defense: Hooks) -> None:
        self._defense = defense

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """H2: as the defense does."""
        return self._defense.inputs(batch, rows, epoch=epoch)

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: as the defense does."""
        return self._defense.labels(y, ids)

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """H3: as the defense does."""
        return self._defense.send_embedding(embedding, party=party)


class Cohort:
    """Clients and their networks, stacked.

    Args:
        clients: which; every member of the pack has each of them.
        network: of all of them: member by member, and client by client within a member, along the leading axis.
        rows: their training rows, in the same order.
        training: the recipe; what it calls an epoch is one pass over a client's rows.
        defense: theirs.
        bottom: what becomes of the bottom models.
        lead: the leading axes, none where this is one client of one trial.
    """

    def __init__(
        self,
        clients: Sequence[int],
        network: VflNetwork,
        rows: Rows,
        training: Training,
        *,
        defense: Hooks,
        bottom: BottomOf,
        lead: tuple[int, ...],
    ) -> None:
        self.clients, self.network, self.rows, self.defense, self.lead = list(clients), network, rows, defense, lead
        self.loop = SplitTraining(network, rows, training, [ClientSide(defense)], lead)
        top: list[nn.Module] = [] if network.top is None else [network.top]
        bottoms = list(network.bottoms)
        shared = [*bottoms, *top] if bottom == "shared" else top
        self._shared = Vector.of_parameters(shared, lead)
        self._statistics = Vector.of_statistics(shared, lead)
        hidden = bottoms if bottom == "hidden" else []
        self._hidden = Vector([*_numbers(hidden)], lead)
        self._everything = Vector([*_numbers([network])], lead)

    @property
    def members(self) -> int:
        """Number of members of the pack, each with all of these clients."""
        return self._shared.members // len(self.clients)

    def shared(self) -> Tensor:
        """Return the current parameters that the server averages: ``(members, clients, n)``."""
        return self._by_client(self._shared.read())

    def statistics(self) -> Tensor:
        """Return the running statistics that are shared: ``(members, clients, n)``."""
        return self._by_client(self._statistics.read())

    def hidden(self) -> Tensor:
        """Return the parameters averaged out of the server's sight: ``(members, clients, n)``."""
        return self._by_client(self._hidden.read())

    def take(self, shared: Tensor, statistics: Tensor, hidden: Tensor) -> None:
        """Load averaged parameters, ``(members, n)`` each, into every client's network."""
        for vector, values in ((self._shared, shared), (self._statistics, statistics), (self._hidden, hidden)):
            vector.write(values.repeat_interleave(len(self.clients), 0))

    def train(self, first_epoch: int, epochs: int, steps: int | None, taking: Tensor) -> Iterator[None]:
        """Train a round's participants, each on its own rows, step by step.

        Args:
            first_epoch: how many passes over its rows a client had made before.
            epochs: passes in this round.
            steps: batches in this round instead of whole passes.
            taking: ``(members, clients)`` bool; clients that do not take part stay unchanged.
        """
        if not bool(taking.any()):
            self.rows.pass_over(epochs)  # the orders of later rounds are those that it has beside others
            return
        before = None if bool(taking.all()) else self._everything.read()
        self.network.train()
        self.loop.forget_momenta()
        for epoch in range(first_epoch, first_epoch + epochs):
            yield from self.loop.epoch_steps(epoch, steps)
        if before is not None:
            stays = ~taking.reshape(-1, 1)
            self._everything.write(torch.where(stays, before, self._everything.read()))

    def uploads(self, sent: Tensor, taking: Tensor) -> Tensor:
        """Return the clients' uploads, ``(members, clients, n)``: their updates of the ``sent`` parameters.

        Args:
            sent: ``(members, n)``.
            taking: ``(members, clients)`` bool; 0 for clients that do not take part.
        """
        moved = self.shared() - sent.unsqueeze(1)
        flat = moved.reshape(-1, 1, moved.shape[-1]) if self.lead else moved.reshape(1, -1)
        part = taking.reshape(-1, 1, 1) if self.lead else taking.reshape(1, 1)
        return torch.where(part, self.defense.client_update(flat, taking=part), 0.0).reshape(moved.shape)

    def _by_client(self, values: Tensor) -> Tensor:
        clients = len(self.clients)
        return values.view(len(values) // clients, clients, values.shape[-1])


def _numbers(modules: Sequence[nn.Module]) -> Iterator[Tensor]:
    for module in modules:
        yield from module.parameters()
        yield from (b for b in module.buffers() if b.is_floating_point() and b.numel())
