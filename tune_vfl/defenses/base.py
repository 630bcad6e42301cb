"""What a defense is: parameters, capabilities and hooks.

Add one by putting a class into a file of its own here, decorated with ``@defense("name")``, and its ranges and
published settings into ``search_spaces/name.yaml``. The contract suite of :mod:`tune_vfl.testing.defenses` then holds
it to its word.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tune_vfl.errors import SpecError
from tune_vfl.models.base import HeadOption
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.registry import Registry
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Strict
from tune_vfl.spec.cell import ALL_MODES, Mode


@dataclass(frozen=True)
class DefenseCapabilities:
    """What a defense can do, checked before anything runs.

    Attributes:
        classes: ``binary`` or ``any``.
        modes: the architectures it is defined for.
        modalities: the kinds of data it is defined for.
        run_by: who runs it: ``active``, ``passive`` or ``both``.
        protects: what it changes on its way out: ``gradients``, ``labels``, ``embeddings``, ``features``.
        needs_active_features: it cannot work where the label party has labels only.
        stackable: its hooks take any leading axes.
        scale_sensitive: its strength depends on the batch size (absolute numbers against batch-mean gradients).
        head: the logits that it needs: ``classes`` one for each class, where a net would give binary targets one;
            ``scalar`` a single number, whatever the number of classes; ``auto`` takes the net's own.
        needs_concat: it works on each party's part of the joined embedding, which sums and means do not keep apart.
        needs_context: it needs what the label party knows of a step (:class:`~tune_vfl.protocol.hooks.Context`).
        random: what it draws at random: ``gradients`` (afresh at each call), ``labels`` (once, at the set-up).
    """

    classes: Literal["binary", "any"] = "any"
    modes: frozenset[Mode] = ALL_MODES
    modalities: frozenset[str] = frozenset({"table", "image", "text"})
    run_by: Literal["active", "passive", "both"] = "active"
    protects: tuple[str, ...] = ("gradients",)
    needs_active_features: bool = False
    stackable: bool = True
    scale_sensitive: bool = False
    head: HeadOption = "auto"
    needs_concat: bool = False
    needs_context: bool = False
    random: tuple[str, ...] = ()


class Defense(Hooks):
    """Base of every defense.

    Args:
        params: this defense's parameters, or one per member of a pack (all of equal structure, see :meth:`structure`).
        num_classes: K.
        embedding_dims: the width of each passive party's embedding.
        mode: the architecture it is used in.

    Attributes:
        weakest: parameters with which the defense is the same as ``none``; None where it has no such setting.
        stream_prefix: put before the names of its random streams, so that the parts of a pipeline draw apart.

    Raises:
        SpecError: when it is for two classes and ``num_classes`` is larger.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    Params: ClassVar[type[Strict]] = Strict
    capabilities: ClassVar[DefenseCapabilities] = DefenseCapabilities()
    weakest: ClassVar[Mapping[str, Any] | None] = None

    def __init__(
        self,
        params: Strict | Sequence[Strict],
        *,
        num_classes: int,
        embedding_dims: Sequence[int],
        mode: Mode = "split",
    ) -> None:
        if self.capabilities.classes == "binary" and num_classes > 2:
            raise SpecError(
                f"defense {self.name!r} is for two classes, got {num_classes}; choose one for any number of classes"
            )
        self.stacked = not isinstance(params, Strict)
        self.members: list[Strict] = [params] if isinstance(params, Strict) else list(params)
        self.num_classes = num_classes
        self.embedding_dims = list(embedding_dims)
        self.mode = mode
        self.stream_prefix = ""
        self.streams = Streams([0] * len(self.members) if self.stacked else 0)
        self._columns: dict[tuple[str, int], Tensor] = {}
        self._device = torch.device("cpu")
        self.begin()

    @classmethod
    def structure(cls, params: Strict) -> tuple[object, ...]:
        """What members of one pack must share: everything that is not a number (booleans count as structure)."""
        values = params.model_dump()
        return tuple((k, v) for k, v in values.items() if isinstance(v, bool) or not isinstance(v, (int, float)))

    @classmethod
    def completed(cls, given: Mapping[str, Any], *, num_classes: int) -> dict[str, Any]:
        """Return ``given`` with the defaults that depend on the task filled in; by default nothing does."""
        return dict(given)

    @classmethod
    def problems(cls, params: Strict, *, num_classes: int, mode: Mode) -> list[str]:
        """Return why these parameters cannot be used here, one sentence each; empty when they can."""
        return []

    def values(self, name: str) -> list[float]:
        """Return the members' values of a numeric parameter, on the host."""
        return [float(getattr(p, name)) for p in self.members]

    def number(self, name: str, dims: int = 2) -> float | Tensor:
        """Return a numeric parameter ready for arithmetic with ``(*trials, ...)`` tensors.

        Args:
            name: the parameter.
            dims: how many axes follow the leading ones.

        Returns:
            A float for one trial; for a pack a tensor ``(T, 1, ..., 1)`` with ``dims`` trailing ones.
        """
        if not self.stacked:
            return self.values(name)[0]
        key = (name, dims)
        if key not in self._columns:
            self._columns[key] = torch.tensor(self.values(name), device=self._device).view(-1, *([1] * dims))
        return self._columns[key]

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: open the random streams and :meth:`begin` a training. Overriding classes call this first."""
        self.streams = Streams(seed if isinstance(seed, int) else list(seed), y.device, self.stream_prefix)
        self._columns = {}
        self._device = y.device
        self.begin()

    def begin(self) -> None:
        """Start, or forget, what is remembered from step to step; called when the defense is made and at the set-up."""

    def extend(
        self, features: Sequence[Tensor], *, seed: int | Sequence[int], part: Literal["train", "test"]
    ) -> list[Tensor]:
        """H0, before the models are built: the parties' rows with the columns that this defense has them add.

        Args:
            features: ``(*seeds, n, ...)`` of each passive party, then the label party's own where it has any.
            seed: the seed of the rows, or one for each entry of their leading axis.
            part: which rows they are.

        Returns:
            As many tensors, with the same rows; by default the same ones.
        """
        return list(features)

    def decode_rows(self, logits: Tensor, features: Sequence[Tensor]) -> Tensor:
        """H10 for rows that the parties report: by default what :meth:`decode` says of the logits alone.

        Args:
            logits: ``(*trials, B, K)``.
            features: ``(*trials, B, ...)`` of each passive party and of the label party, as :meth:`extend` made them.

        Returns:
            ``(*trials, B, K)`` class scores, larger is more likely.
        """
        return self.decode(logits)

    @property
    def wants_full_view(self) -> bool:
        """Whether ``active_features`` should be the features of all parties, put side by side."""
        return False

    def disguised(self, bottom: nn.Module, *, stream: Stream) -> nn.Module:
        """Return a passive party's bottom model as the label party knows it, for attacks on features.

        Args:
            bottom: trained, as :meth:`wrap_bottom` made it; it stays as it is.
            stream: where that is drawn from anew which only the passive party knows (passports).

        Returns:
            A copy; by default nothing in it is secret.
        """
        return copy.deepcopy(bottom)

    def logged(self) -> dict[str, Sequence[float]]:
        """Return what the defense measured about itself, a number per member (``teacher_accuracy``, ``sum_kl``)."""
        return {}

    def notes(self, member: int = 0) -> list[str]:
        """Return facts that a reader of one member's result must know."""
        return []


DEFENSES: Registry[Defense] = Registry("defense", "tune_vfl.defenses")
defense = DEFENSES.register
