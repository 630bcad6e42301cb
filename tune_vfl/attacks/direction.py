"""Direction scoring: one known positive row of a batch gives the others away by their angle to it."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.moments import MomentAttack, MomentParams
from tune_vfl.protocol.view import Answer, Recording, View


class DirectionParams(MomentParams):
    """Parameters of :class:`Direction`."""

    hints: int | None = Field(
        None, ge=1, le=64, description="positive rows of each batch that the attacker knows; none: the study's threat"
    )


@attack("direction")
class Direction(MomentAttack[DirectionParams]):
    """Scores each row by the cosine between its gradient and those of the known positive rows of its batch.

    Hints are rows as they were received, with the defense's noise; one that received zeros is taken only
    where no other is there. A gradient of
    length 0 has cosine 0 with everything. Hint rows, and batches without a hint, are not counted. Several hints are
    used in two ways: ``direction`` takes the largest cosine, which suits positives that point in several directions;
    ``mean_hint`` takes the cosine with the hints' mean, in which noise averages out, so that knowing more rows helps
    against a noise defense too; ``nearest_hint`` takes the distance to the nearest hint, which lengths enter into.
    """

    summary = "score rows by the cosine of their cut gradient to a known positive's"
    reference = "Li et al. 2022, Label Leakage and Protection in Two-party Split Learning"
    Params = DirectionParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"gradients", "positive_hints"}))
    quick = {"average": 2}  # noqa: RUF012 - a constant

    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Return ``direction``, and with several hints ``mean_hint`` and ``nearest_hint``: scores ``(*trials, M)``.

        Cosines in [-1, 1], or distances with a minus sign in rows of the batch's own loss; all are oriented.
        """
        hints = view.positive_hints(seen, self.params.hints)
        unit = _unit(seen.gradients)
        parts = [
            _batch(seen.gradients, unit, hints[..., i, :], start, stop) for i, (start, stop) in enumerate(seen.batches)
        ]
        best, mean, near, counted = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
        scores = {"direction": best}
        if hints.shape[-1] > 1:
            scores |= {"mean_hint": mean, "nearest_hint": near}
        return {name: Answer(scores=s, ids=seen.ids, oriented=True, counted=counted) for name, s in scores.items()}


def _unit(rows: Tensor) -> Tensor:
    """Scale rows to length 1; rows of length 0 stay 0."""
    lengths = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return torch.where(lengths > 0, rows / lengths, 0.0)


def _batch(gradients: Tensor, unit: Tensor, hints: Tensor, start: int, stop: int) -> tuple[Tensor, ...]:
    """Score one batch.

    Args:
        gradients: ``(*trials, M, d)``.
        unit: the same rows with length 1 (or 0).
        hints: ``(*trials, q)`` positions of known positives in the M rows, -1 where there is none.
        start: first row of the batch.
        stop: one past its last row.

    Returns:
        ``(*trials, stop - start)`` largest cosines with a hint, cosines with the hints' mean, distances to the nearest
        hint (with a minus sign, times the rows of the batch), and which rows count.
    """
    known = hints >= 0
    at = hints.clamp_min(0).unsqueeze(-1).expand(*hints.shape, unit.shape[-1])
    rows = unit[..., start:stop, :]
    cosine = rows @ unit.gather(-2, at).transpose(-1, -2)
    best = cosine.masked_fill(~known.unsqueeze(-2), -torch.inf).amax(-1)
    hinted = gradients.gather(-2, at)
    mean = _unit(hinted.masked_fill(~known.unsqueeze(-1), 0.0).sum(-2, keepdim=True))
    away = torch.cdist(gradients[..., start:stop, :], hinted).masked_fill(~known.unsqueeze(-2), torch.inf).amin(-1)
    any_known = known.any(-1, keepdim=True)
    positions = torch.arange(start, stop, device=hints.device)
    is_hint = (positions.unsqueeze(-1) == hints.unsqueeze(-2)).any(-1)
    along = (rows @ mean.transpose(-1, -2)).squeeze(-1)
    near = torch.where(any_known, -away * (stop - start), 0.0)
    return torch.where(any_known, best, 0.0), along, near, any_known & ~is_hint
