"""EM over visits: labels and a model of the gradients at all epochs, fitted together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.attacks.parts.folded_rows import FoldedRows
from tune_vfl.attacks.parts.folds import Labeled
from tune_vfl.attacks.parts.soft_gate import SoftGate
from tune_vfl.attacks.parts.visit_channel import Channel
from tune_vfl.attacks.parts.visit_evidence import agreement, balanced, joined_evidence, known_loss
from tune_vfl.attacks.parts.visit_model import SENT, WIDEST, VisitModel, principal, standardized
from tune_vfl.attacks.parts.visit_parts import VisitParts
from tune_vfl.attacks.parts.visit_starts import Starts, starts_of
from tune_vfl.errors import SpecError
from tune_vfl.protocol.granted import Auxiliary, Visits
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.view import Answer
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from collections.abc import Callable

    from tune_vfl.protocol.mechanism import ClassParts
    from tune_vfl.protocol.view import View

ALIKE = 0.5
"""Mean log losses of A known rows that differ by no more than this over the root of A are alike."""
_CURVED, _INFORMED = ("curved", "joint"), ("channel", "parts")
_RAREST = 1e-12


class GradientEmParams(Strict):
    """Parameters of :class:`GradientEm`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")
    rounds: int | None = Field(
        None,
        ge=1,
        description="rounds of expectation and maximization of each candidate; none: 10, of more than two classes 6",
    )
    rows: int = Field(20_000, ge=10, description="rows that are fitted and scored, drawn at random; at most all")


