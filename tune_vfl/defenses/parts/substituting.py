"""The base class of SGSub and FLSG, which send random numbers in place of the gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities, P
from tune_vfl.defenses.parts.substitution import Rule, substitute
from tune_vfl.protocol.hooks import Context


class Substituting(Defense[P]):
    """Base class: sends a random vector in the gradient's order that satisfies :meth:`rule`."""

    capabilities = DefenseCapabilities(stackable=True, random=("gradients",))

    def begin(self) -> None:
        """H0: count steps from 0."""
        self._rule = self.rule()
        self._calls: dict[int, int] = {}
        self._accepted = torch.zeros(len(self.members), device=self._device)

    @abstractmethod
    def rule(self) -> Rule:
        """Return how candidates are judged."""

    def per_member(self, values: Sequence[float]) -> Tensor:
        """Return a number per member as a tensor ``(T,)``."""
        return torch.tensor(values, dtype=torch.float32, device=self._device)

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """Return random numbers in the order of ``grad``'s entries; same shape and dtype."""
        call = self._calls.get(party, 0)
        self._calls[party] = call + 1
        # A new stream for each call: the number of candidates that one member needs in this step must not change what
        # the others draw in the next.
        sent, accepted = substitute(grad, self.streams.fresh(f"cut/{party}/{call}"), self._rule)
        self._accepted += accepted
        return sent

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``accepted``: the share of steps and parties in which a candidate was within tau."""
        calls = sum(self._calls.values())
        return {"accepted": (self._accepted / calls).tolist()} if calls else {}
