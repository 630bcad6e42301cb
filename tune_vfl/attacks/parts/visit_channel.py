"""Labels behind a known channel: gradients show the class that was taught, which may differ from the true one.

Two things are used beyond a plain fit. The own columns speak of the true class, the gradients of the taught one, and
the channel leads from one to the other. And a gradient's size along the difference of the classes says how far the
model is from the taught class; so it says what the model believes, which has seen the label party's columns too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.parts.folded_rows import FoldedRows
from tune_vfl.attacks.parts.soft_gate import SoftGate
from tune_vfl.attacks.parts.visit_evidence import agreement, balanced, joined_evidence, odds_of, shares_of

_RAREST, _UNSURE = 1e-12, 0.02


@dataclass(frozen=True, eq=False)
class Channel:
    """The probabilities with which true classes are taught as others.

    Attributes:
        swaps: ``(T, K, K)`` at ``[i, j]`` the probability of teaching class j where the true one is i.
        prior: ``(T, 1, 1, K, 1)`` logs of the true classes' shares.
        mask: ``(F, 1, 1, n)``: 1 for a row, 0 in the place of a missing one.
    """

    swaps: Tensor
    prior: Tensor
    mask: Tensor

    def taught(self, shares: Tensor) -> Tensor:
        """Return probabilities of the taught class, ``(T, F, S, K, n)``, of those of the true one."""
        return torch.einsum("tfskn,tkj->tfsjn", shares, self.swaps)

    def of_true(self, evidence: Tensor) -> Tensor:
        """Return log likelihood ratios of the true class, ``(T, F, S, K - 1, n)``, of those of the taught one."""
        said = torch.einsum("tfsjn,tkj->tfskn", shares_of(evidence), self.swaps)
        return odds_of(said.clamp(min=_RAREST).log())

    def fitted(
        self, expect: Callable[[Tensor], Tensor], gate: SoftGate, start: Tensor, rounds: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Find true and taught classes in turn with a model of the gradients.

        Args:
            expect: log likelihood ratios ``(T, F, S, E, K - 1, n)`` of the epochs, of probabilities of taught classes.
            gate: a regression on the own columns.
            start: ``(T, F, S, K - 1, n)`` log odds of the true class against the first one.
            rounds: how often.

        Returns:
            Probabilities ``(T, F, S, K, n)`` of the true and of the taught class, and ``(T, S)`` how far the gradients
            agree with the own columns; larger is better.
        """
        taught_prior = self.taught(self.prior.exp()).log()
        shares = balanced(start, self.prior, self.mask)
        taught, agreed = self.taught(shares), torch.zeros(())
        for _ in range(rounds):
            evidence = joined_evidence(expect(taught), taught, self.mask)
            by_own = gate.learn(shares)
            own_taught = odds_of(self.taught(shares_of(by_own)).clamp(min=_RAREST).log())
            _, agreed = agreement(evidence, own_taught, taught_prior, self.mask)
            shares = balanced(self.of_true(evidence) + by_own, self.prior, self.mask)
            taught = balanced(evidence + own_taught, taught_prior, self.mask)
        return shares, taught, agreed

    def behind(self, received: Tensor, taught: Tensor, rows: FoldedRows) -> Tensor:
        """Return posteriors ``(T, F, 1, 2, n)`` of the true binary class from the taught class and the model's output.

        Args:
            received: ``(T, E, N, d)`` gradients of each row's own loss.
            taught: ``(T, F, 1, 2, n)`` probabilities of the taught class.
            rows: the folds.
        """
        flags = one_hot(taught.argmax(-2), 2).mT.to(taught.dtype) * self.mask  # (T, F, 1, K, n)
        belief = _believed(rows.fold(received), flags).unsqueeze(2)
        clean = torch.einsum("tfsjn,tjk->tfskn", belief, torch.linalg.inv(self.swaps.double()).float())
        clean = clean.clamp(_UNSURE, 1 - _UNSURE)
        logs = clean.log() + torch.einsum("tfsjn,tkj->tfskn", flags, self.swaps.clamp(min=_RAREST).log())
        return balanced(odds_of(logs), self.prior, self.mask)


def _believed(visits: Tensor, flags: Tensor) -> Tensor:
    """Return the model's class probabilities ``(T, F, K, n)``, averaged over the epochs.

    Along the difference of a class from the rest a gradient is ``a (y - p)``, y being 1 for a row that was taught the
    class. The scale a is the one at which p is calibrated: then E (y - p)^2 = E p (1 - p) = E |y - p| / 2.

    Args:
        visits: ``(T, F, E, d, n)`` gradients.
        flags: ``(T, F, 1, K, n)`` 1 for the class that a row was taught, 0 for missing rows.
    """
    counts = flags.sum((1, -1), keepdim=True).clamp(min=1)  # (T, 1, 1, K, 1)
    total = flags.sum((1, -2, -1), keepdim=True)
    sums = (flags @ visits.mT).sum(1, keepdim=True)  # (T, 1, E, K, d)
    apart = sums / counts - (visits.sum((1, -1)).unsqueeze(1).unsqueeze(-2) - sums) / (total - counts).clamp(min=1)
    along = apart / apart.norm(dim=-1, keepdim=True).clamp(min=1e-30) @ visits  # (T, F, E, K, n)
    along = torch.where(flags > 0, along.clamp(min=0), along.clamp(max=0))
    square, size = (part.sum((1, -1), keepdim=True) for part in (along.square(), along.abs()))
    belief = flags - along * size / (2 * square).clamp(min=1e-30)
    return belief.mean(2).clamp(0, 1)
