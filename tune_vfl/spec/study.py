"""A study's spec: its fields and how it is parsed. Names of data sets, models and methods are checked elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import to_jsonable_python

from tune_vfl.errors import SpecError
from tune_vfl.spec.bases import Address, ByName, Strict
from tune_vfl.spec.constraints import Constraints
from tune_vfl.spec.explaining import explain
from tune_vfl.spec.federation import Federation, gathered
from tune_vfl.spec.listed import Listed
from tune_vfl.spec.study_name import StudyName

SCHEMA = "tune-vfl/spec/1"

PORTFOLIOS = ("default", "default_features", "thorough")
"""Names under ``attacks`` that stand for the attacks that fit: those on labels which need no oracle and share one
training; those on features; all on labels which need no oracle. In the horizontal setting each stands for the
server's attacks, which are on features."""

SEARCHABLE = ("training", "model")
"""The parts of a spec in which a domain may stand for a value."""


S = TypeVar("S", bound=Strict)


class WithOptions(ByName):
    """A name and its options; the data set, model or attack of that name validates them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def options(self) -> dict[str, Any]:
        """All fields but the name."""
        return dict(self.model_extra or {})


class Named(WithOptions):
    """A registered name and its options: ``{name: pmc, variants: [head_only]}``, or just ``pmc``."""

    name: str


class ModelSpec(WithOptions):
    """An architecture's name and options; without a name, options of the data set's own architecture."""

    name: str | None = None


class Training(Strict):
    """Training recipe of all parties' models. Fields missing in a spec come from the data set's own recipe.

    ``grad_scale``: ``batch_mean`` gives defenses the gradient of the mean loss over the batch, as the reference codes
    do; ``per_sample`` multiplies it by the batch size before the defense and divides it after.
    ``protect_own_bottom``: the defense also changes the gradient of the label party's own bottom model.
    """

    epochs: int = Field(30, ge=1, le=1_000_000)
    batch_size: int = Field(256, ge=2)
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = Field(1e-3, gt=0, allow_inf_nan=False)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False)
    lr_schedule: Literal["constant", "inverse_sqrt", "multistep"] = "constant"
    milestones: tuple[int, ...] = ()
    lr_decay: float = Field(0.1, gt=0, le=1)
    grad_scale: Literal["batch_mean", "per_sample"] = "batch_mean"
    protect_own_bottom: bool = False

    def over(self, recipe: Training) -> Training:
        """Return ``recipe`` with this spec's given fields laid over it."""
        return recipe.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class DefenseSpec(ByName, Strict):
    """A defense, the space to search (a named space of search_spaces/, or one written out), and fixed parameters."""

    name: str
    space: str | dict[str, Any] = "default"
    params: dict[str, Any] = Field(default_factory=dict)


class Budget(Strict):
    """Limits of a search: counted trials, seeds a trial, minutes in all, minutes a trial."""

    trials: int = Field(40, ge=1, lt=2**31)
    seeds: int = Field(3, ge=1, le=10_000)
    minutes: float | None = Field(None, gt=0)
    trial_minutes: float | None = Field(None, gt=0)


class Threat(Strict):
    """Knowledge that all attackers of a study share, so that they are compared as one adversary.

    ``labels_per_class``: labeled training rows of each class (none: the data set's recipe); ``hints``: positive rows of
    each batch that are known; ``pairs``: rows whose features the label party knows, where a model's secrets are fitted.
    ``parties``: ``each`` passive party attacks by itself, or all of them ``together`` too.
    """

    labels_per_class: int | None = Field(None, ge=1)
    hints: int = Field(1, ge=1, le=64)
    pairs: int = Field(16, ge=1)
    parties: Literal["each", "together"] = "each"


class SamplerSpec(ByName, Strict):
    """A registered sampler's name and seed."""

    name: str = "tpe"
    seed: int = Field(0, ge=0)


class Stop(Strict):
    """Conditions that end a search early; ``front`` is a number of trials in a row that have not grown the front."""

    front: int | None = Field(None, ge=1, lt=2**31)


def _setting_or_file(value: Any) -> Any:
    if isinstance(value, str | Mapping):
        return value
    raise ValueError("expected a setting such as {scale: 0.01}, or the path of an exported one")


Start = Annotated[str | dict[str, Any], BeforeValidator(_setting_or_file)]
"""A setting by its parameters, or the path of a file that ``tune-vfl export`` wrote."""


class Resources(Strict):
    """CPUs and GPUs of one pack, number of concurrent packs (``concurrency``), and number of trials in a pack."""

    cpu: float = Field(1, gt=0, allow_inf_nan=False)
    gpu: float = Field(0, ge=0, allow_inf_nan=False)
    concurrency: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    pack: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"


