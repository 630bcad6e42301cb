"""Passive model completion: a head on the attacker's own bottom model, trained with a few labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.completion import MIXES_INPUTS, REGRESSIONS, Completion, PmcParams, Variant
from tune_vfl.attacks.parts.signs import labels_read_off
from tune_vfl.models.joined import JoinedBottoms
from tune_vfl.protocol.view import Answer, Features, Moment, View
from tune_vfl.spec import Strict
from tune_vfl.spec.cell import Mode

_READ = 500
"""Rows whose labels are read off gradients: more cost more, and hardly say more."""


@attack("pmc")
class Pmc(Attack[PmcParams]):
    """Completes the trained bottom model with an inference head that predicts labels; one variant per training method.

    Every variant answers class probabilities for all training rows, of which the labeled ones are not counted, and for
    the test rows. Variants with a cross-validated accuracy on the labeled rows are those that the attacker can choose
    among. Frozen variants train on embeddings computed once, so their MixMatch mixes embeddings; the others mix inputs,
    and are left out where those are tokens of a text.
    Where a defense had the attacker add random columns, ``conditioned`` discounts what embeddings say of them.

    With ``aux: direct`` it knows no label: without a top model gradients show those of training rows, and the completed
    model says those of any other row (Arazzi et al. 2024, section 4.3). Rows whose labels were read are not counted.
    """

    summary = "complete the attacker's bottom model with a head trained on a few labels"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning"
    Params = PmcParams
    capabilities = AttackCapabilities(
        sees=frozenset({"features", "bottom", "auxiliary", "gradients"}), parties="joined"
    )
    in_default = {"variants": ("logreg", "logreg_all", "conditioned")}  # noqa: RUF012 - a constant
    quick = {"steps": 60}  # noqa: RUF012 - a constant
    draws_as = "pmc"  # also of those that inherit: an attack that acts and then completes has the floor of this one

    @property
    def draws(self) -> int:
        """Two of regressions: known rows, and the folds that choose how much ridge; one where heads are trained."""
        return 2 if set(self.params.variants) <= REGRESSIONS else 1

    @classmethod
    def problems(cls, params: Strict, *, num_classes: int, mode: Mode) -> list[str]:
        """Refuse to read labels off gradients where there is a top model."""
        assert isinstance(params, PmcParams)  # noqa: S101 - validated before
        if params.aux != "direct" or mode == "nosplit":
            return []
        return [f"attack {cls.name!r}: aux: direct reads labels off gradients, which needs model.top: none"]

    def sees(self) -> frozenset[str]:
        """Return the needed grants: rows with known labels, or with ``aux: direct`` gradients in their place."""
        return self.capabilities.sees - {"auxiliary" if self.params.aux == "direct" else "gradients"}

    def moments(self) -> tuple[Moment, ...]:
        """Return when labels are read off gradients."""
        return (self.params.direct_scope,) if "gradients" in self.sees() else ()

    def auxiliary_request(self) -> AuxiliaryRequest | None:
        """Return the number of labeled rows to grant and how to draw them; None if none are known."""
        p = self.params
        if p.aux == "direct":
            return None
        *smaller, most = p.aux_per_class if isinstance(p.aux_per_class, tuple) else (p.aux_per_class,)
        return AuxiliaryRequest(how=p.aux, per_class=most, total=p.aux_total, smaller=tuple(s for s in smaller if s))

    def tunable(self, epochs: int) -> Mapping[str, Sequence[Any]]:
        """Return the ways of training a head that are cheap enough to be tried again and again."""
        return {"variants": [("logreg", "logreg_all", "conditioned"), ("head_only",), ("mixmatch_frozen",)]}

    def run(self, view: View) -> dict[str, Answer]:
        """Return an answer per variant, of each number of labeled rows: scores ``(*trials, N, K)``.

        Raises:
            SpecError: with fewer labeled rows than classes, or none that is unlabeled.
        """
        sizes = self.params.aux_per_class
        if self.params.aux == "direct":
            return self._complete(self._read(view))
        if not isinstance(sizes, tuple):
            return self._complete(view)
        sets = [*view.auxiliary.smaller.values(), view.auxiliary]
        answers: dict[str, Answer] = {}
        for rows, known in zip(sizes, sets, strict=True):
            # Streams begin again, so that an answer is the one that this number of rows alone would give.
            seen = replace(view.holding(auxiliary=known), streams=view.streams.restarted())
            answers |= {f"{variant}@{rows}": answer for variant, answer in self._complete(seen).items()}
        return answers

    def _read(self, view: View) -> View:
        """Return the view with labels that were read off gradients in the place of known ones."""
        p, seen, bottom = self.params, view.recording(self.params.direct_scope), view.bottom()
        if isinstance(bottom, JoinedBottoms):  # without a top model what all parties receive is the same but for noise
            received = torch.stack(seen.gradients.chunk(len(bottom.parts), -1))
            seen = replace(seen, gradients=received.mean(0))
        count = p.aux_total or min(_READ, view.features.train.shape[len(view.lead)] // 2)
        return view.holding(auxiliary=labels_read_off(view, seen, p.direct_rule, count))

    def _complete(self, view: View) -> dict[str, Answer]:
        completion = Completion(view, self.params)
        asked = [v for v in dict.fromkeys(self.params.variants) if _applies(v, view.features)]
        # Where no defense had columns added, as for R_lower, `conditioned` has nothing to condition on. If it is the
        # only variant asked for, logreg_all takes its place: the one nearest to it, which reads features too.
        return {variant: completion.answer(variant) for variant in asked or ["logreg_all"]}


def _applies(variant: Variant, features: Features) -> bool:
    if variant == "conditioned":
        return features.added > 0
    return variant not in MIXES_INPUTS or features.train.is_floating_point()
