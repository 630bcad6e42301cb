"""EM over visits: labels and a model of the gradients at all epochs, fitted together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.soft_gate import SoftGate
from tune_vfl.attacks.parts.visit_channel import Channel
from tune_vfl.attacks.parts.visit_evidence import agreement, balanced, joined_evidence, known_loss, odds_of, of_start
from tune_vfl.attacks.parts.visit_model import VisitModel
from tune_vfl.attacks.parts.visit_parts import VisitParts
from tune_vfl.attacks.parts.visit_problem import RAREST, VisitProblem
from tune_vfl.errors import SpecError
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.view import Answer
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tune_vfl.protocol.mechanism import ClassParts
    from tune_vfl.protocol.view import View

_CURVED, _INFORMED = ("curved", "joint"), ("channel", "parts")


class GradientEmParams(Strict):
    """Parameters of :class:`GradientEm`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")
    rounds: int | None = Field(
        None,
        ge=1,
        description="rounds of expectation and maximization of each candidate, half as many where it goes on from "
        "another's end; none: 10, of more than two classes 6",
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
    reference = (
        "Dempster et al. 1977, Maximum Likelihood from Incomplete Data via the EM Algorithm; Blum and Mitchell 1998, "
        "Combining Labeled and Unlabeled Data with Co-training"
    )
    Params = GradientEmParams
    in_default: ClassVar[Mapping[str, Any] | None] = {}
    capabilities = AttackCapabilities(
        sees=frozenset({"visits", "features", "bottom", "auxiliary", "class_prior"}), parties="joined"
    )
    choice = "gradient_em"
    by_labels: ClassVar[bool] = False
    """Whether the known labels alone decide how far the gradients are trusted, not agreement with the own columns."""
    quick = {"rounds": 4}  # noqa: RUF012 - a constant

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the choice and its candidates: probabilities ``(*trials, M, K)``, oriented.

        Raises:
            SpecError: when no row is unlabeled.
        """
        known, rows = view.auxiliary, view.features.train.shape[len(view.lead)]
        if rows <= known.ids.shape[-1]:
            raise SpecError(f"attack {view.attack!r} got labels for all {rows} training rows; lower aux_per_class")
        problem = VisitProblem.of(view, self.params.rows, by_labels=self.by_labels)
        rounds = self.params.rounds or (10 if view.num_classes == 2 else 6)
        found = _candidates(problem, rounds)
        whole = _chosen(found, problem)
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


def _chosen(found: dict[str, _Candidate], problem: VisitProblem) -> Tensor:
    """Return each member's best class probabilities ``(T, F, 1, K, n)``: of largest merit among those that fit.

    Candidates fit that say the known rows nearly as well as the best one. Variances that depend on the own columns look
    like agreement with them, so candidates with a covariance for each class are taken only where no other one fits, and
    then by the known rows alone, as all are where labels decide. Where the model is known to be taught other
    labels, the candidate that knows it is taken if it fits: the others find the labels taught.
    """
    loss, merit, shares = (
        torch.stack([getattr(c, name) for c in found.values()]) for name in ("loss", "merit", "shares")
    )
    curved, informed = (torch.tensor([n in group for n in found]).unsqueeze(-1) for group in (_CURVED, _INFORMED))
    judged = curved | problem.by_labels
    fitting = loss <= loss.amin(0) + problem.alike
    others = fitting & ~judged
    allowed = torch.where(others.any(0), others, fitting)
    allowed = torch.where((fitting & informed).any(0), informed, allowed)
    best = torch.where(allowed, torch.where(judged, -loss, merit), -torch.inf).argmax(0)
    return shares.gather(0, best.view(1, -1, 1, 1, 1, 1).expand(1, *shares.shape[1:])).squeeze(0)


def _candidates(problem: VisitProblem, rounds: int) -> dict[str, _Candidate]:
    visits, known = problem.visits, problem.visits.mechanism or Mechanism()
    two = problem.starts.own.shape[-1] == 2
    # With more classes the other starts end where the first one does, and cost as much again.
    start = odds_of(problem.rows.fold(problem.starts.all if two else problem.starts.with_means.unsqueeze(1)))
    models = {
        "means": problem.model(visits.received_means, visits.sent_means),
        "directions": problem.model(visits.direction_means, visits.sent_means),
        "epochs": problem.model(visits.received, visits.sent),
    }
    found = {
        name: _Fit(problem, model.linear, rounds, 2 if name == "epochs" else 1).best(start)
        for name, model in models.items()
    }
    if problem.by_labels:  # a discriminant of all epochs has many weights, which noise and soft labels do not settle
        of_epochs = models["epochs"].linear
        found["sums"] = _Fit(problem, lambda shares: of_epochs(shares).sum(3, keepdim=True), rounds, 2).best(start)
    # These go on from the end of another fit, so that half of the rounds are enough.
    start, half = _odds(_chosen(found, problem)), (rounds + 1) // 2
    found["curved"] = _Fit(problem, models["epochs"].curved, half, 1).best(start)
    if two:
        both = (models["directions"].linear, models["epochs"].curved)
        start = _odds(found["curved"].shares)
        found["joint"] = _Fit(problem, lambda shares: torch.cat([m(shares) for m in both], 3), half, 1).best(start)
    if known.swaps is not None:
        found["channel"] = _behind_swaps(problem, known.swaps, models["directions"], rounds)
    if known.parts is not None:
        found["parts"] = _behind_parts(problem, known.parts, rounds)
    return found


def _odds(shares: Tensor) -> Tensor:
    return odds_of(shares.clamp(min=RAREST).log())


def _behind_parts(problem: VisitProblem, parts: ClassParts, rounds: int) -> _Candidate:
    """Return class posteriors under a defense of sub-classes, by the attacker's own random numbers."""
    p = problem
    fitted = VisitParts.of(parts, p.visits.received, p.added, p.prior, p.rows)
    shares = fitted.fitted(SoftGate(p.own, p.rows), rounds)
    loss = known_loss(p.known_logs(shares), p.known_labels).squeeze(-1)
    return _Candidate(shares, torch.zeros_like(loss), loss)


def _behind_swaps(problem: VisitProblem, swaps: Tensor, model: VisitModel, rounds: int) -> _Candidate:
    """Return the true labels where the model is taught others, by known probabilities ``(T, K, K)``."""
    p, visits = problem, problem.visits
    channel = Channel(swaps.to(p.own.dtype), p.prior, p.rows.mask)
    start = odds_of(p.rows.fold(p.starts.all))
    shares, taught, agreed = channel.fitted(model.linear, SoftGate(p.own, p.rows), start, rounds)
    loss = known_loss(p.known_logs(shares), p.known_labels)
    at = (p.rows.order.shape[-1] * agreed - p.known.ids.shape[-1] * loss).argmax(-1, keepdim=True)
    found = of_start(shares, at)
    if swaps.shape[-1] == 2:  # with more classes no single direction says what the model believes of one of them
        found = channel.behind(visits.received, of_start(taught, at), p.rows)
    loss = known_loss(p.known_logs(found), p.known_labels)
    return _Candidate(found, agreed.gather(-1, at).squeeze(-1), loss.squeeze(-1))


@dataclass(frozen=True, eq=False)
class _Fit:
    """One model, from several starts side by side."""

    problem: VisitProblem
    expect: Callable[[Tensor], Tensor]
    rounds: int
    every: int

    def best(self, start: Tensor) -> _Candidate:
        """Return the best end, of log odds ``(T, F, S, K - 1, n)`` to start from; the first learns with own columns."""
        p, mask = self.problem, self.problem.rows.mask
        rows, known = p.rows.order.shape[-1], p.known.ids.shape[-1]
        gate = SoftGate(p.own, p.rows)
        own = _odds(balanced(odds_of(p.rows.fold(p.starts.own.unsqueeze(1))), p.prior, mask))
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
            power, agreed = agreement(evidence, by_own, p.prior, mask, p.trusted(evidence, by_own))
            if turn < self.rounds:
                merit = agreed
            said = power * evidence + by_own
            if turn < self.rounds // 2:  # a start that reads gradients alone goes on by them alone for a while
                said = torch.where(alone, evidence + odds_of(p.prior), said)
            shares = balanced(said, p.prior, mask)
            if turn == self.rounds // 2:  # from here on one start of each member
                fits = rows * agreed - known * known_loss(p.known_logs(shares), p.known_labels)
                at = fits.argmax(-1, keepdim=True)
                shares, by_own, merit = of_start(shares, at), of_start(by_own, at), merit.gather(-1, at)
                gate.keep(at)
        return _Candidate(shares, (rows * merit - known * by_known).squeeze(-1), by_known.squeeze(-1))