@attack("gradient_em")
class GradientEm(Attack[GradientEmParams]):
    """Finds the labels under which all visits of all rows are most likely.

    A row is visited once an epoch and its label is the same at every visit. At each epoch a received gradient is taken
    to be a linear function of the embedding that was sent, plus a jump by class, plus noise. In turn, the model is
    fitted to class probabilities and these are computed anew, each fold of rows by the model of the others: from the
    evidence of all epochs, made one by a discriminant and tempered, and from the own columns, by a regression that
    learns from all rows. A few labels give the start. Candidates differ in what they read: ``means`` of gradients over
    thirds of the training, means of their ``directions``, single ``epochs``, these with a covariance of the noise for
    each class (``curved``), and for two classes directions and curved at once (``joint``). The one whose evidence
    agrees most with the own columns and with the known labels is the answer. An attacker knows the defense: where it
    swaps labels ``channel`` looks behind the swaps, where it splits classes by random numbers ``parts`` uses its own.
    """

    summary = "fit all rows' labels and a model of the gradients at all epochs together, from a few labels"
    reference = "expectation maximization (Dempster, Laird and Rubin 1977) with co-training (Blum and Mitchell 1998)"
    Params = GradientEmParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(
        sees=frozenset({"visits", "features", "bottom", "auxiliary", "class_prior"}), parties="joined"
    )
    choice = "gradient_em"
    quick = {"rounds": 4}  # noqa: RUF012 - a constant

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return how many labeled rows it wants."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the choice and its candidates: probabilities ``(*trials, M, K)``, oriented.

        Raises:
            SpecError: when no row is unlabeled.
        """
        known, rows = view.auxiliary, view.features.train.shape[len(view.lead)]
        if rows <= known.ids.shape[-1]:
            raise SpecError(f"attack {view.attack!r} got labels for all {rows} training rows; lower aux_per_class")
        problem = _Problem.of(view, self.params.rows)
        rounds = self.params.rounds or (10 if view.num_classes == 2 else 6)
        found = _candidates(problem, rounds)
        whole = _chosen(found, problem.alike)
        answers = {self.choice: whole, **{name: c.shares for name, c in found.items()}}
        return {name: problem.answer(shares, view.lead) for name, shares in answers.items()}


class _Candidate(NamedTuple):
    """Labels of all rows.

    Attributes:
        shares: ``(T, F, 1, K, n)`` class probabilities.
        merit: ``(T,)`` log likelihood that the own columns and the known labels add; larger is better.
        loss: ``(T,)`` log loss of the known rows before they took part.
    """

    shares: Tensor
    merit: Tensor
    loss: Tensor


@dataclass(frozen=True, eq=False)
class _Problem:
    """What an attacker holds, with one leading axis.

    Attributes:
        rows: the folds; known rows come first in their order.
        visits: of all rows.
        known: positions and labels.
        own: ``(T, N, w)`` its standardized columns.
        starts: logits by few labels.
        prior: ``(T, 1, 1, K, 1)`` logs of the class shares.
        added: ``(T, N, c)`` columns that a defense had the attacker add to its own.
    """

    rows: FoldedRows
    visits: Visits
    known: Auxiliary
    own: Tensor
    starts: Starts
    prior: Tensor
    added: Tensor

    @classmethod
    def of(cls, view: View, most: int) -> _Problem:
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
        shares = view.class_prior.clamp(min=_RAREST).log().expand(len(own), -1)
        prior = shares[:, None, None, :, None]
        starts = starts_of(own, visits, labeled)
        added = x[..., x.shape[-1] - view.features.added :]
        return cls(FoldedRows(order), visits, Auxiliary(labeled.ids, labeled.y), own, starts, prior, added)

    def model(self, received: Tensor, sent: Tensor) -> VisitModel:
        """Return a model of ``(T, E, N, d)`` gradients by ``(T, E, N, q)`` embeddings."""
        return VisitModel(received, sent, self.starts.explained, self.rows, self.starts.own.shape[-1])

    @property
    def alike(self) -> float:
        """The difference of mean log losses of the known rows that chance alone makes."""
        return ALIKE / math.sqrt(self.known.ids.shape[-1])

    def known_logs(self, shares: Tensor) -> Tensor:
        """Return ``(T, S, K, A)`` log probabilities of the known rows; these are the first of the order."""
        count = self.known.ids.shape[-1]
        return self.rows.unfold(shares)[..., :count].clamp(min=_RAREST).log()

    @property
    def known_labels(self) -> Tensor:
        """``(T, A)`` labels of the known rows as they stand in the order."""
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


def _chosen(found: dict[str, _Candidate], alike: float) -> Tensor:
    """Return each member's best class probabilities ``(T, F, 1, K, n)``: of largest merit among those that fit.

    Candidates fit that say the known rows nearly as well as the best one. Variances that depend on the own columns look
    like agreement with them, so candidates with a covariance for each class are taken only where no other one fits, and
    then by the known rows alone. Where the model is known to be taught other labels, the candidate that knows it is
    taken if it fits: the others find the labels taught.
    """
    loss, merit, shares = (
        torch.stack([getattr(c, name) for c in found.values()]) for name in ("loss", "merit", "shares")
    )
    curved, informed = (torch.tensor([n in group for n in found]).unsqueeze(-1) for group in (_CURVED, _INFORMED))
    fitting = loss <= loss.amin(0) + alike
    others = fitting & ~curved
    allowed = torch.where(others.any(0), others, fitting)
    allowed = torch.where((fitting & informed).any(0), informed, allowed)
    best = torch.where(allowed, torch.where(curved, -loss, merit), -torch.inf).argmax(0)
    return shares.gather(0, best.view(1, -1, 1, 1, 1, 1).expand(1, *shares.shape[1:])).squeeze(0)


def _candidates(problem: _Problem, rounds: int) -> dict[str, _Candidate]:
    visits, known = problem.visits, problem.visits.mechanism or Mechanism()
    two = problem.starts.own.shape[-1] == 2
    # With more classes the other starts end where the first one does, and cost as much again.
    start = problem.rows.fold(problem.starts.all if two else problem.starts.all[:, :1])
    models = {
        "means": problem.model(visits.received_means, visits.sent_means),
        "directions": problem.model(visits.direction_means, visits.sent_means),
        "epochs": problem.model(visits.received, visits.sent),
    }
    found = {
        name: _Fit(problem, model.linear, rounds, 2 if name == "epochs" else 1).best(start)
        for name, model in models.items()
    }
    start = _chosen(found, problem.alike).clamp(min=_RAREST).log()
    found["curved"] = _Fit(problem, models["epochs"].curved, rounds, 1).best(start)
    if two:
        both = (models["directions"].linear, models["epochs"].curved)
        start = found["curved"].shares.clamp(min=_RAREST).log()
        found["joint"] = _Fit(problem, lambda shares: torch.cat([m(shares) for m in both], 3), rounds, 1).best(start)
    if known.swaps is not None:
        found["channel"] = _behind_swaps(problem, known.swaps, models["directions"], rounds)
    if known.parts is not None:
        found["parts"] = _behind_parts(problem, known.parts, rounds)
    return found


def _behind_parts(problem: _Problem, parts: ClassParts, rounds: int) -> _Candidate:
    """Return the classes whose parts the model is taught as numbers, by the attacker's own random numbers."""
    p = problem
    fitted = VisitParts.of(parts, p.visits.received, p.added, p.prior, p.rows)
    shares = fitted.fitted(SoftGate(p.own, p.rows), rounds)
    loss = known_loss(p.known_logs(shares), p.known_labels).squeeze(-1)
    return _Candidate(shares, torch.zeros_like(loss), loss)


