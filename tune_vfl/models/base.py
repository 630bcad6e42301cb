"""The interface of a model, and the network of two or more parties that is built from an architecture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any, ClassVar, Generic, Literal, Required, TypedDict, TypeVar, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_vfl.errors import SpecError
from tune_vfl.registry import Registry
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import VERTICAL, FederationName, Named, Strict, Training, validated

Aggregation = Literal["concat", "sum", "mean"]
HeadOption = Literal["auto", "classes", "scalar"]
Width = Annotated[int, Field(ge=1)]
"""Output width of a layer, or number of channels."""


class ModelOptions(Strict):
    """Options of every architecture."""

    aggregation: Aggregation = Field("concat", description="how the label party joins the embeddings")
    top: Literal["net", "none"] = Field("net", description="none: the summed embeddings are the logits (aggVFL)")
    embedding_dim: int = Field(10, ge=1, description="width of each party's embedding; K where there is no top model")
    head: HeadOption = Field(
        "auto", description="the logits: classes: one for each; scalar: a single one; auto: what the architecture gives"
    )

    def implied(self) -> dict[str, Any]:
        """Return, by name, the values of options that were not given and that follow from other options."""
        return {}


class RowsOfParties(TypedDict, total=False):
    """The rows that a network is built for, see :func:`build`."""

    passive_shapes: Required[Sequence[tuple[int, ...]]]
    own_shape: Required[tuple[int, ...] | None]
    num_classes: Required[int]
    streams: Required[Streams]
    fields: Sequence[tuple[int, ...]]
    widened: int


# Covariant, so that an architecture with its own options is an architecture; options are frozen.
M_co = TypeVar("M_co", bound=ModelOptions, covariant=True)


class Learner(ABC, Generic[M_co]):
    """A registered model: what the parties train together, by its name and its options.

    Attributes:
        Options: its options.
        stackable: whether its modules take any leading axes.
        modalities: the kinds of data it reads: ``table``, ``image``, ``text``.
        federations: the settings that it is for.
        brings: the one that it is trained in where a spec names none.
        recipe: the training recipe of a model that no data set's own one fits; None takes the data set's.
        binary_logit: two classes get one logit, that of the positive class, unless the options ask for class logits.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    Options: ClassVar[type[ModelOptions]] = ModelOptions
    stackable: ClassVar[bool] = True
    federations: ClassVar[frozenset[FederationName]] = VERTICAL
    brings: ClassVar[FederationName] = "vertical"
    recipe: ClassVar[Training | None] = None
    modalities: ClassVar[frozenset[str]] = frozenset({"table", "image"})  # not text: tokens are names, not numbers
    binary_logit: ClassVar[bool] = False

    def __init__(self, options: M_co) -> None:
        self.options = options

    def outputs(self, num_classes: int) -> int:
        """Return the number of logits for K classes."""
        if self.options.head == "auto":
            return 1 if self.binary_logit and num_classes == 2 else num_classes
        return 1 if self.options.head == "scalar" else num_classes

    def width(self, shape: tuple[int, ...], num_classes: int) -> int:
        """Return the number of columns that a party sends for each of its rows, and of their gradient.

        Args:
            shape: the shape of one row.
            num_classes: K.
        """
        del shape
        return self.outputs(num_classes) if self.options.top == "none" else self.options.embedding_dim

    @property
    def joins(self) -> bool:
        """Whether the top model reads columns side by side: of several parties, and extension columns."""
        return True

    @abstractmethod
    def network(self, **rows: Unpack[RowsOfParties]) -> VflNetwork:
        """Build the network that is trained; one without parts where something else is."""


