"""Networks of teachers: the papers' nets for images and texts, the parties' own net, or linear layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from tune_vfl.errors import SpecError, UsageError
from tune_vfl.models.base import MODELS, Architecture, ModelOptions, build_architecture, built_bottom
from tune_vfl.models.layers import stack_of
from tune_vfl.seeds import Stream
from tune_vfl.spec import Named

TeacherName = Literal["mlp", "resnet20", "resnet50", "bert", "distilbert", "same"]
_NOT_OF_A_TEACHER = frozenset({"aggregation", "cut", "embedding_dim", "head", "top", "top_hidden"})
"""Options of a model that say how parties are joined; a teacher is the net, and one linear layer to the classes."""

PUBLISHED_FOR: Mapping[str, str] = {
    "resnet18": "image",
    "resnet20": "image",
    "resnet50": "image",
    "bert": "text",
    "distilbert": "text",
}
"""The parties' models for which papers name a teacher, and the kind of data that they read."""


class TeacherNet(BaseModel):
    """The network of a teacher: ``{model: resnet50, weights: FILE}``, or just ``resnet50``.

    What stands beside ``model`` are options of that model. With ``same`` a spec gives none: the parties' model is
    written in, its name as ``name``.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    model: TeacherName = Field(
        description="mlp: linear layers of teacher_hidden; same: the parties' bottom model and a linear layer; else "
        "that net and a linear layer"
    )

    @model_validator(mode="before")
    @classmethod
    def _model_alone(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _options_are_the_models(self) -> Self:
        given = self.options
        if self.model == "mlp" and given:
            raise ValueError(f"an mlp takes its widths from teacher_hidden; leave out {', '.join(given)}")
        if self.model != "same" and (idle := sorted(_NOT_OF_A_TEACHER & set(given))):
            raise ValueError(f"a teacher is the net and one linear layer; leave out {', '.join(idle)}")
        if self.model != "same" or "name" in given:
            try:
                self.architecture()
            except SpecError as error:
                raise ValueError("; ".join(error.problems)) from error
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Everything but ``model``."""
        return dict(self.model_extra or {})

    def architecture(self) -> Architecture[ModelOptions]:
        """Return the architecture of the teacher's bottom model.

        Raises:
            SpecError: for options that the model does not take.
            UsageError: for ``same`` where no parties' model was written in.
        """
        if self.model != "same":
            return build_architecture(Named(name=self.model, **self.options))
        if "name" not in self.options:
            raise UsageError(
                "teacher: `same` stands for the parties' model, which a spec gives; write its name and options beside "
                "it, {model: same, name: lenet}"
            )
        return build_architecture(Named(**{k: v for k, v in self.options.items() if k != "cut"}))


def teacher_for(given: object, *, model: Named, modality: str, published: Mapping[str, str]) -> Any:
    """Return the ``teacher`` of a defense that is going to be evaluated with the parties' model.

    Args:
        given: as a spec has it; None where it does not say.
        model: the parties', with all options.
        modality: of the data: ``table``, ``image`` or ``text``.
        published: by modality, the net that the defense's paper names.

    Returns:
        A mapping; None for linear layers, where neither a spec nor a paper says anything. What is no teacher at all is
        returned as it is, for a later validation.

    Raises:
        SpecError: for a net that does not read such data.
    """
    if given is None:
        kind = PUBLISHED_FOR.get(model.name)
        return None if kind is None else {"model": published[kind]}
    found = {"model": given} if isinstance(given, str) else given
    if not isinstance(found, Mapping) or found.get("model") not in get_args(TeacherName):
        return given
    if found["model"] == "same":
        return {"name": model.name, **model.options, **found}
    reads = MODELS[found["model"]].modalities
    if found["model"] != "mlp" and modality not in reads:
        raise SpecError(f"defense.params.teacher: {found['model']} reads {_words(reads)} data, not {modality}s")
    return dict(found)


def teacher_network(net: TeacherNet, rows: Tensor, num_classes: int, stream: Stream) -> nn.Module:
    """Build a teacher ``(B, ...) -> (B, K)`` with its starting weights, on the CPU.

    A net from scratch for texts has as many tokens and places as the rows need.

    Args:
        net: which one; not ``mlp``.
        rows: ``(N, ...)`` that it will read.
        num_classes: K.
        stream: where the weights come from.

    Raises:
        UsageError: when the net does not read rows of this shape.
        SpecError: when the net cannot be built, as from a file that is not there.
    """
    architecture = net.architecture()
    if kind_of(rows) not in architecture.modalities:
        raise UsageError(
            f"teacher {architecture.name!r} reads {_words(architecture.modalities)} data, got rows of shape "
            f"{tuple(rows.shape[1:])}, {rows.dtype}"
        )
    if kind_of(rows) == "text":
        architecture = _wide_enough(architecture, rows)
    shape = tuple(rows.shape[1:])
    if net.model != "same":
        return built_bottom(architecture, shape, (), num_classes, stream)
    width = architecture.options.embedding_dim
    bottom = built_bottom(architecture, shape, (), width, stream)
    return nn.Sequential(bottom, nn.ReLU(), *stack_of([width, num_classes], nn.ReLU, stream=stream))


def kind_of(rows: Tensor) -> str:
    """Return the kind of ``(N, ...)`` rows: tokens of a ``text``, an ``image`` (C, H, W), or columns of a ``table``."""
    if not rows.is_floating_point():
        return "text"
    return "image" if rows.dim() == 4 else "table"


def _words(modalities: Iterable[str]) -> str:
    return " and ".join(sorted(modalities))


def _wide_enough(architecture: Architecture[ModelOptions], tokens: Tensor) -> Architecture[ModelOptions]:
    options = architecture.options.model_dump(exclude_none=True)
    needed = {"vocabulary": int(tokens.max()) + 1, "positions": tokens.shape[-1]}
    wide = {name: max(options[name], count) for name, count in needed.items()}
    return build_architecture(Named(name=architecture.name, **{**options, **wide}))
