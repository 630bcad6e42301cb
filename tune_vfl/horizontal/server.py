"""The server: broadcasts the shared parameters, and moves them by the mean of the received updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ReceivedUpdate:
    """Something that reached the server in a round.

    Attributes:
        round: from 0.
        client: whose it is; None for a sum over all clients that took part.
        update: ``(members, n)`` how far the shared parameters moved; of a sum, its weighted mean.
        sent: ``(members, n)`` the shared parameters that the round began with.
        taking: ``(members,)`` bool: with which members the client took part.
    """

    round: int
    client: int | None
    update: Tensor
    sent: Tensor
    taking: Tensor


class Observer:
    """A passive observer of the server's traffic."""

    def received(self, what: ReceivedUpdate) -> None:
        """Look at something that reached the server."""


class Server:
    """Averages clients' uploads, weighted by their numbers of rows.

    Args:
        start: ``(members, n)`` the shared parameters before the first round.
        secure: it receives sums over clients only.
        observers: called with everything that the server receives.

    Attributes:
        shared: ``(members, n)`` the parameters that it sends.
    """

    def __init__(self, start: Tensor, *, secure: bool = False, observers: Sequence[Observer] = ()) -> None:
        self.shared, self._secure, self._observers = start, secure, list(observers)
        self._begin()

    def _begin(self) -> None:
        self._sum = torch.zeros_like(self.shared)
        self._weight = torch.zeros(len(self.shared), 1, device=self.shared.device)

    def receive(self, round: int, client: int, update: Tensor, *, weights: Tensor) -> None:  # noqa: A002
        """Take a client's update.

        Args:
            round: from 0.
            client: whose it is.
            update: ``(members, n)``.
            weights: ``(members,)`` the client's rows; 0 where it takes no part.
        """
        if not self._secure:
            self._show(ReceivedUpdate(round, client, update, self.shared, weights > 0))
        weight = weights.unsqueeze(-1).to(update)
        self._sum += torch.where(weight > 0, update, 0.0) * weight
        self._weight += weight

    def close(self, round: int) -> None:  # noqa: A002
        """End a round: move the shared parameters by the mean; members without participants stay unchanged."""
        mean = self._sum / torch.where(self._weight > 0, self._weight, 1.0)
        if self._secure:
            self._show(ReceivedUpdate(round, None, mean, self.shared, self._weight.squeeze(-1) > 0))
        self.shared = self.shared + mean
        self._begin()

    def _show(self, what: ReceivedUpdate) -> None:
        for observer in self._observers:
            observer.received(what)
