"""Defenses applied one after the other as one defense: the base of composite defenses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tune_vfl.defenses.base import Defense, DefenseCapabilities, P
from tune_vfl.protocol.granted import Mixtures
from tune_vfl.protocol.hooks import Context, Hooks, RowsById
from tune_vfl.protocol.losses import class_probabilities, task_loss
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.protocol.members import Batch
from tune_vfl.seeds import Stream
from tune_vfl.spec import Named, Strict
from tune_vfl.spec.cell import Mode


def _both(a: DefenseCapabilities, b: DefenseCapabilities) -> DefenseCapabilities:
    binary: Literal["binary", "any"] = "binary" if "binary" in (a.classes, b.classes) else "any"
    return DefenseCapabilities(
        classes=binary,
        modes=a.modes & b.modes,
        modalities=a.modalities & b.modalities,
        run_by=a.run_by if a.run_by == b.run_by else "both",
        protects=tuple(dict.fromkeys(a.protects + b.protects)),
        needs_active_features=a.needs_active_features or b.needs_active_features,
        stackable=a.stackable and b.stackable,
        scale_sensitive=a.scale_sensitive or b.scale_sensitive,
        head=b.head if a.head == "auto" else a.head,
        needs_concat=a.needs_concat or b.needs_concat,
        needs_context=a.needs_context or b.needs_context,
        random=tuple(dict.fromkeys(a.random + b.random)),
        grants=a.grants | b.grants,
        federations=a.federations & b.federations,
        client_bottom=max(a.client_bottom, b.client_bottom, key=_CLOSED.index),
    )


_CLOSED = ("shared", "hidden", "kept")
"""Handlings of a client's bottom model, from the most exposed to the least."""


def combined(stages: Sequence[type[Defense]]) -> DefenseCapabilities:
    """Return the joint capabilities of stages: settings that all support, and changes that any of them makes."""
    return reduce(_both, [stage.capabilities for stage in stages])


def _overrides(stage: type[Defense], hook: str) -> bool:
    return getattr(stage, hook) is not getattr(Hooks, hook)


def _any_overrides(stages: Sequence[Defense], *hooks: str) -> bool:
    return any(_overrides(type(stage), hook) for stage in stages for hook in hooks)


