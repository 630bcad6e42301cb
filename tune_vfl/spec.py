"""A study's spec: parsing only. :mod:`tune_vfl.resolve` checks it against the registered capabilities."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tune_vfl.errors import SpecError

SCHEMA = "tune-vfl/spec/1"


class Strict(BaseModel):
    """A model that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(BaseModel):
    """A registered thing and its options: ``{name: pmc, variants: [head_only]}``, or just ``pmc``."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.model_extra or {})


class ModelSpec(BaseModel):
    """An architecture's name and options; without a name the options go to the data set's own architecture."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.model_extra or {})


class Training(Strict):
    """How the undefended parts are trained. Fields not given in a spec take the dataset's own recipe.

    ``grad_scale``: ``batch_mean`` hands defenses the gradient of the batch-mean loss, as the reference codes do;
    ``per_sample`` multiplies it by the batch size before the defense and divides after it (methods.md 0.4).
    ``protect_own_bottom``: the defense also touches the label party's own bottom model (methods.md 0.5).
    """

    epochs: int = Field(30, ge=1)
    batch_size: int = Field(256, ge=2)
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = Field(1e-3, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    lr_schedule: Literal["constant", "inverse_sqrt", "multistep"] = "constant"
    milestones: tuple[int, ...] = ()
    lr_decay: float = Field(0.1, gt=0, le=1)
    grad_scale: Literal["batch_mean", "per_sample"] = "batch_mean"
    protect_own_bottom: bool = False

    def over(self, recipe: Training) -> Training:
        """Return ``recipe`` with the fields that were given here laid over it."""
        return recipe.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class DefenseSpec(Strict):
    """A defense, the space to search (a named space of search_spaces/, or one written out), and fixed parameters."""

    name: str
    space: str | dict[str, Any] = "default"
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Budget(Strict):
    """How much to spend: finished trials, seeds a trial, minutes in all, minutes a trial."""

    trials: int = Field(40, ge=1)
    seeds: int = Field(3, ge=1)
    minutes: float | None = Field(None, gt=0)
    trial_minutes: float | None = Field(None, gt=0)


class Sampler(Strict):
    """Which Optuna sampler proposes settings, and its seed."""

    name: Literal["tpe", "nsga2", "random", "grid", "gp"] = "tpe"
    seed: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Resources(Strict):
    """What one pack of trials takes, how many packs run at once, and how many trials a pack holds."""

    cpu: float = Field(1, gt=0)
    gpu: float = Field(0, ge=0)
    concurrency: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    pack: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, (str, Mapping)) else value


class StudySpec(Strict):
    """One study: one dataset, one defense, any number of attacks."""

    study: str = Field(min_length=1, max_length=120, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    dataset: Named
    model: ModelSpec = Field(default_factory=ModelSpec)
    training: Training = Field(default_factory=Training)
    defense: DefenseSpec
    attacks: Annotated[tuple[Named, ...], BeforeValidator(_as_list)] = Field(min_length=1)
    budget: Budget = Field(default_factory=Budget)
    sampler: Sampler = Field(default_factory=Sampler)
    resources: Resources = Field(default_factory=Resources)
    storage: str | None = None
    tracking: str | None = None

    @model_validator(mode="after")
    def _each_attack_once(self) -> StudySpec:
        names = [a.name for a in self.attacks]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"attack listed more than once: {', '.join(twice)}; put its variants into one entry")
        return self


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a spec file.

    Raises:
        SpecError: when the file is missing, is not YAML, or does not hold a mapping.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read ({error}); give the path of a YAML spec") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: is not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise SpecError(
            f"{path}: expected a mapping with study, dataset, defense and attacks, got {type(raw).__name__}"
        )
    return raw


