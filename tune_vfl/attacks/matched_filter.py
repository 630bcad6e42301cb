"""Matched filter: labels, slowly moving templates of their gradients and a kernel on own columns, fitted together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.behind_parts import behind_parts
from tune_vfl.attacks.parts.behind_swaps import behind_swaps
from tune_vfl.attacks.parts.columns import taken
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.attacks.parts.forces import Forces, single_epochs
from tune_vfl.attacks.parts.half_means import half_means
from tune_vfl.attacks.parts.own_columns import ColumnRegression
from tune_vfl.attacks.parts.read_signs import read_signs, with_signs
from tune_vfl.attacks.parts.templates import ClassShapes, Templates
from tune_vfl.attacks.parts.trust import FAINT, POWERS, RAREST, Trust
from tune_vfl.attacks.parts.unsent_sums import UnsentSums
from tune_vfl.attacks.parts.visits_by_step import VisitsByStep
from tune_vfl.errors import SpecError
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.view import Answer
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tune_vfl.protocol.view import View
    from tune_vfl.protocol.visits import Visits

THINNED = 0.5
"""Share of zeros among the entries of gradients above which classes are read off the signs of what is left."""
STILL = 0.002
"""Share of the labels that move in a round, under which a member's rounds end."""
TAUGHT = 3
"""Rounds in which a regression on own columns and mean gradients is fitted to the labels that were found."""


