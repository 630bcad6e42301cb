"""The interface of an attack: parameters, capabilities, and one pure function from a view to answers.

Add one by putting a class into a file of its own here, decorated with ``@attack("name")``. The contract suite of
:mod:`tune_vfl.testing.attacks` then holds it to its word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.view import Answer, Moment, Reconstruction, View
from tune_vfl.registry import Registry
from tune_vfl.spec import VERTICAL, FederationName, Named, Strict, Training, validated
from tune_vfl.spec.cell import ALL_MODES, Mode

if TYPE_CHECKING:
    from tune_vfl.models.base import ModelOptions

# Covariant, so that an attack with its own parameters is an attack; parameters are frozen.
P_co = TypeVar("P_co", bound=Strict, covariant=True)


@dataclass(frozen=True)
class AttackCapabilities:
    """Declared requirements of an attack, checked before anything runs.

    Attributes:
        goal: the inferred data: ``labels`` of the label party, or ``features`` of the first passive party.
        classes: ``binary`` or ``any``.
        modes: the architectures it is defined for.
        sees: grants of its view, for any parameters.
        oracle: it uses statistics that only the label party has: its success is an upper bound.
        acts: it changes the training and needs a run of its own.
        federations: the settings that it is defined for: columns of the same rows, or rows of the same columns.
        who: the side of the attacker; in the horizontal setting the server is the ``active`` one.
        parties: which of several passive parties attack: ``each`` by itself; ``joined``: all of them together too,
            where the threat model says so, with what they hold and receive side by side; ``first``: the first one
            alone, as with every attack that acts and with those of the label party, which attack that one.
        stackable: it takes any leading axes.
        needs_concat: it needs a top model that takes each party's embedding as a part of its own.
        needs_logits: it takes the model's outputs for class logits under a cross-entropy; a defense that makes them one
            number trains on another loss, and what the attack then says has no meaning.

    Example:
        >>> from tune_vfl.attacks import Pmc
        >>> sorted(Pmc.capabilities.sees), Pmc.capabilities.parties
        (['auxiliary', 'bottom', 'features', 'gradients'], 'joined')
    """

    goal: Literal["labels", "features"] = "labels"
    classes: Literal["binary", "any"] = "any"
    modes: frozenset[Mode] = ALL_MODES
    sees: frozenset[str] = frozenset()
    oracle: bool = False
    acts: bool = False
    federations: frozenset[FederationName] = VERTICAL
    who: Literal["passive", "active"] = "passive"
    parties: Literal["first", "each", "joined"] = "each"
    stackable: bool = True
    needs_concat: bool = False
    needs_logits: bool = False


@dataclass(frozen=True)
class AuxiliaryRequest:
    """Number of labeled rows that an attack requests; the evaluator draws them from the training split.

    Attributes:
        how: ``per_class`` draws equally many rows of each class, ``random`` draws without looking at classes.
        per_class: rows a class; None takes the data set's recipe.
        total: rows in all for ``random``; None takes ``per_class`` times the number of classes.
        smaller: fewer rows a class than ``per_class``, of which it wants the sets too, each held by the next larger.

    Example:
        >>> from tune_vfl.attacks import AuxiliaryRequest
        >>> AuxiliaryRequest(per_class=10)
        AuxiliaryRequest(how='per_class', per_class=10, total=None, smaller=())
    """

    how: Literal["per_class", "random"] = "per_class"
    per_class: int | None = None
    total: int | None = None
    smaller: tuple[int, ...] = ()


@dataclass(frozen=True)
class TargetRequest:
    """Numbers of training rows that an attack on features reconstructs and of other rows that it knows.

    Attributes:
        rows: rows to reconstruct, at most half of those there are; the same ones for every attack and setting.
        pairs: other rows that it knows with their embeddings; ``threat`` takes as many as the study says, None a sixth
            of the training rows, at most 10,000.
        batch: of an attack on gradients: rows of each batch whose gradient it gets; rows that fill none are left out.
        least: the number of known rows without which it cannot run; its parameter ``aux`` sets how many it knows.

    Example:
        >>> from tune_vfl.attacks import Wmi
        >>> Wmi(Wmi.Params(rows=16)).target_request()
        TargetRequest(rows=16, pairs='threat', batch=1, least=0)
    """

    rows: int
    pairs: int | Literal["threat"] | None = None
    batch: int = 1
    least: int = 0


class Attack(ABC, Generic[P_co]):
    """Base of every attack.

    Attributes:
        quick: parameters with which it runs in a second; the contract suite uses them.
        draws_as: the attack whose random streams it draws from, where it ends in what that one does: equal bottom
            models then give equal answers, and both have the same floor. Its own by default.
        in_default: the parameters with which it belongs to the portfolio ``default``; None where it costs too much for
            every trial of a search.
        starts: untrained models a seed whose mean success is what it reaches without messages; two are enough for an
            attack whose success hardly differs from one to the next.
        dear: whether it costs about as much as a training: as a member of a portfolio it is left out of a setting in
            which cheaper ones have found nearly all.
        choice: the variant that is its answer, picked by the attacker itself among the others, which are only shown
            beside it; None where the best variant counts.

    Args:
        params: this attack's parameters, one set for all members of a pack; None takes the defaults.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks import Norm, View
        >>> gradients = torch.tensor([[0.1, 0.0], [0.0, 2.0], [3.0, 0.0]])  # what came back for three rows
        >>> Norm().run(View.from_gradients(gradients))["norm"].scores.argmax().item()  # the likeliest positive
        2
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    Params: ClassVar[type[Strict]] = Strict
    capabilities: ClassVar[AttackCapabilities]
    quick: ClassVar[Mapping[str, Any]] = {}
    draws_as: ClassVar[str | None] = None
    starts: ClassVar[int] = 5
    dear: ClassVar[bool] = False
    choice: ClassVar[str | None] = None
    in_default: ClassVar[Mapping[str, Any] | None] = None

    def __init__(self, params: P_co | None = None) -> None:
        self.params = cast("P_co", self.Params()) if params is None else params

    def sees(self) -> frozenset[str]:
        """Return the grants that the attack needs with these parameters; by default all that its capabilities list."""
        return self.capabilities.sees

    def settled(self, *, epochs: int, fresh_noise: bool) -> Self:
        """Return this attack with all parameters completed that depend on the training it attacks.

        Args:
            epochs: how long the training is.
            fresh_noise: whether the defense draws noise on the gradients anew at each step.
        """
        return self

    def moments(self) -> tuple[Moment, ...]:
        """Return the moments of training to record; by default the last epoch if the attack reads gradients."""
        return ("last",) if "gradients" in self.sees() else ()

    def hooks(self, training: Training, view: View) -> Sequence[Hooks]:
        """Return the hooks of an acting attack, fresh for each training; none for an attack that only watches.

        Of the hooks the training calls H3, H8 and H9, which belong to a passive party, and never H0, which would hand
        over the labels. H9 hands over its bottom model as it is being trained.

        Args:
            training: the recipe of all parties.
            view: its view before the training; the bottom model is the untrained one.
        """
        return ()

    def training_problems(self, training: Training) -> list[str]:
        """Return reasons why this attack cannot take part in such a training, one sentence each; empty if it can."""
        return []

    def model_problems(self, options: ModelOptions, *, others: int, num_classes: int) -> list[str]:
        """Return reasons why this attack cannot read such a model, one sentence each; empty if it can.

        Args:
            options: of the architecture, completed.
            others: how many parties beside the attacker send embeddings.
            num_classes: K.
        """
        return []

    def tunable(self, epochs: int) -> Mapping[str, Sequence[Any]]:
        """Return candidate values by parameter for a tuned attacker; other parameters stay.

        By default nothing: its variants are all that there is to choose among.

        Args:
            epochs: of the training that it reads.
        """
        return {}

    @property
    def widens(self) -> int:
        """Number of extension columns sent beside the embedding; the top model is built for them."""
        return 0

    @property
    def draws(self) -> int:
        """Number of draws of known rows and random numbers over which a training's success is averaged.

        More than one where that narrows intervals more than seeds of the same cost would.
        """
        return 1

    def auxiliary_request(self) -> AuxiliaryRequest | None:
        """Return the number of labeled rows to grant; None if the attack uses none."""
        return AuxiliaryRequest() if "auxiliary" in self.sees() else None

    def target_request(self) -> TargetRequest | None:
        """Return the numbers of rows to reconstruct and to know; None for an attack on labels."""
        return None

    def is_upper_bound(self, variant: str) -> bool:
        """Return whether this variant uses an oracle; by default every variant of an oracle attack does.

        Whether the attacker could have picked the variant is another question, which :attr:`Answer.validation` answers.
        """
        return self.capabilities.oracle

    @abstractmethod
    def run(self, view: View) -> Mapping[str, Answer | Reconstruction]:
        """Attack.

        Args:
            view: the attacker's view, tensors with leading axes ``view.lead``.

        Returns:
            An answer per variant, or a reconstruction where the goal is features; the evaluator scores each.
        """

    @classmethod
    def problems(cls, params: Strict, *, num_classes: int, mode: Mode) -> list[str]:
        """Return reasons why these parameters cannot be used here, one sentence each; empty if they can."""
        return []


ATTACKS: Registry[Attack[Strict]] = Registry("attack", "tune_vfl.attacks")
attack = ATTACKS.register


def build_attack(named: Named) -> Attack[Strict]:
    """Build an attack from its entry in a spec or a cell.

    Raises:
        SpecError: for an unknown name or wrong parameters.
    """
    cls = ATTACKS[named.name]
    return cls(validated(cls.Params, named.options, f"attacks.{named.name}"))
