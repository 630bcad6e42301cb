"""The problem that EM over visits solves: rows, the attacker's data of each row, and the known labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tune_vfl.attacks.parts.columns import principal, standardized
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.attacks.parts.folded_rows import FoldedRows
from tune_vfl.attacks.parts.folds import Labeled
from tune_vfl.attacks.parts.visit_evidence import TEMPERS, known_loss
from tune_vfl.attacks.parts.visit_model import SENT, WIDEST, VisitModel
from tune_vfl.attacks.parts.visit_starts import Starts
from tune_vfl.protocol.granted import Auxiliary
from tune_vfl.protocol.view import Answer
from tune_vfl.protocol.visits import Visits

if TYPE_CHECKING:
    from tune_vfl.protocol.view import View

ALIKE = 0.5
"""Mean log losses of A known rows that differ by no more than this over the root of A are alike."""
RAREST = 1e-12
"""The least probability of which a log is taken."""


@dataclass(frozen=True, eq=False)
class VisitProblem:
    """Rows in folds, their visits, own columns and known labels of an attacker, with one leading axis.

    Attributes:
        rows: the folds; known rows come first in their order.
        visits: of all rows.
        known: positions and labels.
        own: ``(T, N, w)`` its standardized columns.
        starts: logits by few labels.
        prior: ``(T, 1, 1, K, 1)`` logs of the class shares.
        added: ``(T, N, c)`` columns that a defense had the attacker add to its own.
        by_labels: the known labels alone decide how far the gradients are trusted.
    """

    rows: FoldedRows
    visits: Visits
    known: Auxiliary
    own: Tensor
    starts: Starts
    prior: Tensor
    added: Tensor
    by_labels: bool

    @classmethod
    def of(cls, view: View, most: int, *, by_labels: bool) -> VisitProblem:
        """Read a view."""
        lead, known = view.lead, view.auxiliary
        x = view.features.train
        embedded = in_chunks(view.bottom().eval(), x, len(lead)).detach()
        labeled = Labeled.draw(known, view.streams["folds"], view.num_classes)
        keys = view.streams["rows"].uniform(x.shape[len(lead)]).scatter(-1, known.ids, -1.0)
        visits: Visits = view.granted("visits")
        if not lead:
            x, embedded, keys = x.unsqueeze(0), embedded.unsqueeze(0), keys.unsqueeze(0)
            ids, y, places = (part.unsqueeze(0) for part in (labeled.ids, labeled.y, labeled.places))
            labeled = Labeled(ids, y, places, labeled.num_classes)
            visits = visits.batched()
        groups = [principal(standardized(embedded.flatten(2)), SENT)]
        if x.is_floating_point():  # tokens of a text stand for words: their numbers mean nothing
            groups.append(principal(standardized(x.flatten(2)), WIDEST))
        own = standardized(torch.cat(groups, -1))
        # Known rows first, so that each fold has its share of them.
        order = keys.argsort(dim=-1, stable=True)[:, : max(most, known.ids.shape[-1] + 1)]
        shares = view.class_prior.clamp(min=RAREST).log().expand(len(own), -1)
        prior = shares[:, None, None, :, None]
        starts = Starts(own, visits, labeled)
        added = x[..., x.shape[-1] - view.features.added :]
        return cls(FoldedRows(order), visits, Auxiliary(labeled.ids, labeled.y), own, starts, prior, added, by_labels)

    def model(self, received: Tensor, sent: Tensor) -> VisitModel:
        """Return a model of ``(T, E, N, d)`` gradients by ``(T, E, N, q)`` embeddings."""
        return VisitModel(received, sent, self.starts.explained, self.rows)

    @property
    def alike(self) -> float:
        """The difference of mean log losses of the known rows that chance alone makes."""
        return ALIKE / math.sqrt(self.known.ids.shape[-1])

    def known_logs(self, shares: Tensor) -> Tensor:
        """Return ``(T, S, K, A)`` log probabilities of the known rows; these are the first of the order."""
        count = self.known.ids.shape[-1]
        return self.rows.unfold(shares)[..., :count].clamp(min=RAREST).log()

    def trusted(self, evidence: Tensor, gate: Tensor) -> Tensor | bool:
        """Return ``(T, S, P)``: the power of :data:`TEMPERS` that says the known rows best, where labels decide.

        Args:
            evidence: ``(T, F, S, K - 1, n)`` log likelihood ratios to the first class by the gradients.
            gate: ``(T, F, S, K - 1, n)`` log odds against the first class by the own columns.
        """
        if not self.by_labels:
            return True
        count = self.known.ids.shape[-1]
        said, before = (pad(self.rows.unfold(odds)[..., :count], (0, 0, 1, 0)) for odds in (evidence, gate))
        losses = torch.stack([known_loss(power * said + before, self.known_labels) for power in TEMPERS], -1)
        return losses == losses.amin(-1, keepdim=True)

    @property
    def known_labels(self) -> Tensor:
        """``(T, A)`` labels of the known rows in the order's positions."""
        every = self.own.new_zeros(self.own.shape[:2], dtype=torch.int64)
        at = self.rows.order[:, : self.known.ids.shape[-1]]
        return every.scatter(-1, self.known.ids, self.known.labels).gather(-1, at)

    def pinned(self, shares: Tensor) -> Tensor:
        """Return class probabilities with those of the known rows set."""
        whole = shares.new_zeros(len(shares), self.own.shape[1], shares.shape[-2])
        at = self.known.ids.unsqueeze(-1).expand(*self.known.ids.shape, shares.shape[-2])
        whole = whole.scatter(1, at, one_hot(self.known.labels, shares.shape[-2]).to(whole.dtype))
        sure = self.rows.fold(whole).unsqueeze(2)
        return torch.where(sure.sum(-2, keepdim=True) > 0, sure, shares)

    def answer(self, shares: Tensor, lead: tuple[int, ...]) -> Answer:
        """Return class probabilities as an answer."""
        scores = self.rows.unfold(shares).squeeze(1).mT
        place = torch.arange(scores.shape[1]).expand(scores.shape[:2])
        counted = place >= self.known.ids.shape[-1]
        ids = self.rows.order
        if not lead:
            scores, ids, counted = scores[0], ids[0], counted[0]
        return Answer(scores, ids, oriented=True, counted=counted)
