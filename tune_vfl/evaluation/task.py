"""A task: a cell with its data set, model, defense and attacks looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tune_vfl.attacks.base import Attack, build_attack
from tune_vfl.data import load
from tune_vfl.data.base import Dataset
from tune_vfl.data.reserve import reserve_rows
from tune_vfl.defenses.base import DEFENSES, Defense
from tune_vfl.models.base import Learner, ModelOptions, build_model
from tune_vfl.spec import Cell, Strict


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that the evaluation of a cell's trials needs.

    Attributes:
        cell: plain data.
        dataset: the cell's, loaded.
        architecture: the cell's model.
        attacks: the cell's, in order.
        asks_training_rows: whether the utility on the training rows is measured too.
    """

    cell: Cell
    dataset: Dataset
    architecture: Learner[ModelOptions]
    attacks: tuple[Attack[Strict], ...]
    asks_training_rows: bool = False

    @classmethod
    def open(cls, cell: Cell) -> Task:
        """Look up the names of a cell.

        Raises:
            SpecError: for an unknown name or option.
            DataError: when the data cannot be read.
        """
        attacks = tuple(build_attack(a) for a in cell.attacks)
        return cls(cell, load(cell.dataset), build_model(cell.model), attacks)

    def with_params(self, params: Mapping[str, Any]) -> tuple[Task, dict[str, Any]]:
        """Return the task of a trial, and the defense's parameters among the trial's.

        Without a searched field of training or model that is this very task.

        Raises:
            SpecError: when training or model does not take a value.
        """
        cell, rest = self.cell.with_params(params)
        if cell is self.cell:
            return self, rest
        same_model = cell.model is self.cell.model
        architecture = self.architecture if same_model else build_model(cell.model)
        return replace(self, cell=cell, architecture=architecture), rest

    @property
    def rows_shared(self) -> float:
        """The share of the variance over other test rows that the spread over seeds lacks.

        1 where all seeds share their test rows, official ones or the reserve; else the share of rows that one tests on,
        because the rest of it is in the spread over seeds already.
        """
        shared = self.dataset.test_rows is not None or (self.cell.rows == "report" and len(reserve_rows(self.dataset)))
        return 1.0 if shared else self.dataset.test_share

    @property
    def defense(self) -> type[Defense]:
        """The class of the cell's defense."""
        return DEFENSES[self.cell.defense]

    @property
    def stackable(self) -> bool:
        """Whether trials can be trained in one pass, as far as rows, model and defense go."""
        alike = self.cell.federation.shards.equal
        return alike and self.architecture.stackable and self.defense.capabilities.stackable

    def stacks(self, params: Strict) -> bool:
        """Whether trials whose defense has such parameters can be trained in one pass.

        Clients that train in turn cannot: each seed has an order of its own.
        """
        return self.stackable and not self.defense.in_turn(params)

    @property
    def watching(self) -> tuple[Attack[Strict], ...]:
        """The attacks that read one recorded training, all the same one."""
        return tuple(a for a in self.attacks if not a.capabilities.acts)

    @property
    def acting(self) -> tuple[Attack[Strict], ...]:
        """The attacks that take part in a training, each in one of its own."""
        return tuple(a for a in self.attacks if a.capabilities.acts)
