"""The real trainable: train the cell of a study under a pack of settings, and attack what came of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray

from trainables.base import TrainingTrainable
from tune_vfl.machine.runtime import device_for
from tune_vfl.outcome import Outcome, TunedAttack
from tune_vfl.spec.cell import Cell, References


def worker_device() -> str:
    """Return what this process trains on: a GPU where Ray gave it one, however many it can see.

    Raises:
        SpecError: when torch does not see what Ray gave.
    """
    return device_for(len(ray.get_gpu_ids()) if ray.is_initialized() else 0)


class CellTrainable(TrainingTrainable):
    """Evaluates packs through :func:`tune_vfl.evaluation.packs.evaluate_task`, on one thread."""

    @classmethod
    def prepare_worker(cls) -> None:
        """Set this process up to train: one thread, memory that is kept between steps, and every method imported."""
        os.environ["OMP_NUM_THREADS"] = "1"
        import scipy.special  # noqa: F401

        import tune_vfl.evaluation.packs  # noqa: F401
        from tune_vfl.attacks.base import ATTACKS
        from tune_vfl.data.base import DATASETS
        from tune_vfl.defenses.base import DEFENSES
        from tune_vfl.evaluation.federations.base import FEDERATIONS
        from tune_vfl.machine.runtime import prepare_process
        from tune_vfl.models.base import MODELS

        for registry in (ATTACKS, DATASETS, DEFENSES, FEDERATIONS, MODELS):
            registry.names()  # imports all that it names
        prepare_process()

    @classmethod
    def data_of(cls, cell: Cell) -> str:
        """Return the fingerprint of a cell's data on this machine."""
        from tune_vfl.data import load

        return load(cell.dataset).fingerprint

    @classmethod
    def evaluate(
        cls, cell: Cell, params: Sequence[Mapping[str, Any]], references: References, options: Mapping[str, Any]
    ) -> list[Outcome]:
        """Train and attack; with the option ``training_rows`` also measure the utility on the training rows."""
        from tune_vfl.evaluation.packs import evaluate_task
        from tune_vfl.evaluation.task import Task

        task = replace(Task.open(cell), asks_training_rows=bool(options.get("training_rows")))
        return evaluate_task(task, params, references, device=worker_device())

    @classmethod
    def measure(cls, cell: Cell, options: Mapping[str, Any]) -> tuple[References, float]:
        """Measure what attacks are compared with, the label party's own model, and what a constant guess scores.

        Raises:
            SpecError: when Ray gave this worker a GPU and torch sees none: no trial could be trained.
        """
        cls.prepare_worker()
        device = worker_device()
        from statistics import fmean

        from tune_vfl.evaluation.alone import alone, guessed
        from tune_vfl.evaluation.references import references_of
        from tune_vfl.evaluation.task import Task

        task = Task.open(cell)
        references = references_of(task, device=device).model_copy(update={"alone": alone(task)})
        return references, fmean(guessed(task))

    @classmethod
    def references(cls, cell: Cell, options: Mapping[str, Any]) -> References:
        """Measure what attacks are compared with, with the cell's own seeds."""
        cls.prepare_worker()
        from tune_vfl.evaluation.references import references_of
        from tune_vfl.evaluation.task import Task

        return references_of(Task.open(cell), device=worker_device())

    @classmethod
    def tuned(
        cls, cell: Cell, params: Mapping[str, Any], minutes: float, options: Mapping[str, Any]
    ) -> TunedAttack | None:
        """Train with the cell's own seeds, and tune its attacks against what came of it."""
        cls.prepare_worker()
        from tune_vfl.defenses.base import defense_params
        from tune_vfl.evaluation.adaptive import tuned_attack
        from tune_vfl.evaluation.task import Task

        built = defense_params(cell.defense, {**params, **cell.fixed}, num_classes=cell.num_classes)
        return tuned_attack(Task.open(cell), built, minutes=minutes, device=worker_device())

    @classmethod
    def cost(cls, cell: Cell, params: Mapping[str, Any], undefended: Cell, options: Mapping[str, Any]) -> float:
        """Train one network with the defense and one without, in turn."""
        cls.prepare_worker()
        from tune_vfl.evaluation.cost import training_cost

        return training_cost(cell, params, undefended, device=worker_device())

    @classmethod
    def most_per_pack(cls, cell: Cell) -> int:
        """Return how many trials' recordings fit into memory, 1 where model or defense does not stack."""
        from tune_vfl.evaluation.packs import trials_that_fit
        from tune_vfl.evaluation.task import Task

        task = Task.open(cell)
        return trials_that_fit(task) if task.stackable else 1
