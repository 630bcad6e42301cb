"""Spectral attack: the direction in which embeddings vary most tends to be the one that separates the classes."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.attacks.base import AttackCapabilities, attack
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.attacks.parts.moments import MomentAttack, MomentParams
from tune_vfl.protocol.view import Answer, Recording, View


class SpectralParams(MomentParams):
    """Parameters of :class:`Spectral`."""

    source: Literal["embedding", "gradient"] = Field(
        "embedding",
        description="what is scored: the trained bottom model's embeddings, or cut gradients at each of the moments",
    )
    score: Literal["signed", "squared"] = Field(
        "signed", description="the coordinate along the direction, or its square, which is large for outliers"
    )


@attack("spectral")
class Spectral(MomentAttack[SpectralParams]):
    """Scores each row by its coordinate along the top singular vector of the centered rows of a whole epoch.

    It uses no label: which end is positive is not known, so the score is not oriented. Gradients are those of a batch's
    mean loss and are taken times the rows of their batch, or the rows of a smaller last batch would stand out. Rows
    that do not vary give nothing away: all score 0.
    """

    summary = "score rows along the direction of largest variance of embeddings (or gradients), without labels"
    reference = (
        "Sun et al. 2022, Label Leakage and Protection from Forward Embedding in Vertical Federated Learning; Tran "
        "et al. 2018, Spectral Signatures in Backdoor Attacks"
    )
    Params = SpectralParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(classes="binary", sees=frozenset({"features", "bottom", "gradients"}))

    def sees(self) -> frozenset[str]:
        """Return the grants that the chosen source needs."""
        return frozenset({"gradients"} if self.params.source == "gradient" else {"features", "bottom"})

    def run(self, view: View) -> dict[str, Answer]:
        """Return the variant ``spectral``: scores ``(*trials, M)``; of gradients, one for each moment."""
        return super().run(view) if self.params.source == "gradient" else self._scored(*_embeddings(view))

    def read(self, view: View, seen: Recording) -> dict[str, Answer]:
        """Return the variant ``spectral`` of one recording."""
        return self._scored(seen.gradients * seen.batch_rows.unsqueeze(-1), seen.ids)

    def _scored(self, rows: Tensor, ids: Tensor) -> dict[str, Answer]:
        along = coordinates(rows)
        return {"spectral": Answer(scores=along if self.params.score == "signed" else along.square(), ids=ids)}


def _embeddings(view: View) -> tuple[Tensor, Tensor]:
    axis, x = len(view.lead), view.features.train
    embedded = in_chunks(view.bottom().eval(), x, axis)
    return embedded, torch.arange(x.shape[axis]).expand(*view.lead, x.shape[axis])


def coordinates(rows: Tensor) -> Tensor:
    """Return each row's coordinate along the direction of largest variance.

    Args:
        rows: ``(*trials, M, d)``; entries that are not finite count as 0.

    Returns:
        ``(*trials, M)`` coordinates with mean 0, in the precision of ``rows``. Of the two possible signs, the one whose
        direction has a positive product with (1, sqrt 2, sqrt 3, ...): arbitrary, but the same alone or in a pack.
    """
    # A member whose training diverged must not disturb the others of its pack: the solver refuses NaN.
    exact = rows.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).double()
    centered = exact - exact.mean(-2, keepdim=True)
    # The d x d product has the same right singular vectors and is far smaller than the rows.
    direction = torch.linalg.eigh(centered.transpose(-1, -2) @ centered).eigenvectors[..., -1]
    fixed = torch.arange(1, rows.shape[-1] + 1, dtype=exact.dtype, device=rows.device).sqrt()
    flipped = (direction * fixed).sum(-1, keepdim=True) < 0
    direction = torch.where(flipped, -direction, direction)
    return (centered @ direction.unsqueeze(-1)).squeeze(-1).to(rows.dtype)
