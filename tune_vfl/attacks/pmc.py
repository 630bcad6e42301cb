"""Passive model completion: a head on the attacker's own bottom model, trained with a few labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.completion import Completion
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from tune_vfl.protocol.view import Answer, Features, View

Variant = Literal[
    "logreg", "logreg_all", "head_only", "mixmatch_frozen", "mixmatch_unfrozen", "fidelity", "supervised", "conditioned"
]
SEARCH: tuple[Variant, ...] = (
    "logreg",
    "logreg_all",
    "head_only",
    "mixmatch_frozen",
    "mixmatch_unfrozen",
    "conditioned",
)


MIXES_INPUTS: frozenset[Variant] = frozenset({"mixmatch_unfrozen", "fidelity"})


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _rising(value: int | tuple[int, ...]) -> int | tuple[int, ...]:
    if isinstance(value, int):
        return value
    sizes = tuple(sorted(set(value)))
    return sizes if len(sizes) > 1 else sizes[0]


Rows = Annotated[int, Field(ge=1)]
PerClass = Annotated[Rows | Annotated[tuple[Rows, ...], Field(min_length=1)], AfterValidator(_rising)]


class PmcParams(Strict):
    """Parameters of :class:`Pmc`."""

    variants: Annotated[tuple[Variant, ...], BeforeValidator(_listed)] = Field(
        SEARCH,
        min_length=1,
        description="logreg: logistic regression on embeddings; logreg_all: on features, the last layer's input and "
        "embeddings; head_only: the head by cross-entropy; mixmatch_frozen: "
        "the head by MixMatch; mixmatch_unfrozen: head and bottom by MixMatch; fidelity: the same at the published "
        "length (25 x 1024 steps); supervised: head and bottom by cross-entropy; conditioned: logistic regression on "
        "features and what embeddings say beyond the columns that a defense had the attacker add (only where it did)",
    )
    steps: int | None = Field(
        None, ge=1, description="steps of every trained variant in place of its own (1600 frozen, 400 unfrozen, 25600)"
    )
    ema_decay: float | None = Field(
        None, ge=0, lt=1, description="decay of MixMatch's averaged model in place of 0.99 (fidelity: 0.999)"
    )
    lr: float = Field(2e-3, gt=0, description="learning rate of Adam")
    batch_size: int = Field(16, ge=2, description="rows of each kind in a step; fewer where there are fewer")
    head_layers: int = Field(1, ge=1, le=5, description="linear layers of the head")
    epochs: int = Field(200, ge=1, description="passes over the labelled rows of head_only and supervised")
    validate_folds: int = Field(
        0,
        ge=0,
        le=10,
        description="cross-validate every variant on the labelled rows with this many folds (costs as many trainings); "
        "0: only the regressions, which do so anyway",
    )
    aux: Literal["per_class", "random"] = Field("per_class", description="how the labelled rows are drawn")
    aux_per_class: PerClass | None = Field(
        None,
        description="labelled rows a class; none: the data set's recipe; a list: every variant with each of these "
        "numbers of rows, as variant@rows",
    )
    aux_total: int | None = Field(None, ge=2, description="labelled rows in all for aux: random")

    @model_validator(mode="after")
    def _sizes_are_by_class(self) -> Self:
        if isinstance(self.aux_per_class, tuple) and self.aux == "random":
            raise ValueError("aux_per_class: a list of sizes is of rows a class; leave aux: random out, or give one")
        return self


@attack("pmc")
class Pmc(Attack[PmcParams]):
    """Completes the trained bottom model with an inference head and reads labels off it; a variant per way of training.

    Every variant answers class probabilities for all training rows, of which the labelled ones are not counted, and for
    the test rows. Variants with a cross-validated accuracy on the labelled rows are those that the attacker can choose
    among. Frozen variants train on embeddings computed once, so their MixMatch mixes embeddings; the others mix inputs,
    and are left out where those are tokens of a text.
    Where a defense had the attacker add random columns, ``conditioned`` discounts what embeddings say of them.
    """

    summary = "complete the attacker's bottom model with a head trained on a few labels"
    reference = "Fu et al., Label Inference Attacks Against Vertical Federated Learning, USENIX Security 2022"
    Params = PmcParams
    capabilities = AttackCapabilities(sees=frozenset({"features", "bottom", "auxiliary"}))
    quick = {"steps": 60}  # noqa: RUF012 - a constant
    draws_as = "pmc"  # also of those that inherit: an attack that acts and then completes has the floor of this one

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return how many labelled rows it wants and how they are drawn."""
        p = self.params
        *smaller, most = p.aux_per_class if isinstance(p.aux_per_class, tuple) else (p.aux_per_class,)
        return AuxiliaryRequest(how=p.aux, per_class=most, total=p.aux_total, smaller=tuple(s for s in smaller if s))

    def run(self, view: View) -> dict[str, Answer]:
        """Return an answer per variant, of each number of labelled rows: scores ``(*trials, N, K)``.

        Raises:
            SpecError: with fewer labelled rows than classes, or none that is unlabelled.
        """
        sizes = self.params.aux_per_class
        if not isinstance(sizes, tuple):
            return self._complete(view)
        sets = [*view.auxiliary.smaller.values(), view.auxiliary]
        answers: dict[str, Answer] = {}
        for rows, known in zip(sizes, sets, strict=True):
            # Streams begin again, so that an answer is the one that this number of rows alone would give.
            seen = replace(view, held_auxiliary=known, streams=view.streams.restarted())
            answers |= {f"{variant}@{rows}": answer for variant, answer in self._complete(seen).items()}
        return answers

    def _complete(self, view: View) -> dict[str, Answer]:
        completion = Completion(view, self.params)
        asked = [v for v in dict.fromkeys(self.params.variants) if _applies(v, view.features)]
        # Asked for alone where there is nothing to condition on, as for R_lower, it is the other that reads features.
        return {variant: completion.answer(variant) for variant in asked or ["logreg_all"]}


def _applies(variant: Variant, features: Features) -> bool:
    if variant == "conditioned":
        return features.added > 0
    return variant not in MIXES_INPUTS or features.train.is_floating_point()