class StudySpec(Strict):
    """One study: one dataset, one defense, any number of attacks.

    In ``training`` and ``model`` a domain may take the place of a value:
    ``{lr: {float: [1.0e-4, 1.0e-2], log: true}}``. Such a field then counts as not given and takes its value from the
    data set's recipe; its domain is in :attr:`searched`.

    ``constraints`` are met with ``confidence``, one-sided. ``allocation`` says how a campaign's trials are spread over
    its defenses: ``even`` is to all alike.

    ``start`` are settings of the defense that are tried first, in this order. It may stand in the defense's entry too,
    beside ``space``, as the defenses of a campaign have parameters of their own.
    """

    study: StudyName
    dataset: Named
    model: ModelSpec = Field(default_factory=ModelSpec)
    training: Training = Field(default_factory=Training)
    defense: DefenseSpec
    attacks: Listed[Named] = Field((Named(name="default"),), min_length=1)
    federation: Federation = Field(default_factory=Federation)
    threat: Threat = Field(default_factory=Threat)
    budget: Budget = Field(default_factory=Budget)
    sampler: SamplerSpec = Field(default_factory=SamplerSpec)
    start: Listed[Start] = ()
    stop: Stop = Field(default_factory=Stop)
    resources: Resources = Field(default_factory=Resources)
    constraints: Constraints = Field(default_factory=dict)
    confidence: float = Field(0.9, gt=0.5, lt=1)
    allocation: Literal["even"] = "even"
    storage: Address | None = None
    tracking: Address | None = None
    _searched: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def searched(self) -> dict[str, Any]:
        """The given domains by full name, such as ``training.lr``.

        Any mapping counts as a domain, because no field of training or model has a mapping for its value.
        """
        return dict(self._searched)

    def at(self, name: str, value: Any) -> StudySpec:
        """Return the spec with a value in place of the domain of ``name``.

        Raises:
            SpecError: when the field does not take it.
        """
        part, _, field = name.partition(".")
        raw = self.model_dump(exclude_unset=True)
        return parse({**raw, part: {**raw.get(part, {}), field: value}})

    @model_validator(mode="wrap")
    @classmethod
    def _take_domains_out(cls, raw: Any, handler: ModelWrapValidatorHandler[StudySpec]) -> StudySpec:
        if not isinstance(raw, Mapping):
            return handler(raw)
        searched: dict[str, Any] = {}
        rest = _start_on_top(gathered(raw))
        for part in SEARCHABLE:
            if isinstance(given := rest.get(part), Mapping):
                searched |= {f"{part}.{k}": to_jsonable_python(v) for k, v in given.items() if isinstance(v, Mapping)}
                rest[part] = {k: v for k, v in given.items() if not isinstance(v, Mapping)}
        spec = handler(rest)
        spec._searched = searched
        return spec

    @model_serializer(mode="wrap")
    def _put_domains_back(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        for name, domain in self._searched.items():
            part, _, field = name.partition(".")
            plain.setdefault(part, {})[field] = domain
        return plain

    @model_validator(mode="after")
    def _each_attack_once(self) -> StudySpec:
        names = [a.name for a in self.attacks]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"attack listed more than once: {', '.join(twice)}; put its variants into one entry")
        return self


def _start_on_top(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a raw spec with the ``start`` of its defense's entry moved to its top."""
    defense = raw.get("defense")
    if not isinstance(defense, Mapping) or "start" not in defense:
        return raw
    if "start" in raw:
        raise ValueError("start: stands at the top and in the entry of the defense; give it in one of them")
    return {**raw, "defense": {k: v for k, v in defense.items() if k != "start"}, "start": defense["start"]}


def validated(model: type[S], values: Mapping[str, Any], place: str) -> S:
    """Validate the options or parameters of something registered.

    Raises:
        SpecError: every problem, with its place in the spec and the known fields.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SpecError([f"{place}: {problem}" for problem in explain(error, model)]) from error


def parse(raw: Mapping[str, Any]) -> StudySpec:
    """Parse one study.

    Raises:
        SpecError: listing every problem.
    """
    try:
        return StudySpec.model_validate(dict(raw))
    except ValidationError as error:
        raise SpecError(explain(error, StudySpec)) from error


def json_schema(samplers: Iterable[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of a study's spec, for editors.

    Args:
        samplers: the registered names, which are not known here; without them any name fits.
    """
    schema = {"$id": SCHEMA, **StudySpec.model_json_schema()}
    if known := list(samplers):
        schema["$defs"]["SamplerSpec"]["properties"]["name"]["enum"] = known
    fields = schema["$defs"]["Training"]["properties"]
    domain = {"type": "object", "description": "a domain to search: float: [low, high], int: [low, high] or choice: []"}
    fields.update({name: {"anyOf": [field, domain]} for name, field in fields.items()})
    return schema