class MatchedFilterParams(Strict):
    """Parameters of :class:`MatchedFilter`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")
    rounds: int = Field(8, ge=1, description="most rounds of fitting labels and models in turn, while labels move")
    rows: int = Field(20_000, ge=10, description="rows that are fitted and scored, drawn at random; at most all")


@attack("matched_filter")
class MatchedFilter(Attack[MatchedFilterParams]):
    """Finds the labels under which all gradients of the training are likely, and that the own columns bear out.

    A row is visited once an epoch and its label is the same at every visit. A gradient is taken to be a linear function
    of the embedding that was sent, plus a template of the class, both slowly moving, plus noise whose size each step's
    residuals show. In turn, class probabilities are computed from the evidence of all visits and from the own columns,
    and templates and a kernel regression on the own columns are fitted to these probabilities; no row is judged by a
    model that has seen it. The known labels give the start, and judge with all rows' agreement how far either is
    trusted. An attacker knows the defense: where it swaps labels it looks behind the swaps, of two classes also by
    what the model believed beside the class that it was taught, and where it sends later what it did not send, the
    rows whose gradients a sent number adds up are fitted, unless known rows speak against it; so are the rows whose
    forces a gradient adds up, where embeddings of one class repel each other. Where rows of two classes are blurred
    by a teacher or by noise between the classes, a fit that trusts gradients little is averaged in. Where the model
    is taught numbers for parts of a class, a fit of the parts is added. Where of two classes most entries of the
    gradients are 0, the class is read off the signs of the others too, and off which rows are sent.
    """

    summary = "fit all rows' labels, slowly moving class templates of gradients and a kernel on own columns together"
    reference = (
        "Dempster et al. 1977, Maximum Likelihood from Incomplete Data via the EM Algorithm; Blum and Mitchell 1998, "
        "Combining Labeled and Unlabeled Data with Co-training; Turin 1960, An Introduction to Matched Filters"
    )
    Params = MatchedFilterParams
    in_default: ClassVar[Mapping[str, Any] | None] = {}
    capabilities = AttackCapabilities(
        sees=frozenset({"visits", "features", "bottom", "auxiliary", "class_prior"}), parties="joined"
    )
    choice = "matched_filter"
    dear = True
    starts = 2  # they differ less than means of five of `pmc` do
    quick = {"rounds": 6}  # noqa: RUF012 - a constant

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def run(self, view: View) -> dict[str, Answer]:
        """Return the choice and its candidates: probabilities ``(*trials, M, K)``, oriented.

        Raises:
            SpecError: when no row is unlabeled.
        """
        known, x = view.auxiliary, view.features.train
        count = x.shape[len(view.lead)]
        if count <= known.ids.shape[-1]:
            raise SpecError(f"attack {view.attack!r} got labels for all {count} training rows; lower aux_per_class")
        visits: Visits = view.granted("visits")
        embedded = in_chunks(view.bottom().eval(), x, len(view.lead)).detach().nan_to_num(0.0, 0.0, 0.0)
        keys = view.streams["rows"].uniform(count).scatter(-1, known.ids, -1.0)  # known rows come first
        ids, labels = known.ids, known.labels
        if not view.lead:
            x, embedded, keys, ids, labels = (part.unsqueeze(0) for part in (x, embedded, keys, ids, labels))
            visits = visits.batched()
        rows = keys.argsort(dim=-1, stable=True)[:, : max(self.params.rows, labels.shape[-1] + 1)]
        y = labels.gather(-1, ids.argsort(-1))  # equal keys leave known rows in the order of their positions
        prior = view.class_prior.clamp(min=RAREST).log().expand(len(rows), -1).unsqueeze(1)
        mechanism = visits.mechanism or Mechanism()
        swaps = None if mechanism.swaps is None else mechanism.swaps.float()
        trust = Trust(prior, y, swaps)
        x, embedded, received = (taken(part, rows) for part in (x.flatten(2), embedded.flatten(2), visits.received))
        own = ColumnRegression.held(x, embedded, known=trust.known)
        templates = Templates(VisitsByStep.of(visits, rows), view.num_classes)
        ledger = forces = None
        if mechanism.unsent and visits.times == tuple(range(len(visits.times))):
            ledger = UnsentSums(visits, rows, view.num_classes)
        if mechanism.repels is not None and (single := single_epochs(visits.times)):
            forces = Forces(visits, rows, view.num_classes, mechanism.repels, single)
        means = half_means(visits) if view.num_classes == 2 else {}
        halves = {name: Templates(VisitsByStep.of(mean, rows), 2) for name, mean in means.items()}
        with_means = own.beside(*_spans(received))
        shapes = ClassShapes(templates) if view.num_classes == 2 and mechanism.blurred else None
        found = self._fitted(templates, halves, ledger, forces, shapes, own=own, with_means=with_means, trust=trust)
        if view.num_classes == 2 and swaps is None:
            thinned = (received == 0).flatten(1).float().mean(-1) > THINNED
            if thinned.any():
                best, few = found[self.choice], trust.of_members(thinned)
                read = with_signs(read_signs(received[thinned]), best[thinned], own.columns[thinned], few)
                found[self.choice] = best.index_put((thinned,), read)
        if view.num_classes == 2 and swaps is not None:
            found["beliefs"] = behind_swaps(found[self.choice], received, own, trust, swaps)
            found[self.choice] = trust.balanced((found[self.choice] + found["beliefs"]) / 2)
        if mechanism.parts is not None:
            added = x[..., x.shape[-1] - view.features.added :]
            parts = behind_parts(mechanism.parts, received, added, own, trust)
            with_parts = trust.balanced(found[self.choice] + parts)
            found["parts"], found[self.choice] = parts, trust.balanced(trust.joined([found[self.choice], with_parts]))
        return {name: _answer(logits, rows, labels.shape[-1], view.lead) for name, logits in found.items()}

    def _fitted(
        self,
        templates: Templates,
        halves: Mapping[str, Templates],
        ledger: UnsentSums | None,
        forces: Forces | None,
        shapes: ClassShapes | None,
        *,
        own: ColumnRegression,
        with_means: ColumnRegression,
        trust: Trust,
    ) -> dict[str, Tensor]:
        """Return logits ``(T, n, K)`` of the filter, by ledger, forces, shapes, with mean gradients, and the best.

        Of two classes the means over both halves of the training give answers of their own; where known rows are
        likelier by one of these than by the known rows' own templates, the filter starts from it. A regression finds
        classes that a template cannot tell, such as those whose gradients lie in several places.
        """
        start = trust.by_known(own)
        few = (torch.arange(start.shape[1]) < trust.labels.shape[-1]).float().expand(start.shape[:2])
        sure = trust.pinned(torch.zeros_like(start))
        sure = sure if trust.swaps is None else sure @ trust.swaps
        turns = partial(self._in_turn, start=start, own=own, trust=trust)
        found = {
            name: turns(half, trust.chosen(half.evidence(sure, few), [start], FAINT)) for name, half in halves.items()
        }
        of_halves = list(found.values())
        by_few = trust.chosen(templates.evidence(sure, few), [start], FAINT)
        first = trust.likeliest_start([by_few, *((torch.zeros_like(start), logits) for logits in of_halves)])
        found["filter"] = turns(templates, first)
        best = found["filter"]
        if ledger is not None:
            found["ledger"] = turns(ledger, first)
            best = trust.likelier(best, found["ledger"])
        if forces is not None:
            by_pairs = forces.evidence(trust.pinned(trust.prior.exp().expand_as(start)))
            first_felt = trust.chosen(by_pairs, [start, torch.zeros_like(start)], FAINT)
            found["forces"] = torch.where(forces.felt[:, None, None], turns(forces, first_felt), best)
            best = trust.likelier(best, found["forces"])
        found["with_means"] = trust.balanced(best + trust.balanced(trust.by_known(with_means)))
        first_taught = taught = trust.likelier(best, found["with_means"])
        for _ in range(TAUGHT):
            scores = with_means.by_all(trust.pinned(taught.exp()))
            taught = trust.likeliest([trust.balanced(logits) for logits in trust.sharpened(scores)])
        found["taught"], found["with_taught"] = taught, trust.balanced(first_taught + taught)
        several = [best, *of_halves, *(found[name] for name in ("with_means", "taught", "with_taught"))]
        best = trust.balanced(trust.joined(several))
        if shapes is not None:
            found["shapes"] = turns(shapes, (torch.zeros_like(start), start), powers=(1.0,))
            best = trust.balanced((best + found["shapes"]) / 2)
        return {self.choice: best, **found}

    def _in_turn(
        self,
        model: Templates | UnsentSums | Forces | ClassShapes,
        first: tuple[Tensor, Tensor],
        *,
        start: Tensor,
        own: ColumnRegression,
        trust: Trust,
        powers: Sequence[float] = POWERS,
    ) -> Tensor:
        """Return the mean of the logits of the later half of rounds: fits that wander are surer together.

        Of two classes the mean of the earlier half joins it as far as known rows are likelier by it: rounds may leave
        what these say for what gradients and own columns have in common without the class. Members whose labels have
        come to rest are fitted no further.
        """
        (said, gate), of_all, judge = first, own.of_all, trust
        logits = judge.balanced(judge.of_true(said) + gate)
        rounds, at = [logits], torch.arange(len(logits))
        while len(rounds) <= self.params.rounds and len(at):
            likelihoods = model.evidence(judge.taught(said, gate))
            gates = [start, *judge.sharpened(of_all.scores(judge.pinned(logits.exp())))]
            said, gate = judge.chosen(likelihoods, gates, powers)
            before, logits = logits, judge.balanced(judge.of_true(said) + gate)
            rounds.append(rounds[-1].index_copy(0, at, logits))
            moving = (logits.exp() - before.exp()).abs().sum(-1).mean(-1) / 2 > STILL
            if not moving.all():
                at, start, said, gate, logits = (part[moving] for part in (at, start, said, gate, logits))
                model, of_all = model.of_members(moving), of_all.of_members(moving)
                judge = judge.of_members(moving)
        rounds += [rounds[-1]] * (self.params.rounds + 1 - len(rounds))
        half = -(-len(rounds) // 2)
        earlier, later = (trust.balanced(torch.stack(part).mean(0)) for part in (rounds[:half], rounds[half:]))
        return trust.balanced(trust.joined([later, earlier])) if start.shape[-1] == 2 else later


def _spans(received: Tensor) -> list[Tensor]:
    """Return mean gradients ``(T, n, d)`` over the training, its first fifth and its last one, of ``(T, E, n, d)``."""
    some = max(1, round(received.shape[1] / 5))
    return [received.mean(1), received[:, :some].mean(1), received[:, -some:].mean(1)]


def _answer(logits: Tensor, rows: Tensor, known: int, lead: tuple[int, ...]) -> Answer:
    scores, counted = logits.exp(), (torch.arange(rows.shape[-1]) >= known).expand(rows.shape)
    if not lead:
        scores, rows, counted = scores[0], rows[0], counted[0]
    return Answer(scores, rows, oriented=True, counted=counted)