class Architecture(Learner[M_co]):
    """A registered architecture: how one party's bottom model and the label party's top model are built."""

    def network(self, **rows: Unpack[RowsOfParties]) -> VflNetwork:
        """Build a bottom model a party, and the top model."""
        return build(self, **rows)

    @abstractmethod
    def bottom(self, shape: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build a bottom model ``(*trials, B, *shape) -> (*trials, B, d_out)``."""

    def bottom_of(self, shape: tuple[int, ...], fields: tuple[int, ...], d_out: int, stream: Stream) -> nn.Module:
        """Build a bottom model for columns that fields of a table became; by default as :meth:`bottom` does.

        Args:
            shape: the shape of one row.
            fields: how many columns each field of a table became, in order, 1 for a number; their sum is the number of
                columns. Empty where that is not known.
            d_out: width of the embedding.
            stream: where the weights come from.
        """
        del fields
        return self.bottom(shape, d_out, stream)

    @abstractmethod
    def top(self, d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build a top model ``(*trials, B, d_in) -> (*trials, B, d_out)``."""

    def top_of(self, shapes: Sequence[tuple[int, ...]], d_in: int, d_out: int, stream: Stream) -> nn.Module:
        """Build a top model for the embeddings of rows of these shapes; by default as :meth:`top` does.

        Args:
            shapes: for each party the shape of one row, the label party's own last where it has any.
            d_in: how many numbers they send together, and columns beside them.
            d_out: number of logits.
            stream: where the weights come from.
        """
        del shapes
        return self.top(d_in, d_out, stream)


MODELS: Registry[Learner[ModelOptions]] = Registry("model", "tune_vfl.models")
model = MODELS.register


def build_model(named: Named) -> Learner[ModelOptions]:
    """Build a cell's model.

    Raises:
        SpecError: for an unknown name or wrong options.
    """
    cls = MODELS[named.name]
    return cls(validated(cls.Options, named.options, f"model {named.name}"))


def build_architecture(named: Named) -> Architecture[ModelOptions]:
    """Build a model that is a network.

    Raises:
        SpecError: for an unknown name or wrong options, and for a model that is no network.
    """
    return as_architecture(build_model(named))


def as_architecture(learner: Learner[ModelOptions]) -> Architecture[ModelOptions]:
    """Return a model that is a network as what it is.

    Raises:
        SpecError: for another one.
    """
    if isinstance(learner, Architecture):
        return learner
    nets = ", ".join(cls.name for cls in MODELS.classes() if issubclass(cls, Architecture))
    raise SpecError(f"model {learner.name!r} has no bottom and top model, and a network is needed here: {nets}")


class VflNetwork(nn.Module):
    """The whole network: a bottom model a party, and the label party's top model.

    Args:
        bottoms: one per passive party.
        own_bottom: the label party's own, None when it has labels only.
        top: the top model, None when the joined embeddings are the logits.
        aggregation: how embeddings are joined.
    """

    def __init__(
        self,
        bottoms: Sequence[nn.Module],
        own_bottom: nn.Module | None,
        top: nn.Module | None,
        aggregation: Aggregation,
    ) -> None:
        super().__init__()
        self.bottoms = nn.ModuleList(bottoms)
        self.own_bottom = own_bottom
        self.top = top
        self.aggregation = aggregation

    def join(self, embeddings: list[Tensor]) -> Tensor:
        """Join the embeddings of all parties, the label party's last: ``(*trials, B, d)``."""
        if len(embeddings) == 1:
            return embeddings[0]
        if self.aggregation == "concat":
            return torch.cat(embeddings, dim=-1)
        total = torch.stack(embeddings).sum(0)
        return total / len(embeddings) if self.aggregation == "mean" else total

    def total(self, joined: Tensor, parties: int) -> Tensor | None:
        """Return the joined embedding, detached, where it is a sum or mean of several parties'; else None."""
        return None if parties == 1 or self.aggregation == "concat" else joined.detach()

    def head(self, joined: Tensor) -> Tensor:
        """Logits from the joined embeddings."""
        return joined if self.top is None else self.top(joined)

    def forward(self, passive: Sequence[Tensor], own: Tensor | None) -> Tensor:
        """Logits from every party's rows."""
        embeddings = [bottom(x) for bottom, x in zip(self.bottoms, passive, strict=True)]
        if self.own_bottom is not None:
            embeddings.append(self.own_bottom(own))
        return self.head(self.join(embeddings))


def build(
    architecture: Architecture[ModelOptions],
    *,
    passive_shapes: Sequence[tuple[int, ...]],
    own_shape: tuple[int, ...] | None,
    num_classes: int,
    streams: Streams,
    fields: Sequence[tuple[int, ...]] = (),
    widened: int = 0,
) -> VflNetwork:
    """Build the network of an architecture for given parties.

    Args:
        architecture: how bottom and top models are built.
        passive_shapes: for each passive party the shape of one row.
        own_shape: the shape of the label party's own rows; None where it has none.
        num_classes: K.
        streams: where the weights come from; their seeds decide the leading axes.
        fields: for each party, the label party last, how many columns each field of its table became. Columns beyond
            these, which a defense made a party add, are numbers. Empty where that is not known.
        widened: columns that the first passive party sends beside its embedding, which the top model then takes too.
    """
    options, outputs = architecture.options, architecture.outputs(num_classes)
    shapes = [*passive_shapes, *([own_shape] if own_shape else [])]
    widths = [architecture.width(shape, num_classes) for shape in shapes]
    held = [*fields, *[()] * len(shapes)]
    names = [*map(str, range(len(passive_shapes))), "own"]
    made = [
        built_bottom(architecture, shape, of, width, streams[f"init/bottom/{name}"])
        for shape, of, width, name in zip(shapes, held, widths, names, strict=False)
    ]
    bottoms, own = made[: len(passive_shapes)], made[-1] if own_shape else None
    width = sum(widths) + widened if options.aggregation == "concat" else widths[0]
    with _without_torchs_generator():
        top = None if options.top == "none" else architecture.top_of(shapes, width, outputs, streams["init/top"])
    return VflNetwork(bottoms, own, top, options.aggregation)


def built_bottom(
    architecture: Architecture[ModelOptions], shape: tuple[int, ...], held: tuple[int, ...], width: int, stream: Stream
) -> nn.Module:
    """Build the bottom model of one party.

    Args:
        architecture: how bottom models are built.
        shape: of one of its rows.
        held: how many columns each field of its table became; columns beyond these are numbers. Empty: not known.
        width: of its embedding.
        stream: where the weights come from.
    """
    fields = (*held, *[1] * (shape[0] - sum(held))) if held else ()
    with _without_torchs_generator():
        return architecture.bottom_of(shape, fields, width, stream)


def _without_torchs_generator() -> AbstractContextManager[None]:
    """Preserve the state of torch's global generator while layers draw weights that are redrawn later."""
    return torch.random.fork_rng(devices=[])
