"""The interface of a federation: how its data lie, and how all participants train together.

Add one by putting a class into a file of its own here, decorated with ``@federation("name")``; the name is one of
:data:`tune_vfl.spec.FederationName`. A spec names it under ``federation``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tune_vfl.attacks.base import Attack
from tune_vfl.data.base import Dataset
from tune_vfl.data.split import training_rows
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import MODELS
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.members import Pack
from tune_vfl.registry import Registry
from tune_vfl.spec import Federation, Named, Strict, StudySpec, Training


@dataclass(eq=False)
class FederatedTraining(ABC):
    """A training of all participants of a federation, ready for its first step; the class plans such trainings.

    Attributes:
        task: the task to train.
        params: one set of defense parameters per trial, of equal structure.
        pack: the members of the training.
        attacks: those that watch, or the one that takes part in the training after the defense.
        hooks: further hooks of participants that exchange gradients in every step.
        device: where the network is trained; weights and orders are the same on every device, noise is the device's.
        per_epoch, total: steps of an epoch, and of the whole training.
        rows_there, more_rows: words of messages, before the number of rows under attack, and how to have more of them.
    """

    name: ClassVar[str]
    rows_there: ClassVar[str] = "there are"
    more_rows: ClassVar[str] = ""

    task: Task
    params: Sequence[Strict]
    pack: Pack
    attacks: Sequence[Attack[Strict]] = ()
    hooks: Sequence[Hooks] = ()
    device: str = "cpu"
    per_epoch: int = field(init=False)
    total: int = field(init=False)

    @abstractmethod
    def __post_init__(self) -> None:
        """Get ready for the first step."""

    @classmethod
    def laid_out(cls, spec: StudySpec) -> Named:
        """Return the spec's data set, its columns as the participants hold them."""
        return spec.dataset

    @classmethod
    def recipe(cls, spec: StudySpec, dataset: Dataset) -> tuple[Federation, Training]:
        """Return the federation and the training recipe of a spec, completed by the model's or the data set's own."""
        own = MODELS[spec.model.name or dataset.recipe.model.name].recipe
        return spec.federation, spec.training.over(own or dataset.recipe.training)

    @classmethod
    def problems(cls, task: Task) -> Iterable[str]:
        """Return reasons why data, model and defense do not make such a federation."""
        return ()

    @classmethod
    def rows_under_attack(cls, task: Task) -> Iterable[int]:
        """Yield the number of training rows under attack, of each seed where it depends on the seed.

        Raises:
            DataError: where the participants cannot hold rows as the spec says.
        """
        return [len(training_rows(task.dataset, task.cell.seeds[0], task.cell.rows))]

    @classmethod
    def of_one(cls, dataset: Dataset) -> Dataset | None:
        """Return the data that one participant trains on alone; None where it has labels only.

        By default they are the label party's own columns, which need no join with others.
        """
        return None if dataset.active is None else replace(dataset, passive=(dataset.active,), active=None)

    @abstractmethod
    def steps(self, *, deadline: float | None = None) -> Iterator[object]:
        """Train, yielding after every step.

        Raises:
            TimeoutError: when ``time.monotonic()`` passes ``deadline``.
        """

    def apart(self) -> Iterator[object]:
        """Train every participant on the data :meth:`of_one`, as long as in the federation and without the others."""
        return self.steps()

    @abstractmethod
    def utilities(self) -> list[float]:
        """Return each member's current utility on the test rows; NaN for scores that are not finite."""

    @abstractmethod
    def finish(self) -> Run:
        """Return the training, over: its table holds utility, lost members, and the defense's notes and values."""


FEDERATIONS: Registry[FederatedTraining] = Registry("federation", "tune_vfl.evaluation.federations")
federation = FEDERATIONS.register
