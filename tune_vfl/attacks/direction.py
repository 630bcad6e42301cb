"""Direction scoring: one known positive row of a batch gives the others away by their angle to it."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.attacks.base import Attack, AttackCapabilities, attack
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Strict


class DirectionParams(Strict):
    """Parameters of :class:`DirectionAttack`."""

    hints: int = Field(1, ge=1, le=64, description="positive rows of each batch that the attacker knows")


@attack("direction")
class DirectionAttack(Attack[DirectionParams]):
    """Scores each row by the largest cosine between its gradient and those of the known positive rows of its batch.

    Hints are rows as they were received, with the defense's noise. A gradient of length 0 has cosine 0 with everything.
    Hint rows, and batches without a positive row, are not counted.
    """

    summary = "score rows by the cosine of their cut gradient to a known positive's"
    reference = "Li et al., Label Leakage and Protection in Two-Party Split Learning, ICLR 2022"
    Params = DirectionParams
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"gradients", "positive_hints"}))

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variant ``direction``: scores ``(*trials, M)`` in [-1, 1], oriented."""
        seen = view.recording("last")
        hints = view.positive_hints(seen, self.params.hints)
        lengths = torch.linalg.vector_norm(seen.gradients, dim=-1, keepdim=True)
        unit = torch.where(lengths > 0, seen.gradients / lengths, 0.0)
        parts = [_batch(unit, hints[..., i, :], start, stop) for i, (start, stop) in enumerate(seen.batches)]
        scores, counted = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
        return {"direction": Answer(scores=scores, ids=seen.ids, oriented=True, counted=counted)}


def _batch(unit: Tensor, hints: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Score one batch.

    Args:
        unit: ``(*trials, M, d)`` gradients of length 1 (or 0).
        hints: ``(*trials, q)`` positions of known positives in the M rows, -1 where there is none.
        start: first row of the batch.
        stop: one past its last row.

    Returns:
        ``(*trials, stop - start)`` scores, and which of them count.
    """
    known = hints >= 0
    at = hints.clamp_min(0).unsqueeze(-1).expand(*hints.shape, unit.shape[-1])
    cosine = unit[..., start:stop, :] @ unit.gather(-2, at).transpose(-1, -2)
    best = cosine.masked_fill(~known.unsqueeze(-2), -torch.inf).amax(-1)
    any_known = known.any(-1, keepdim=True)
    rows = torch.arange(start, stop, device=hints.device)
    is_hint = (rows.unsqueeze(-1) == hints.unsqueeze(-2)).any(-1)
    return torch.where(any_known, best, 0.0), any_known & ~is_hint
