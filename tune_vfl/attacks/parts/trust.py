"""Trust in gradients and own columns: as far as they agree with each other and with the known rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.parts.columns import evenly
from tune_vfl.attacks.parts.own_columns import SHARPNESS, ColumnRegression

POWERS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
"""Powers of the gradients' likelihood among which one is chosen; 0 is not to trust it at all."""
FAINT = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4)
"""The same for templates of a few rows, which are too sure of themselves."""
RAREST = 1e-12
HEARD = 1000
"""Rows beside the known ones whose agreement is looked at."""
_TURNS = 6
_FARTHEST, _LEAST = 60.0, 1e-140


@dataclass(frozen=True, eq=False)
class Trust:
    """Class shares, known rows and the channel by which true classes become those that gradients show.

    Attributes:
        prior: ``(T, 1, K)`` logs of the class shares.
        labels: ``(T, A)`` classes of the known rows, which are the first A.
        swaps: ``(T, K, K)`` at ``[k, j]`` the probability that class j is taught where k is true; None: j is k.
    """

    prior: Tensor
    labels: Tensor
    swaps: Tensor | None

    def of_members(self, members: Tensor) -> Trust:
        """Return that of some members, by position or mask."""
        return Trust(self.prior[members], self.labels[members], None if self.swaps is None else self.swaps[members])

    def balanced(self, logits: Tensor) -> Tensor:
        """Return logits ``(T, n, K)`` moved so that the mean probabilities are the class shares."""
        logits = logits - logits.amax(-1, keepdim=True)
        raised, moved = logits.exp(), torch.zeros_like(self.prior)
        for _ in range(_TURNS):
            factors = moved.exp()
            means = factors * ((1 / (raised @ factors.mT)).mT @ raised) / logits.shape[-2]
            moved = (moved + self.prior - means.clamp(min=1e-9).log()).clamp(-_FARTHEST, _FARTHEST)
        return logits + moved - (raised @ moved.exp().mT).log()

    def pinned(self, shares: Tensor) -> Tensor:
        """Return class probabilities ``(T, n, K)`` with those of the known rows set."""
        sure = one_hot(self.labels, shares.shape[-1]).to(shares.dtype)
        return torch.cat([sure, shares[:, sure.shape[1] :]], 1)

    @property
    def known(self) -> tuple[Tensor, Tensor, int]:
        """Positions and classes of the known rows, ``(T, A)``, and K: what a regression on own columns is taught."""
        return torch.arange(self.labels.shape[-1]).expand(self.labels.shape), self.labels, self.prior.shape[-1]

    def by_known(self, columns: ColumnRegression) -> Tensor:
        """Return logits ``(T, n, K)`` of a regression that is fitted to the known rows alone."""
        return columns.by_known(*self.known)

    def of_true(self, said: Tensor) -> Tensor:
        """Return log likelihoods of the true class, of those of the class that was taught, ``(T, n, K)``."""
        if self.swaps is None:
            return said
        return (said.softmax(-1) @ self.swaps.mT).clamp(min=RAREST).log()

    def taught(self, said: Tensor, own: Tensor) -> Tensor:
        """Return probabilities ``(T, n, K)`` of the class taught.

        Args:
            said: ``(T, n, K)`` its log likelihoods by the gradients.
            own: ``(T, n, K)`` logits of the true class by the own columns.
        """
        sure = self.pinned(own.softmax(-1))
        if self.swaps is None:
            return self.pinned(self.balanced(said + own).exp())
        return (said + (sure @ self.swaps).clamp(min=RAREST).log()).softmax(-1)

    def chosen(
        self, evidence: Sequence[Tensor], gates: Sequence[Tensor], powers: Sequence[float] = POWERS
    ) -> tuple[Tensor, Tensor]:
        """Choose evidence, its power and a model of the own columns; return the evidence so tempered, and the model.

        Gradients and own columns are taken to be independent given the class: both then hold more of the class the
        likelier the one is under the other. Known rows judge both together, and weigh as much as all rows.

        Args:
            evidence: log likelihoods ``(T, n, K)`` by the gradients, of several models.
            gates: logits ``(T, n, K)`` by the own columns, likewise.
            powers: those to choose among.
        """
        at = self._heard(evidence[0].shape[1])
        steps = torch.tensor(powers, dtype=torch.float64).unsqueeze(-1)
        likely = torch.cat([self._likely(said[:, at].double().mT.unsqueeze(2) * steps) for said in evidence], 2)
        alone = (likely * self.prior.exp().mT.unsqueeze(2)).sum(1).log().mean(-1)  # (T, P)
        truth = self.labels[:, None, None].expand(-1, -1, likely.shape[2], -1)
        scores = []
        for gate in gates:
            both = likely * self.balanced(gate[:, at]).double().exp().clamp(min=_LEAST).mT.unsqueeze(2)
            rows = both.sum(1).log()  # (T, P, n)
            right = both[..., : truth.shape[-1]].gather(1, truth).squeeze(1).log()
            scores.append(rows.mean(-1) - alone + (right - rows[..., : truth.shape[-1]]).mean(-1))
        best = torch.cat(scores, -1).nan_to_num(-torch.inf).argmax(-1)
        place, choice = torch.arange(len(best)), best % likely.shape[2]
        power = torch.tensor(powers)[choice % len(powers)][:, None, None]
        said = power * torch.stack(list(evidence), 1)[place, choice // len(powers)]
        return said, self.balanced(torch.stack(list(gates), 1)[place, best // likely.shape[2]])

    def _likely(self, said: Tensor) -> Tensor:
        """Return likelihoods of the true class, up to a factor of each row, of log likelihoods ``(T, K, P, n)``."""
        raised = (said - said.amax(1, keepdim=True)).exp()
        if self.swaps is not None:
            raised = torch.einsum("tkj,tjpn->tkpn", self.swaps.double(), raised / raised.sum(1, keepdim=True))
        return raised.clamp(min=_LEAST)

    def sharpened(self, scores: Tensor) -> list[Tensor]:
        """Return scores ``(T, n, K)`` as logits of different certainty."""
        return [scores * s for s in SHARPNESS[1::2]]

    def likeliest(self, several: Sequence[Tensor]) -> Tensor:
        """Return those of several logits ``(T, n, K)`` by which known rows are likeliest."""
        losses = torch.stack([_loss(self._of_known(logits), self.labels) for logits in several], -1)
        return torch.stack(list(several), 1)[torch.arange(len(losses)), losses.argmin(-1)]

    def likeliest_start(self, starts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return that pair of evidence and model of the own columns by which known rows are likeliest.

        Both are as :meth:`chosen` returns them. Each pair counts at the power that suits it best.
        """
        every = [self.balanced(self.of_true(said) + gate) for said, gate in starts]
        best = torch.stack([self.unlikely(logits) for logits in every], -1).argmin(-1)
        said, gate = (torch.stack(part, 1)[torch.arange(len(best)), best] for part in zip(*starts, strict=True))
        return said, gate

    def likelier(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the first of two logits ``(T, n, K)``, or the second where known rows are likelier by it.

        Each counts at the power that suits it best.
        """
        return torch.where((self.unlikely(second) < self.unlikely(first))[:, None, None], second, first)

    def joined(self, several: Sequence[Tensor]) -> Tensor:
        """Return the mean of several logits ``(T, n, K)`` at all powers, weighed by how likely known rows are by it."""
        likely = torch.stack([-self._losses(logits) for logits in several]) * self.labels.shape[-1]  # (C, P, T)
        weights = likely.flatten(0, 1).softmax(0).view(likely.shape) * torch.tensor(POWERS)[:, None]
        return (weights.sum(1)[..., None, None] * torch.stack(list(several))).sum(0)

    def unlikely(self, logits: Tensor) -> Tensor:
        """Return the mean log loss ``(T,)`` of known rows under logits ``(T, n, K)``, at the best power."""
        return self._losses(logits).amin(0)

    def _losses(self, logits: Tensor) -> Tensor:
        """Return by power and member, ``(P, T)``, how unlikely known rows are under logits ``(T, n, K)``."""
        return torch.stack([_loss(power * self._of_known(logits), self.labels) for power in POWERS])

    def _heard(self, rows: int) -> Tensor:
        """Return the known rows, which come first, and others evenly spread: so many say what is best."""
        known = self.labels.shape[-1]
        return torch.cat([torch.arange(known), known + evenly(rows - known, HEARD)])

    def _of_known(self, values: Tensor) -> Tensor:
        return values[:, : self.labels.shape[-1]]


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    said = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1))
    return -said.mean((-1, -2))
