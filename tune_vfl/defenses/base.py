"""The interface of a defense: parameters, capabilities and hooks.

Add one by putting a class into a file of its own here, decorated with ``@defense("name")``, and its ranges and
published settings into ``search_spaces/name.yaml``. The contract suite of :mod:`tune_vfl.testing.defenses` then holds
it to its word.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from tune_vfl.defenses.parts.capabilities import DefenseCapabilities
from tune_vfl.errors import SpecError
from tune_vfl.protocol.granted import Mixtures
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.registry import Registry
from tune_vfl.seeds import Stream, Streams
from tune_vfl.spec import Named, Strict, validated
from tune_vfl.spec.cell import Mode

__all__ = ["DEFENSES", "Defense", "DefenseCapabilities", "defense", "defense_params", "grants_missing"]

# A plain `Defense`, in an annotation or as the base of a plug-in, stands for one with parameters of any kind.
P = TypeVar("P", bound=Strict, default=Any)


class Defense(Hooks, Generic[P]):
    """Base of every defense, generic in its parameters: ``class Laplace(Defense[LaplaceParams])``.

    Args:
        params: this defense's parameters, or one per member of a pack (all of equal structure, see :meth:`structure`).
        num_classes: K, the number of classes.
        embedding_dims: the width of each passive party's embedding.
        mode: the architecture it is used in.

    Attributes:
        members: the parameters, one entry for each member of a pack, a single one for a trial alone.
        stacked: whether this is a pack, whose tensors have a leading axis of members.
        paper_attacks: the attacks on labels by which its paper, or the one it is a baseline of, measured it.
        weakest: parameters with which the defense is the same as ``none``; None where it has no such setting.
        quick: parameters with which its set-up is quick; the contract suite uses them.
        stream_prefix: put before the names of its random streams, so that the parts of a pipeline draw apart.

    Raises:
        SpecError: when it is for two classes and ``num_classes`` is larger.

    Example:
        >>> import torch
        >>> from tune_vfl.defenses import Marvell
        >>> y, gradient = torch.tensor([0, 1, 0, 1]), torch.tensor([[0.1, 0], [2, 0], [0.2, 0], [3, 0]])
        >>> marvell = Marvell(Marvell.Params(budget=4.0), num_classes=2, embedding_dims=[2])
        >>> marvell.setup(y, torch.arange(4), seed=0)
        >>> marvell.cut_gradient(gradient, y=y).shape  # what may leave the label party
        torch.Size([4, 2])
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    Params: ClassVar[type[Strict]] = Strict
    capabilities: ClassVar[DefenseCapabilities] = DefenseCapabilities()
    paper_attacks: ClassVar[tuple[str, ...]] = ()
    weakest: ClassVar[Mapping[str, Any] | None] = None
    quick: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self, params: P | Sequence[P], *, num_classes: int, embedding_dims: Sequence[int], mode: Mode = "split"
    ) -> None:
        if self.capabilities.classes == "binary" and num_classes > 2:
            raise SpecError(
                f"defense {self.name!r} is for two classes, got {num_classes}; choose one for any number of classes"
            )
        self.stacked = not isinstance(params, Strict)
        self.members: list[P] = [params] if isinstance(params, Strict) else list(params)
        self.num_classes = num_classes
        self.embedding_dims = list(embedding_dims)
        self.mode = mode
        self.stream_prefix = ""
        self.streams = Streams([0] * len(self.members) if self.stacked else 0)
        self._columns: dict[tuple[float, ...], Tensor] = {}
        self._device = torch.device("cpu")
        self.begin()

    @classmethod
    def structure(cls, params: P) -> tuple[object, ...]:
        """Parameters that members of one pack must share: all but numbers (booleans count as structure)."""
        values = params.model_dump()
        return tuple((k, v) for k, v in values.items() if isinstance(v, bool) or not isinstance(v, (int, float)))

    @classmethod
    def completed(cls, given: Mapping[str, Any], *, num_classes: int) -> dict[str, Any]:
        """Return ``given`` with the defaults that depend on the task filled in; by default nothing does."""
        return dict(given)

    @classmethod
    def fitted_to(cls, given: Mapping[str, Any], *, model: Named, modality: str) -> dict[str, Any]:
        """Return a spec's parameters, not yet validated, completed from the model and the kind of data."""
        return dict(given)

    @classmethod
    def problems(cls, params: P, *, num_classes: int, mode: Mode) -> list[str]:
        """Return reasons why these parameters cannot be used here, one sentence each; empty if they can."""
        return []

    @classmethod
    def in_turn(cls, params: P) -> bool:
        """Say whether, in the horizontal setting, clients train the shared part one after the other (SplitFed V2)."""
        return False

    @property
    def shared(self) -> P:
        """Parameters of the first member, for parameters that all members share (see :meth:`structure`)."""
        return self.members[0]

    def values(self, parameter: str | Callable[[P], float]) -> list[float]:
        """Return the members' values of a numeric parameter, on the host.

        Args:
            parameter: as for :meth:`number`.
        """
        if isinstance(parameter, str):
            return [float(getattr(p, parameter)) for p in self.members]
        return [float(parameter(p)) for p in self.members]

    def number(self, parameter: str | Callable[[P], float], dims: int = 2) -> float | Tensor:
        """Return a numeric parameter ready for arithmetic with ``(*trials, ...)`` tensors.

        Args:
            parameter: how to read it from one member's parameters, ``lambda p: p.scale``, which a type checker can
                follow; or its name, where none looks.
            dims: how many axes follow the leading ones.

        Returns:
            A float for one trial; for a pack a tensor ``(T, 1, ..., 1)`` with ``dims`` trailing ones.
        """
        return self._column(self.values(parameter), dims)

    def optional_number(self, parameter: Callable[[P], float | None], dims: int = 2) -> float | Tensor | None:
        """Return :meth:`number` of a parameter that may be None; None if the members leave it out.

        Either all members of a pack give it or none does (:meth:`structure`).
        """
        given = [float(value) for p in self.members if (value := parameter(p)) is not None]
        return self._column(given, dims) if given else None

    def _column(self, values: Sequence[float], dims: int) -> float | Tensor:
        if not self.stacked:
            return values[0]
        key = (dims, *values)  # by value: a lambda is another object at each call
        if key not in self._columns:
            self._columns[key] = torch.tensor(values, device=self._device).view(-1, *([1] * dims))
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
        """Reset the state carried from step to step; called by the constructor and at the set-up."""

    def extend(
        self, features: Sequence[Tensor], *, seed: int | Sequence[int], part: Literal["train", "test"]
    ) -> list[Tensor]:
        """H0, before the models are built: the parties' rows with the extension columns of this defense.

        Args:
            features: ``(*seeds, n, ...)`` of each passive party, then the label party's own where it has any.
            seed: the seed of the rows, or one for each entry of their leading axis.
            part: which rows they are.

        Returns:
            As many tensors, with the same rows; by default the same ones.
        """
        return list(features)

    def decode_rows(self, logits: Tensor, features: Sequence[Tensor]) -> Tensor:
        """H10 for rows that the parties report: by default :meth:`decode` of the logits alone.

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
            stream: fresh draws from here replace what only the passive party knows (passports).

        Returns:
            A copy; by default nothing in it is secret.
        """
        return copy.deepcopy(bottom)

    def open_bottom(self, bottom: nn.Module, *, stream: Stream) -> nn.Module:
        """Return a passive party's bottom model with its secrets as free parameters, for an attacker that fits them.

        Args:
            bottom: trained, as :meth:`wrap_bottom` made it, with no parameter that wants a gradient; it stays as it is.
            stream: where what is secret starts, drawn as for :meth:`disguised`.

        Returns:
            A copy. What is secret stands in it as parameters, the only ones that want a gradient; by default nothing.
        """
        return copy.deepcopy(bottom)

    def mixtures(self, epoch: int) -> Mixtures | None:
        """Return partners and shares of the mixed training rows of an epoch; None if nothing is mixed.

        Args:
            epoch: from 0.
        """
        return None

    def also_uploaded(self, times: int) -> None:
        """Learn how often a copy of this defense uploaded for the client: the single steps that attacks read."""

    def mechanism(self) -> Mechanism | None:
        """Return public facts of the defense by its setting, whatever the labels and draws; None if there are none."""
        return None

    def logged(self) -> dict[str, Sequence[float]]:
        """Return the defense's own diagnostics, a number per member (``teacher_accuracy``, ``sum_kl``)."""
        return {}

    def notes(self, member: int = 0) -> list[str]:
        """Return facts that a reader of one member's result must know."""
        return []


DEFENSES: Registry[Defense] = Registry("defense", "tune_vfl.defenses")
defense = DEFENSES.register


def grants_missing(sees: Iterable[str], name: str) -> frozenset[str]:
    """Return the grants among these that a passive party lacks under a defense, because others own them."""
    brought = frozenset[str]().union(*(cls.capabilities.grants for cls in DEFENSES.classes()))
    return brought.intersection(sees) - DEFENSES[name].capabilities.grants


def defense_params(name: str, given: Mapping[str, Any], *, num_classes: int) -> Strict:
    """Validate a defense's parameters, completed by its defaults.

    Raises:
        SpecError: every problem, with the known parameters.
    """
    cls = DEFENSES[name]
    return validated(cls.Params, cls.completed(given, num_classes=num_classes), f"defense.params ({name})")