def _behind_swaps(problem: _Problem, swaps: Tensor, model: VisitModel, rounds: int) -> _Candidate:
    """Return the true labels where the model is taught others, by known probabilities ``(T, K, K)``."""
    p, visits = problem, problem.visits
    channel = Channel(swaps.to(p.own.dtype), p.prior, p.rows.mask)
    start = p.rows.fold(p.starts.all)
    shares, taught, agreed = channel.fitted(model.linear, SoftGate(p.own, p.rows), start, rounds)
    loss = known_loss(p.known_logs(shares), p.known_labels)
    at = (p.rows.order.shape[-1] * agreed - p.known.ids.shape[-1] * loss).argmax(-1, keepdim=True)
    place = at.view(-1, 1, 1, 1, 1).expand(*taught.shape[:2], 1, *taught.shape[3:])
    found = shares.gather(2, place)
    if swaps.shape[-1] == 2:  # with more classes no single direction says what the model believes of one of them
        found = channel.behind(visits.received, taught.gather(2, place), p.rows)
    loss = known_loss(p.known_logs(found), p.known_labels)
    return _Candidate(found, agreed.gather(-1, at).squeeze(-1), loss.squeeze(-1))


@dataclass(frozen=True, eq=False)
class _Fit:
    """One model, from several starts side by side."""

    problem: _Problem
    expect: Callable[[Tensor], Tensor]
    rounds: int
    every: int

    def best(self, start: Tensor) -> _Candidate:
        """Return the best end, of logits ``(T, F, S, K, n)`` to start from; the first learns with the own columns."""
        p = self.problem
        mask = p.rows.mask
        gate = SoftGate(p.own, p.rows)
        own = balanced(p.rows.fold(p.starts.own.unsqueeze(1)), p.prior, mask).clamp(min=_RAREST).log()
        by_own = own.expand(start.shape)
        shares = balanced(start, p.prior, mask)
        alone = torch.arange(start.shape[2]).view(1, 1, -1, 1, 1) > 0
        merit = by_known = torch.zeros(())
        for turn in range(self.rounds + 2):
            if turn == self.rounds:  # the known rows have judged the candidates, and may now take part
                by_known = known_loss(p.known_logs(shares), p.known_labels)
            if turn >= self.rounds:
                shares = p.pinned(shares)
            evidence = joined_evidence(self.expect(shares), shares, mask)
            if turn % self.every == self.every - 1:
                by_own = gate.learn(shares)
            power, agreed = agreement(evidence, by_own, p.prior, mask)
            if turn < self.rounds:
                merit = agreed
            # A start that reads gradients alone goes on by them alone for a while.
            free = alone & (turn < self.rounds // 2)
            said = torch.where(free, evidence + p.prior, power * evidence + by_own)
            shares = balanced(said, p.prior, mask)
        rows, known = p.rows.order.shape[-1], p.known.ids.shape[-1]
        merit, at = (rows * merit - known * by_known).max(-1, keepdim=True)
        place = at.view(-1, 1, 1, 1, 1)
        picked = shares.gather(2, place.expand(*shares.shape[:2], 1, *shares.shape[3:]))
        return _Candidate(picked, merit.squeeze(-1), by_known.gather(-1, at).squeeze(-1))
