"""One attacker's material for model completion, and the training of each variant on it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Literal, Self

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tune_vfl.attacks.parts.conditioned import Conditioned
from tune_vfl.attacks.parts.coordinates import RowCoordinates
from tune_vfl.attacks.parts.inference_head import InferenceHead
from tune_vfl.attacks.parts.logistic import choose_and_fit, logits_of
from tune_vfl.attacks.parts.mixed_rows import Fit, Pool
from tune_vfl.attacks.parts.mixmatch import mixmatch, supervised
from tune_vfl.attacks.parts.mixmatch_head import mixmatch_of_head
from tune_vfl.attacks.parts.signs import Rule
from tune_vfl.errors import SpecError
from tune_vfl.protocol.folds import folds_of
from tune_vfl.protocol.granted import Instant
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Answer, View
from tune_vfl.spec import Listed, Strict

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

REGRESSIONS: frozenset[Variant] = frozenset({"logreg", "logreg_all", "conditioned"})
MIXES_INPUTS: frozenset[Variant] = frozenset({"mixmatch_unfrozen", "fidelity"})


def _rising(value: int | tuple[int, ...]) -> int | tuple[int, ...]:
    if isinstance(value, int):
        return value
    sizes = tuple(sorted(set(value)))
    return sizes if len(sizes) > 1 else sizes[0]


RowCount = Annotated[int, Field(ge=1)]
PerClass = Annotated[RowCount | Annotated[tuple[RowCount, ...], Field(min_length=1)], AfterValidator(_rising)]


class PmcParams(Strict):
    """Parameters of :class:`Pmc`."""

    variants: Listed[Variant] = Field(
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
    epochs: int = Field(200, ge=1, description="passes over the labeled rows of head_only and supervised")
    validate_folds: int = Field(
        0,
        ge=0,
        le=10,
        description="cross-validate every variant on the labeled rows with this many folds (costs as many trainings); "
        "0: only the regressions, which do so anyway",
    )
    aux: Literal["per_class", "random", "direct"] = Field(
        "per_class",
        description="how the labeled rows are drawn; direct: no label is known, and those of random rows are read off "
        "their gradients, as the attack `direct` does (no top model)",
    )
    aux_per_class: PerClass | None = Field(
        None,
        description="labeled rows a class; none: the data set's recipe; a list: every variant with each of these "
        "numbers of rows, as variant@rows",
    )
    aux_total: int | None = Field(
        None,
        ge=2,
        description="labeled rows in all for aux: random and direct; none: of direct 500, or half of the rows",
    )
    direct_rule: Rule = Field("argmin", description="the rule of `direct` by which labels are read for aux: direct")
    direct_scope: Instant = Field("epoch0", description="when they are read")

    @model_validator(mode="after")
    def _sizes_are_by_class(self) -> Self:
        if isinstance(self.aux_per_class, tuple) and self.aux != "per_class":
            raise ValueError(
                f"aux_per_class: a list of sizes is of rows a class; leave aux: {self.aux} out, or give one"
            )
        return self


_log = logging.getLogger(__name__)
_CHUNK = 4096
_CAP = 2000
_STRENGTHS = (0.01, 0.1, 1.0)
_STRENGTHS_OF_ALL = (0.1, 1.0, 10.0, 100.0)
_FOLDS = 5


def in_chunks(model: Callable[[Tensor], Tensor], x: Tensor, axis: int) -> Tensor:
    """Apply a model without gradients to rows along ``axis``, a few thousand at a time."""
    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(x, _CHUNK, axis)], axis)


class Completion:
    """Embeddings, labeled and unlabeled rows of one view.

    Raises:
        SpecError: with fewer labeled rows than classes, or none that is unlabeled.
    """

    def __init__(self, view: View, params: PmcParams) -> None:
        self._view, self._params, self._axis = view, params, len(view.lead)
        self._x, self._x_test = view.features.train, view.features.test
        self._at, self._y = view.auxiliary.ids, view.auxiliary.labels
        self._rows, known = self._x.shape[self._axis], self._y.shape[-1]
        if known < view.num_classes:
            raise SpecError(
                f"attack {view.attack!r} needs at least {view.num_classes} labeled rows, one a class, got {known}; "
                "raise aux_per_class or aux_total"
            )
        if self._rows <= known:
            raise SpecError(
                f"attack {view.attack!r} got labels for all {self._rows} training rows; lower aux_per_class or "
                "aux_total"
            )
        labeled = torch.zeros(*view.lead, self._rows, dtype=torch.bool, device=self._at.device)
        self._hidden = ~labeled.scatter(-1, self._at, True)
        self._rest = self._hidden.int().argsort(dim=-1, descending=True, stable=True)[..., : self._rows - known]
        bottom = view.bottom().eval()
        self._e, self._e_test = (self._embed(bottom, x) for x in (self._x, self._x_test))

    def _embed(self, bottom: nn.Module, x: Tensor) -> Tensor:
        # A member whose training diverged must not disturb the others of its pack.
        return in_chunks(bottom, x, self._axis).nan_to_num()

    def answer(self, variant: str) -> Answer:
        """Train one variant and score all rows with it."""
        if variant == "logreg":
            return self._logreg()
        if variant == "logreg_all":
            return self._logreg_all()
        if variant == "conditioned":
            return self._conditioned()
        score = self._train(variant, variant, self._at, self._y, self._rest)
        return self._answer(score(False), score(True), self._validated(variant))

    def _answer(self, train: Tensor, test: Tensor, validation: Tensor | None) -> Answer:
        ids = torch.arange(self._rows, device=train.device).expand(*self._view.lead, self._rows)
        return Answer(
            scores=train.softmax(-1).nan_to_num(),
            ids=ids,
            oriented=True,
            counted=self._hidden,
            test=test.softmax(-1).nan_to_num(),
            validation=validation,
        )

    def _folds(self, stream: str, count: int) -> Tensor:
        return folds_of(self._y, self._view.streams[stream].uniform(self._y.shape[-1]), count)

    def _logreg(self) -> Answer:
        spread, center = torch.std_mean(self._e, dim=-2, keepdim=True)
        spread = torch.where(spread > 0, spread, 1.0)
        train, test = (self._e - center) / spread, (self._e_test - center) / spread
        coefficients, validation = self._regression(gather_rows(train, self._at), _STRENGTHS)
        return self._answer(logits_of(train, coefficients), logits_of(test, coefficients), validation)

    def _logreg_all(self) -> Answer:
        held = RowCoordinates(self._view.bottom().eval(), self._x, self._at)
        coefficients, validation = self._regression(
            held(gather_rows(self._x, self._at)), _STRENGTHS_OF_ALL, "logreg_all/folds"
        )
        train, test = (
            in_chunks(lambda part: logits_of(held(part), coefficients), x, self._axis) for x in (self._x, self._x_test)
        )
        return self._answer(train, test, validation)

    def _conditioned(self) -> Answer:
        held = Conditioned(self._x, self._e, self._view.features.added)
        train, test = held(self._x, self._e), held(self._x_test, self._e_test)
        coefficients, validation = self._regression(gather_rows(train, self._at), _STRENGTHS, "conditioned/folds")
        return self._answer(logits_of(train, coefficients), logits_of(test, coefficients), validation)

    def _regression(
        self, known: Tensor, strengths: tuple[float, ...], stream: str = "logreg/folds"
    ) -> tuple[Tensor, Tensor]:
        """Fit the labeled rows ``(*trials, A, width)``; return coefficients and the cross-validated accuracy."""
        count = min(_FOLDS, self._y.shape[-1])
        folds = self._folds(stream, count)
        strength = torch.tensor(strengths, device=known.device)
        return choose_and_fit(known, self._y, folds, count, strength, num_classes=self._view.num_classes)

    def _fit(self, variant: str, known: int, rest: int) -> Fit:
        p = self._params
        batch = min(p.batch_size, known, rest)
        if batch < p.batch_size:
            _log.info("pmc %s: batch of %d rows reduced to %d, all that there are", variant, p.batch_size, batch)
        own = {"mixmatch_frozen": 1600, "mixmatch_unfrozen": 400, "fidelity": 25 * 1024}
        steps = own.get(variant, min(p.epochs * (known // batch), _CAP))
        decay = 0.999 if variant == "fidelity" else 0.99
        return Fit(p.steps or steps, p.lr, batch, decay if p.ema_decay is None else p.ema_decay)

    def _train(self, variant: str, name: str, at: Tensor, y: Tensor, rest: Tensor) -> Callable[[bool], Tensor]:
        """Train on the labeled rows ``at``; return the logits of all training rows, or of all test rows."""
        view, streams = self._view, self._view.streams
        frozen = variant in ("head_only", "mixmatch_frozen")
        head = InferenceHead(
            self._e.shape[-1],
            view.num_classes,
            layers=self._params.head_layers,
            stream=streams[f"{name}/head"],
            lead=view.lead,
        )
        model = head.to(self._e.device) if frozen else nn.Sequential(view.bottom(), head.to(self._e.device))
        x, x_test = (self._e, self._e_test) if frozen else (self._x, self._x_test)
        fit = self._fit(variant, at.shape[-1], rest.shape[-1])
        targets = one_hot(y, view.num_classes).to(x.dtype)
        if variant in ("head_only", "supervised"):
            supervised(model, gather_rows(x, at), targets, fit, streams=lambda s: streams[f"{name}/{s}"])
        elif model is head and self._params.head_layers == 1:
            mixmatch_of_head(head, Pool(x, at, targets, rest), fit, streams=lambda s: streams[f"{name}/{s}"])
        else:
            mixmatch(model, Pool(x, at, targets, rest), fit, streams=lambda s: streams[f"{name}/{s}"])
        return lambda test: in_chunks(model, x_test if test else x, self._axis)

    def _validated(self, variant: str) -> Tensor | None:
        """Cross-validated accuracy on the labeled rows ``(*trials,)``, if requested."""
        count = min(self._params.validate_folds, self._y.shape[-1])
        if count < 2:
            return None
        order = self._folds(f"{variant}/folds", count).argsort(dim=-1, stable=True)
        folds = order.tensor_split(count, -1)
        right = []
        for f, held_out in enumerate(folds):
            kept = torch.cat([part for g, part in enumerate(folds) if g != f], -1)
            at, y = gather_rows(self._at, kept), gather_rows(self._y, kept)
            rest = torch.cat([self._rest, gather_rows(self._at, held_out)], -1)
            score = self._train(variant, f"{variant}/fold{f}", at, y, rest)
            said = gather_rows(score(False), gather_rows(self._at, held_out)).argmax(-1)
            right.append((said == gather_rows(self._y, held_out)).float())
        return torch.cat(right, -1).mean(-1)
