"""The first batch where only the gradient of the attacker's own parameters arrives in the clear."""

from __future__ import annotations

import copy
from typing import Self

from torch import Tensor, nn

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.gradients import ReceivedGradients
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.models.base import as_architecture
from tune_vfl.models.layers import select_members
from tune_vfl.protocol.granted import FirstBatch
from tune_vfl.protocol.hooks import RowsById
from tune_vfl.protocol.known import taken_back
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Batch
from tune_vfl.spec import Strict


class UntrainedBottom(Keeper):
    """Stores the first passive party's bottom model before the first step.

    Attributes:
        bottom: a copy, on the CPU.
    """

    bottom: nn.Module

    def begin(self, loop: SplitTraining) -> None:
        """Store a copy of the model."""
        self.bottom = copy.deepcopy(loop.network.bottoms[0]).cpu()

    def of_members(self, members: Tensor) -> Self:
        """Return the models of some members."""
        some = super().of_members(members)
        some.bottom = select_members(self.bottom, members)
        return some


class FirstRowsFed(Keeper):
    """Stores the rows, mixed or not, that the first passive party feeds to its bottom model in the first step.

    Attributes:
        fed: ``(*trials, B, ...)``, on the CPU.
    """

    fed: Tensor

    def inputs(self, batch: Batch, rows: RowsById, *, epoch: int) -> Batch:
        """Store the first batch, after every hook that changes it."""
        if not hasattr(self, "fed"):
            self.fed = batch.passive[0].detach().cpu().clone()
        return batch

    def of_members(self, members: Tensor) -> Self:
        """Return the rows of some members."""
        some = super().of_members(members)
        some.fed = self.fed[members]
        return some


def parameter_gradient(bottom: nn.Module, x: Tensor, cut: Tensor) -> tuple[Tensor, ...]:
    """Return the parameter gradients of a model on rows ``x`` for a received gradient ``(*trials, B, d)``.

    The model is used as in training; embeddings count as sent as they are.
    """
    used = copy.deepcopy(bottom).train()
    return tuple(taken_back([used(x)], [cut], list(used.parameters())))


@grant("parameter_gradient")
class ParameterGradient(Grant):
    """The gradient of the first batch in the attacker's own parameters, which hides those of single rows in a sum."""

    keeps = (ReceivedGradients, UntrainedBottom, FirstRowsFed)

    def hand_out(self, attack: Attack[Strict], run: Run) -> FirstBatch:
        """Return the first batch."""
        seen = run.kept(ReceivedGradients).recordings()["first_batch"]
        bottom, dataset, architecture = (
            run.kept(UntrainedBottom).bottom,
            run.task.dataset,
            as_architecture(run.task.architecture),
        )
        x, options = run.kept(FirstRowsFed).fed, architecture.options
        others = len(dataset.passive) - 1 + (dataset.active is not None)
        width = seen.gradients.shape[-1] * (others + 1 if options.aggregation == "concat" else 1)
        outputs, shapes = architecture.outputs(dataset.num_classes), [columns.shape for columns in dataset.parties]
        return FirstBatch(
            ids=seen.ids,
            features=x,
            gradient=parameter_gradient(bottom, x, seen.gradients),
            bottom=lambda: copy.deepcopy(bottom),
            others=others,
            aggregation=options.aggregation,
            top=None if options.top == "none" else lambda stream: architecture.top_of(shapes, width, outputs, stream),
        )