def apply_settings(raw: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Lay ``a.b=c`` settings over a raw spec; values are read as YAML.

    ``attacks.NAME.PARAM`` reaches an attack by its name.

    Raises:
        SpecError: for a setting without ``=`` or a path through something that is no mapping.
    """
    spec = copy.deepcopy(dict(raw))
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise SpecError(f"--set {setting!r}: expected PATH=VALUE, such as training.epochs=50")
        _set(spec, path.strip().split("."), parse_value(text), setting)
    return spec


def parse_value(text: str) -> Any:
    """Read a value as YAML, and numbers such as ``1e-3``, which YAML takes for text, as numbers."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError(f"value {text!r} is not valid YAML: {error}") from error
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _set(spec: dict[str, Any], path: list[str], value: Any, setting: str) -> None:
    if path[0] == "attacks" and len(path) == 3:
        _set_attack(spec, path[1], path[2], value)
        return
    here = spec
    for key in path[:-1]:
        if isinstance(here.get(key), str):
            here[key] = {"name": here[key]}
        here = here.setdefault(key, {})
        if not isinstance(here, dict):
            raise SpecError(
                f"--set {setting!r}: {key!r} holds {here!r}, not a mapping, so nothing can be set inside it"
            )
    here[path[-1]] = value


def _set_attack(spec: dict[str, Any], name: str, param: str, value: Any) -> None:
    listed = _as_list(spec.get("attacks", []))
    entries = [{"name": e} if isinstance(e, str) else dict(e) for e in listed]
    for entry in entries:
        if entry.get("name") == name:
            entry[param] = value
            spec["attacks"] = entries
            return
    known = ", ".join(str(e.get("name")) for e in entries) or "none"
    raise SpecError(f"--set attacks.{name}.{param}: attack {name!r} is not in the spec; it has: {known}")


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Turn a pydantic error into one sentence a problem, with the nearest known field for an unknown one."""
    problems = []
    for item in error.errors(include_url=False):
        place = ".".join(str(p) for p in item["loc"]) or "spec"
        if item["type"] == "extra_forbidden":
            known = _fields_at(model, item["loc"][:-1]) if model else []
            near = difflib.get_close_matches(str(item["loc"][-1]), known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            problems.append(f"{place}: no such field.{hint}" + (f" Known: {', '.join(known)}." if known else ""))
        elif item["type"] == "missing":
            problems.append(f"{place}: is required and missing")
        else:
            message = item["msg"].removeprefix("Value error, ")
            problems.append(f"{place}: {message[0].lower()}{message[1:]}, got {item['input']!r}")
    return problems


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for key in path:
        field = model.model_fields.get(str(key))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def parse(raw: Mapping[str, Any]) -> StudySpec:
    """Parse one study.

    Raises:
        SpecError: listing every problem.
    """
    try:
        return StudySpec.model_validate(dict(raw))
    except ValidationError as error:
        raise SpecError(explain(error, StudySpec)) from error


def expand(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Expand a raw spec whose dataset or defense is a list (at the top or under ``matrix``) into one raw spec a study.

    Studies of a matrix are named ``STUDY-DATASET-DEFENSE``; a spec without lists comes back alone, its name unchanged.

    Raises:
        SpecError: when ``matrix`` is no mapping, holds other keys, or two studies would get one name.
    """
    spec = dict(raw)
    matrix = spec.pop("matrix", {})
    if not isinstance(matrix, dict) or not set(matrix) <= {"dataset", "defense", "attacks"}:
        raise SpecError(f"matrix: expected a mapping with dataset, defense and attacks lists, got {matrix!r}")
    spec.update(matrix)
    datasets, defenses = spec.get("dataset"), spec.get("defense")
    if not isinstance(datasets, list) and not isinstance(defenses, list) and not matrix:
        return [spec]
    studies = []
    for dataset in datasets if isinstance(datasets, list) else [datasets]:
        for defense in defenses if isinstance(defenses, list) else [defenses]:
            name = f"{spec.get('study', 'matrix')}-{_name_of(dataset)}-{_name_of(defense)}"
            studies.append({**spec, "study": name, "dataset": dataset, "defense": defense})
    names = [s["study"] for s in studies]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise SpecError(
            f"matrix: more than one study would be called {', '.join(twice)}; list each dataset and defense once"
        )
    return studies


def _name_of(entry: Any) -> str:
    return str(entry.get("name") if isinstance(entry, Mapping) else entry)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a study's spec, for editors."""
    return {"$id": SCHEMA, **StudySpec.model_json_schema()}
