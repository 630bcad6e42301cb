"""One training in a user's own loop: its initial models, the recording of its steps, and the attacks on it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from tune_vfl.data.base import Split
from tune_vfl.defenses.base import Defense
from tune_vfl.errors import UsageError
from tune_vfl.evaluation.federations.vertical import fill
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.measuring import measured
from tune_vfl.evaluation.own_rounds import OwnRounds
from tune_vfl.evaluation.packs import outcome_of
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import Table, joined, write_seconds
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import build_network, extended, split_of
from tune_vfl.models.base import VflNetwork
from tune_vfl.outcome import Outcome
from tune_vfl.protocol.hooks import Context
from tune_vfl.protocol.loop import SplitTraining, class_gradient, learning_rate, torchs_optimizer
from tune_vfl.protocol.members import Batch, Pack, Rows
from tune_vfl.seeds import Streams


class OwnLoop:
    """One training with one seed, as a loop of your own begins it, records it and has it attacked.

    The loop calls :meth:`begin` before its first step, :meth:`record` in every one, and :meth:`measure` after the last.
    Everything here is drawn from the named streams of the seed, so a loop that does what the search did gets its
    numbers.

    Args:
        task: the task of the measured setting.
        defense: built, not yet set up.
        seed: decides rows, starting weights and order of rows.

    Attributes:
        split: the rows of this seed, with the columns that the defense has the parties add.
        rows: the training rows: ``batches(size)`` yields an epoch, ``take(ids)`` looks rows up.
        bottoms: the study's bottom models, one a passive party, with its starting weights; yours may take their place.
        left_out: the attacks that take part in a training, which are not carried out here.
        table: the measurements; empty before :meth:`measure`.
    """

    def __init__(self, task: Task, defense: Defense, *, seed: int) -> None:
        self.task, self.defense, self.seed = _watching_alone(task), defense, seed
        self.left_out = tuple(attack.name for attack in task.acting)
        self._pack = Pack((seed,), None)
        self.split: Split = extended(split_of(task, self._pack), defense, self._pack)
        self.rows = Rows(self.split, self._pack)
        self._network = build_network(task, self.split, self._pack, Streams(seed))
        self.bottoms: list[nn.Module] = list(self._network.bottoms)
        self._training: SplitTraining | None = None
        self._keepers: dict[type[Keeper], Keeper] = {}
        self._steps, self._epoch = 0, 0
        self._visited = torch.zeros(self.split.y_train.shape[-1], dtype=torch.bool)
        self._started = time.perf_counter()
        self.table: Table = {}

    @property
    def own_bottom(self) -> nn.Module:
        """The label party's bottom model, as the study's starts.

        Raises:
            UsageError: when the label party has labels only.
        """
        if self._network.own_bottom is None:
            raise UsageError("the label party of this setting has labels only: there is no bottom model of its own")
        return self._network.own_bottom

    @property
    def top(self) -> nn.Module:
        """The top model ``(B, d) -> (B, K)``, as the study's starts.

        Raises:
            UsageError: when the joined embeddings are the logits.
        """
        if self._network.top is None:
            raise UsageError("this setting has no top model (model.top: none): what join(embeddings) gives are logits")
        return self._network.top

    def join(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Join the parties' embeddings as the study's model does, the label party's own last: ``(B, d)``."""
        return self._network.join(list(embeddings))

    def optimizer(
        self, parameters: Iterable[nn.Parameter]
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        """Return the recipe's optimizer, and the schedule of its learning rate, stepped after every epoch."""
        recipe = self.task.cell.training
        steps = torchs_optimizer(list(parameters), recipe)
        factor = [learning_rate(recipe, epoch) / recipe.lr for epoch in range(recipe.epochs + 1)]
        return steps, torch.optim.lr_scheduler.LambdaLR(steps, lambda epoch: factor[min(epoch, recipe.epochs)])

    def begin(self, bottoms: Sequence[nn.Module]) -> None:
        """Get ready to record.

        Args:
            bottoms: the passive parties' models that will be trained, as the defense has wrapped them.
        """
        recipe, rows = self.task.cell.training, self.split.y_train.shape[-1]
        parts = self._network
        network = VflNetwork(bottoms, parts.own_bottom, parts.top, parts.aggregation)
        kinds = keepers_for(self.task.attacks)
        self._keepers = {kind: kind(self.task.attacks, recipe, rows) for kind in kinds}
        hooks = [self.defense, *self._keepers.values()]
        self._training = SplitTraining(network, self.rows, recipe, hooks, ())
        for keeper in self._keepers.values():
            keeper.begin(self._training)

    def context(
        self, batch: Batch, *, epoch: int, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor], party: int = 0
    ) -> Context:
        """Return the label party's knowledge of a step, for :meth:`~tune_vfl.defenses.base.Defense.cut_gradient`.

        Args:
            batch: the rows of the step.
            epoch: from 0.
            logits: ``(B, K)`` with their graph, of which ``backward(retain_graph=True)`` keeps what is needed here.
            targets: the targets of the loss.
            embeddings: as received from each passive party, ``(B, d)``, leaves of that graph.
            party: the receiver of the gradient.
        """
        received = [e.detach() for e in embeddings]
        return Context(
            embeddings=received,
            logits=logits.detach(),
            targets=targets,
            ids=batch.ids,
            epoch=epoch,
            step=self._steps,
            per_class_gradient=class_gradient(logits, embeddings[party], self.gradient_scale(batch)),
            joined=self._network.total(self.join(received), len(received)),
        )

    def gradient_scale(self, batch: Batch) -> int:
        """Return the factor by which a defense scales the batch's gradients, and unscales its result: mostly 1."""
        return len(batch.ids) if self.task.cell.training.grad_scale == "per_sample" else 1

    def record(self, batch: Batch, *, epoch: int, sent: Sequence[Tensor], received: Sequence[Tensor]) -> None:
        """Record the values of a step that the study's attacks are granted.

        Args:
            batch: the rows that the bottom models read.
            epoch: from 0.
            sent: the embedding that each passive party sent, ``(B, d)``.
            received: the gradient that came back for it, ``(B, d)``, exactly as it left the label party.

        Raises:
            UsageError: when a row comes twice in an epoch, or an epoch ended without one: attacks count visits by it.
        """
        self._begun()
        if epoch != self._epoch:
            self._end_epoch(epoch)
        before, ids = int(self._visited.sum()), batch.ids.cpu()
        self._visited[ids] = True
        if int(self._visited.sum()) < before + len(ids):
            raise UsageError(f"a row comes twice in epoch {epoch}: record each training row once an epoch")
        for keeper in self._keepers.values():
            keeper.inputs(batch, self.rows, epoch=epoch)
            for party, embedding in enumerate(sent):
                keeper.send_embedding(embedding.detach(), party=party)
            for party, gradient in enumerate(received):
                keeper.gradient_received(gradient, party=party, ids=batch.ids, epoch=epoch, step=self._steps)
        self._steps += 1

    def measure(self, scores: Tensor) -> float:
        """Measure the utility, and run the study's attacks on the recorded steps.

        Args:
            scores: ``(n_test, K)`` class scores of the test rows, as the defense decodes them.

        Returns:
            The utility of this seed; :func:`outcome` has the rest, over all seeds.
        """
        training = self._begun()
        if self._steps:
            self._end_epoch(self._epoch + 1)
        training.settle()
        for keeper in self._keepers.values():
            keeper.end(training)
        run = Run(self.task, self._pack, self.split, training.network, self._keepers)
        fill(run, self.defense, scores.detach(), training.diverged)
        write_seconds(run.table, {"train": time.perf_counter() - self._started})
        with torch.enable_grad():  # attacks train heads of their own, wherever the scores were computed
            self.table = measured(run, self.task.attacks)
        self._training, self._keepers = None, {}  # what was recorded may be large, and has been read
        return float(self.table["utility",][0])

    def _end_epoch(self, following: int) -> None:
        """Hold the epoch that ends to have had every row."""
        if missing := int((~self._visited).sum()):
            raise UsageError(
                f"epoch {self._epoch} ended without {missing} of {len(self._visited)} training rows: record each once "
                "an epoch, a last batch with fewer rows too"
            )
        self._epoch = following
        self._visited.zero_()

    def _begun(self) -> SplitTraining:
        if self._training is None:
            raise UsageError("a loop of one's own: call begin(bottoms) before the first step, and measure(scores) once")
        return self._training


def _watching_alone(task: Task) -> Task:
    """Return a task without acting attacks, which cannot take part in a user's own loop."""
    named = tuple(n for n, attack in zip(task.cell.attacks, task.attacks, strict=True) if not attack.capabilities.acts)
    return replace(task, cell=task.cell.model_copy(update={"attacks": named}), attacks=task.watching)


def outcome(loops: Sequence[OwnLoop] | Sequence[OwnRounds]) -> Outcome:
    """Return the outcome of trainings of one setting, one a seed, as a trial of a search does.

    Raises:
        UsageError: for none, or one that was not measured.
    """
    if not loops or not all(loop.table for loop in loops):
        raise UsageError("expected one or more loops that were measured; call measure(scores) at the end of each")
    task, seeds = loops[0].task, tuple(loop.seed for loop in loops)
    same = replace(task, cell=task.cell.model_copy(update={"seeds": seeds}))
    found = outcome_of(same, joined([loop.table for loop in loops]))
    left = [f"attack {name!r} takes part in a training: not carried out in this loop" for name in loops[0].left_out]
    return found.model_copy(update={"notes": [*found.notes, *left]})
