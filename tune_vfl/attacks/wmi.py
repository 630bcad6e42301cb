"""White-box model inversion: the label party looks for the rows whose embeddings it received."""

from __future__ import annotations

import itertools

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest, attack
from tune_vfl.attacks.parts.inversion import InversionParams, Inverted, descend, tuned, typical_row, weights_to_try
from tune_vfl.attacks.parts.matrices import with_matrices
from tune_vfl.protocol.view import Reconstruction, View


class WmiParams(InversionParams):
    """Parameters of :class:`Wmi`."""

    restarts: int = Field(
        3, ge=1, le=32, description="guesses of what a defense keeps secret of the bottom model; the best match counts"
    )
    tuning_rows: int = Field(
        16, ge=1, description="rows that the attacker knows, to choose the weights by; none where there is no choice"
    )


@attack("wmi")
class Wmi(Attack[WmiParams]):
    """Knows the passive party's trained bottom model and descends on its input until the embeddings agree.

    The weights of the penalties are chosen by how well they bring back a few other rows that the attacker knows, whose
    mean is where images start; without a choice none are known, and images start from zero, as tables do. What
    a defense keeps secret of the bottom model is guessed anew at each restart, and the restart whose embeddings come
    nearest to those received is taken: the true rows are never looked at. Without secrets one start is enough.
    """

    summary = "invert the passive party's bottom model, which the label party knows, on the embeddings it received"
    reference = "He et al., Model Inversion Attacks Against Collaborative Inference, ACSAC 2019; FedAdOb's CAFE"
    Params = WmiParams
    capabilities = AttackCapabilities(
        goal="features", who="active", sees=frozenset({"received", "known_bottom", "pairs"})
    )
    quick = {"iterations": 150, "tuning_rows": 8}  # noqa: RUF012 - a constant

    def sees(self) -> frozenset[str]:
        """Return the grants it needs: known rows only where there are weights to choose among."""
        p = self.params
        choice = len({*p.tv}) * len({*p.l2}) > 1
        return self.capabilities.sees if choice else self.capabilities.sees - {"pairs"}

    def target_request(self) -> TargetRequest:
        """Return how many rows it reconstructs and knows."""
        return TargetRequest(self.params.rows, self.params.tuning_rows)

    def run(self, view: View) -> dict[str, Reconstruction]:
        """Return the variant ``wmi``: rows ``(*trials, M, ...)``."""
        first = _frozen(view.known_bottom(0))
        found = self._invert(view, first)
        for restart in range(1, self.params.restarts):
            bottom = _frozen(view.known_bottom(restart))
            if same(bottom, first):
                break
            found = nearer(found, self._invert(view, bottom))
        return {"wmi": Reconstruction(rows=found.rows, ids=view.received.ids)}

    def _invert(self, view: View, bottom: nn.Module) -> Inverted:
        seen, p = view.received, self.params
        bottom = with_matrices(bottom, seen.embeddings.new_zeros(*view.lead, 1, *seen.shape))
        candidates = weights_to_try(p, seen.shape)
        if len(candidates) > 1:
            known = view.pairs.features
            start = typical_row(known, seen.shape)
            weights, _ = tuned(bottom, known, view.pairs.embeddings, candidates, p, start=start)
        else:
            start = None
            weights = seen.embeddings.new_tensor(candidates[0]).expand(*view.lead, 2)
        each = weights.unsqueeze(-2).expand(*seen.ids.shape, 2)
        return descend(bottom, seen.embeddings, seen.shape, each, p, start=start)


def _frozen(bottom: nn.Module) -> nn.Module:
    return bottom.eval().requires_grad_(False)


def same(one: nn.Module, other: nn.Module) -> bool:
    """Whether two copies of a model hold the same numbers."""
    tensors = [itertools.chain(m.parameters(), m.buffers()) for m in (one, other)]
    return all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))


def nearer(one: Inverted, other: Inverted) -> Inverted:
    """Return for each member the attempt whose embeddings are nearer to those received, over all its rows."""
    better = other.mismatch.mean(-1) < one.mismatch.mean(-1)

    def choose(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(better.view(*better.shape, *[1] * (a.dim() - better.dim())), b, a)

    return Inverted(choose(one.rows, other.rows), choose(one.mismatch, other.mismatch))