class Pipeline(Defense[P]):
    """Runs the hooks of its stages in order; the last stage with a loss or a decoder of its own provides it.

    A subclass names its ``stages``, takes ``capabilities = combined(stages)``, and has ``Params`` that inherit from
    those of all stages: the parameters lie side by side under the stages' own names. Each stage has random streams of
    its own under the run's seed, so that adding a stage moves no other stage's draws.

    Attributes:
        stages: the classes of the defenses, in the order in which they act.
    """

    stages: ClassVar[tuple[type[Defense], ...]] = ()

    def __init__(
        self, params: P | Sequence[P], *, num_classes: int, embedding_dims: Sequence[int], mode: Mode = "split"
    ) -> None:
        super().__init__(params, num_classes=num_classes, embedding_dims=embedding_dims, mode=mode)
        self.parts: list[Defense] = []
        for stage in self.stages:
            own = [self.part_of(stage, p) for p in self.members]
            given = own if self.stacked else own[0]
            part = stage(given, num_classes=num_classes, embedding_dims=embedding_dims, mode=mode)
            part.stream_prefix = f"{stage.name}/"
            self.parts.append(part)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse stages that share the name of a parameter: one value could not serve both."""
        super().__init_subclass__(**kwargs)
        names = [name for stage in cls.stages for name in stage.Params.model_fields]
        shared = sorted({name for name in names if names.count(name) > 1})
        if shared:
            raise TypeError(
                f"{cls.__name__}: stages share the parameters {', '.join(shared)}; rename them in one stage"
            )

    @staticmethod
    def part_of(stage: type[Defense], params: Strict) -> Strict:
        """Return a stage's own parameters out of those of the pipeline."""
        return stage.Params.model_validate(params.model_dump(include=set(stage.Params.model_fields)))

    @classmethod
    def structure(cls, params: P) -> tuple[object, ...]:
        """Parameters that members of one pack must share: those of each stage."""
        return tuple(stage.structure(cls.part_of(stage, params)) for stage in cls.stages)

    @classmethod
    def completed(cls, given: Mapping[str, Any], *, num_classes: int) -> dict[str, Any]:
        """Return ``given`` with the defaults of each stage that depend on the task filled in."""
        full = dict(given)
        for stage in cls.stages:
            own = {name: full[name] for name in stage.Params.model_fields if name in full}
            full.update(stage.completed(own, num_classes=num_classes))
        return full

    @classmethod
    def fitted_to(cls, given: Mapping[str, Any], *, model: Named, modality: str) -> dict[str, Any]:
        """Return ``given`` completed by each stage."""
        full = dict(given)
        for stage in cls.stages:
            own = {name: full[name] for name in stage.Params.model_fields if name in full}
            full.update(stage.fitted_to(own, model=model, modality=modality))
        return full

    @classmethod
    def problems(cls, params: P, *, num_classes: int, mode: Mode) -> list[str]:
        """Return the problems of all stages."""
        parts = [(stage, cls.part_of(stage, params)) for stage in cls.stages]
        return [p for stage, own in parts for p in stage.problems(own, num_classes=num_classes, mode=mode)]

    @classmethod
    def in_turn(cls, params: P) -> bool:
        """Say whether under any stage clients train one after the other."""
        return any(stage.in_turn(cls.part_of(stage, params)) for stage in cls.stages)

    @property
    def wants_full_view(self) -> bool:
        """Whether any stage does."""
        return any(part.wants_full_view for part in self.parts)

    def extend(
        self, features: Sequence[Tensor], *, seed: int | Sequence[int], part: Literal["train", "test"]
    ) -> list[Tensor]:
        """H0: the columns that the stages have the parties add, those of the last stage outermost."""
        return reduce(lambda known, stage: stage.extend(known, seed=seed, part=part), self.parts, list(features))

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: set the stages up, in order, on the same rows and seed."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        for part in self.parts:
            part.setup(y, ids, active_features=active_features, seed=seed)

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """H2: through all stages."""
        return reduce(lambda changed, part: part.inputs(changed, rows, epoch=epoch), self.parts, batch)

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: each stage transforms the labels of the one before it."""
        for part in self.parts:
            if _overrides(type(part), "labels"):
                y = part.labels(y, ids)
        return y

    def wrap_bottom(self, bottom: nn.Module) -> nn.Module:
        """H2: the first stage's layers are the innermost."""
        return reduce(lambda wrapped, part: part.wrap_bottom(wrapped), self.parts, bottom)

    def send_embedding(self, embedding: Tensor, *, party: int) -> Tensor:
        """H3: through all stages."""
        return reduce(lambda sent, part: part.send_embedding(sent, party=party), self.parts, embedding)

    def wrap_top(self, top: nn.Module) -> nn.Module:
        """H4: the first stage's layers are the innermost."""
        return reduce(lambda wrapped, part: part.wrap_top(wrapped), self.parts, top)

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the loss of the last stage that has one of its own, else cross-entropy."""
        own = [part.loss for part in self.parts if _overrides(type(part), "loss")]
        return own[-1](logits, targets, embeddings) if own else task_loss(logits, targets)

    def top_step(self) -> None:
        """H6: every stage's."""
        for part in self.parts:
            part.top_step()

    def cut_gradient(self, grad: Tensor, *, y: Tensor, context: Context | None = None, party: int = 0) -> Tensor:
        """H7: through all stages."""
        for part in self.parts:
            grad = part.cut_gradient(grad, y=y, context=context, party=party)
        return grad

    def client_update(self, update: Tensor, *, taking: Tensor) -> Tensor:
        """A client's upload after all stages."""
        for part in self.parts:
            update = part.client_update(update, taking=taking)
        return update

    def screen(self, gradients: list[Tensor]) -> list[Tensor]:
        """H7b: through all stages."""
        return reduce(lambda kept, part: part.screen(kept), self.parts, gradients)

    def send_sums(self, sums: Tensor, *, party: int) -> Tensor:
        """With sums: through all stages."""
        return reduce(lambda told, part: part.send_sums(told, party=party), self.parts, sums)

    def kept_at_home(self, shares: Tensor, *, round_: int) -> Tensor:
        """With trees: the nodes that any stage keeps at the label party."""
        return reduce(torch.logical_or, (part.kept_at_home(shares, round_=round_) for part in self.parts))

    def tellable(self, rows: Tensor, *, of_all: Tensor) -> Tensor:
        """Let every part forbid nodes."""
        return reduce(torch.logical_and, (part.tellable(rows, of_all=of_all) for part in self.parts))

    def decode(self, logits: Tensor) -> Tensor:
        """H10: the decoder of the last stage that has one of its own, else probabilities."""
        own = [part.decode for part in self.parts if _overrides(type(part), "decode")]
        return own[-1](logits) if own else class_probabilities(logits)

    def decode_rows(self, logits: Tensor, features: Sequence[Tensor]) -> Tensor:
        """H10 with the rows themselves: the last stage's that reads rows, else :meth:`decode`."""
        own = [part.decode_rows for part in self.parts if type(part).decode_rows is not Defense.decode_rows]
        return own[-1](logits, features) if own else self.decode(logits)

    def disguised(self, bottom: nn.Module, *, stream: Stream) -> nn.Module:
        """Return the bottom model without any stage's secrets."""
        known = super().disguised(bottom, stream=stream)
        return reduce(lambda copied, part: part.disguised(copied, stream=stream), self.parts, known)

    def open_bottom(self, bottom: nn.Module, *, stream: Stream) -> nn.Module:
        """Return the bottom model with every stage's secrets free."""
        known = super().open_bottom(bottom, stream=stream)
        return reduce(lambda copied, part: part.open_bottom(copied, stream=stream), self.parts, known)

    def mixtures(self, epoch: int) -> Mixtures | None:
        """Return the mixtures of the one stage that mixes."""
        return next((found for part in self.parts if (found := part.mixtures(epoch)) is not None), None)

    def mechanism(self) -> Mechanism | None:
        """Return what still holds of the stages' mechanisms behind the other stages.

        What a model is taught holds unless another stage has labels or a loss of its own; what gradients are as they
        are sent, unless a later stage changes them.
        """
        holds: dict[str, Any] = {}
        for place, part in enumerate(self.parts):
            earlier, later, own = self.parts[:place], self.parts[place + 1 :], part.mechanism()
            if own is None:
                continue
            taught = () if _any_overrides(earlier + later, "labels", "loss") else Mechanism.TAUGHT
            as_sent = () if _any_overrides(later, "cut_gradient", "screen") else Mechanism.AS_SENT
            holds |= {name: value for name in taught + as_sent if (value := getattr(own, name)) is not None}
        return Mechanism(**holds) if holds else None

    def also_uploaded(self, times: int) -> None:
        """Pass the value on to every stage."""
        for part in self.parts:
            part.also_uploaded(times)

    def logged(self) -> dict[str, Sequence[float]]:
        """Return the diagnostics of all stages."""
        return {name: values for part in self.parts for name, values in part.logged().items()}

    def notes(self, member: int = 0) -> list[str]:
        """Return the notes of all stages."""
        return [note for part in self.parts for note in part.notes(member)]
