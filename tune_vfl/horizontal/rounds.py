"""The one loop of rounds: broadcast, local training, uploads, averaging. It names no defense and no attack."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor

from tune_vfl.horizontal.cohort import Cohort
from tune_vfl.horizontal.server import Observer, Server
from tune_vfl.seeds import Stream
from tune_vfl.spec import Federation


class Rounds:
    """Trains a federation of clients, for all members of a pack.

    Args:
        cohorts: all clients, in order: in one cohort, or each in one of its own.
        federation: clients, rounds and the rest; ``rounds`` is given.
        counts: ``(members, clients)`` how many rows each client holds.
        seeds: the member's seed, or each member's; it draws the participants of a round, and in which order clients
            train that train in turn.
        in_turn: clients train the shared part one after the other; only what is hidden is averaged (SplitFed V2). All
            members have one seed then, because a seed has an order of its own.
        observers: called with everything that reaches the server.

    Raises:
        ValueError: for clients in turn with several seeds.

    Attributes:
        diverged: ``(members,)`` bool, once it has run: a client's parameters became non-finite.
        rounds: that were run; fewer than asked for only when every member diverged.
    """

    diverged: Tensor
    rounds: int = 0

    def __init__(
        self,
        cohorts: Sequence[Cohort],
        federation: Federation,
        counts: Tensor,
        seeds: int | list[int],
        *,
        in_turn: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.cohorts, self._federation, self._counts, self._in_turn = list(cohorts), federation, counts, in_turn
        if in_turn and not isinstance(seeds, int) and len(set(seeds)) > 1:
            raise ValueError("clients that train in turn have another order with each seed: train one seed at a time")
        first = self.cohorts[0]
        self.server = Server(first.shared()[:, 0], secure=federation.secure, observers=observers)
        self._statistics, self._hidden = first.statistics()[:, 0], first.hidden()[:, 0]
        self._takers, self._turns = Stream(seeds, "participation"), Stream(seeds, "turns")

    def run(self) -> Self:
        """Train for all rounds, or until every member has diverged; return this training, over."""
        for _ in self.steps():
            pass
        return self

    def steps(self, *, deadline: float | None = None) -> Iterator[int]:
        """Run as :meth:`run`; yield the number of finished rounds when every client has what was averaged.

        Raises:
            TimeoutError: when ``time.monotonic()`` passes ``deadline``, looked at before a cohort's training.
        """
        for number in range(self._federation.rounds or 1):
            taking = self._taking()
            for cohort in self._order():
                if deadline is not None and time.monotonic() > deadline:
                    asked = self._federation.rounds
                    raise TimeoutError(f"training stopped after {number} of {asked} rounds: out of time")
                self._train(cohort, number, taking)
            self._average(number, taking)
            for cohort in self.cohorts:
                cohort.take(self.server.shared, self._statistics, self._hidden)
            self.rounds = number + 1
            yield self.rounds
            if not bool(torch.isfinite(self.server.shared).all(-1).any()):
                break
        self.settle()

    def apart(self) -> Iterator[None]:
        """Train every client without a server, step by step, as often as a client of the federation trains.

        A client makes as many passes over its rows, or single steps, as in the federation: where each round has a share
        of the clients, it trains in that share of the rounds, at the learning rates of these.
        """
        federation = self._federation
        for cohort in self.cohorts:
            cohort.network.train()
            for number in federation.rounds_of_a_client(federation.rounds or 1):
                for epoch in range(federation.passes(number), federation.passes(number + 1)):
                    yield from cohort.loop.epoch_steps(epoch, federation.local_steps)
        self.settle()

    def _taking(self) -> Tensor:
        """Draw the participants of a round: ``(members, clients)`` bool."""
        clients = self._federation.clients
        rank = self._takers.permutation(clients).reshape(-1, clients)
        return rank < self._federation.participants

    def _order(self) -> list[Cohort]:
        """Return the cohorts in their training order of a round: shuffled each round if clients train in turn."""
        if not self._in_turn:
            return self.cohorts
        order = self._turns.permutation(len(self.cohorts)).reshape(-1, len(self.cohorts))[0]
        return [self.cohorts[k] for k in order.tolist()]

    def _train(self, cohort: Cohort, number: int, taking: Tensor) -> None:
        """Train a cohort for a round and upload its updates."""
        federation, of = self._federation, taking[:, cohort.clients]
        epochs, steps = (1, federation.local_steps) if federation.local_steps else (federation.local_epochs, None)
        if self._in_turn:
            # The one before it in the round has moved what is shared since it was handed out.
            cohort.take(self.server.shared, cohort.statistics()[:, 0], cohort.hidden()[:, 0])
        for _ in cohort.train(number * epochs, epochs, steps, of):
            pass
        uploads = cohort.uploads(self.server.shared, of)
        weights = self._counts[:, cohort.clients] * of
        for place, client in enumerate(cohort.clients):
            self.server.receive(number, client, uploads[:, place], weights=weights[:, place])
        if self._in_turn:
            self.server.close(number)

    def _average(self, number: int, taking: Tensor) -> None:
        if not self._in_turn:
            self.server.close(number)
        weights = self._counts * taking
        share = (weights / weights.sum(-1, keepdim=True)).unsqueeze(-1)
        statistics = torch.cat([c.statistics() for c in self.cohorts], 1)
        hidden = torch.cat([c.hidden() for c in self.cohorts], 1)
        self._statistics, self._hidden = (_mean(values, share) for values in (statistics, hidden))

    def settle(self) -> None:
        """End the training: mark members of which a client has diverged."""
        lost = ~torch.isfinite(self.server.shared).all(-1)
        for cohort in self.cohorts:
            cohort.loop.settle()
            lost |= cohort.loop.diverged.reshape(cohort.members, -1).any(-1)
        self.diverged = lost


def _mean(values: Tensor, share: Tensor) -> Tensor:
    """Return the mean ``(members, n)`` of ``(members, clients, n)`` by shares ``(members, clients, 1)``."""
    return torch.where(share > 0, values, 0.0).mul(share.to(values)).sum(1)
