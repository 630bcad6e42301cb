"""The federation of trees: columns lie as in the vertical one, and all parties grow boosted trees together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tune_vfl.data.base import Dataset
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.federations.base import FederatedTraining, federation
from tune_vfl.evaluation.federations.vertical import fill
from tune_vfl.evaluation.grants.base import keepers_for
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import put
from tune_vfl.evaluation.training import build_defense, build_network, by_member, show_rows, split_of
from tune_vfl.metrics.utility import utility
from tune_vfl.models.secureboost import SecureBoostOptions
from tune_vfl.protocol.loop import overriding
from tune_vfl.protocol.losses import class_probabilities, task_gradient
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.seeds import Streams
from tune_vfl.spec import Federation, StudySpec, Training
from tune_vfl.trees.boosting import OWN, BoostedRows, Boosting
from tune_vfl.trees.growing import Bools, Floats


@federation("trees")
class BoostedTrees(FederatedTraining):
    """Boosted trees of all parties, grown round by round, one seed at a time.

    Of the hooks it calls H0 and H1, and H5 where a defense has a loss of its own: gradients are then those of that
    loss, second derivatives those of the plain cross-entropy. Two hooks belong to trees alone.

    Attributes:
        boosted: the rows and the trees so far.
    """

    def __post_init__(self) -> None:
        """Show the defense the rows, cut columns into bins and build the keepers."""
        task, pack, attacks, recipe = self.task, self.pack, self.attacks, self.task.cell.training
        self._split, options = split_of(task, pack), cast("SecureBoostOptions", task.architecture.options)
        self._defense = build_defense(task, self.params, pack)
        show_rows(self._defense, self._split, pack)
        y = self._split.y_train
        keepers = {kind: kind(attacks, recipe, len(y)) for kind in keepers_for(attacks)}
        self._hooks = [self._defense, *self.hooks, *keepers.values()]
        targets = y
        for labels in overriding(self._hooks, "labels"):
            targets = labels(targets, torch.arange(len(y)))
        soft = one_hot(targets, task.dataset.num_classes) if targets.dim() == 1 else targets
        draws = Streams(pack.member_seeds, prefix="trees/")["sampled"]
        rules = options.model_dump(exclude={"leaves"})
        self.boosted = BoostedRows(
            self._tables("train"),
            soft.double().numpy(),
            Boosting(**rules, tells_leaves=options.leaves == "told"),
            self._derivatives(targets),
            lambda count: draws.uniform(count).numpy(),
            self._at_home(),
            self._tellable(soft.double().sum(0)),
        )
        network = build_network(task, self._split, pack, Streams(pack.member_seeds)).eval()
        self._run = Run(task, pack, self._split, network, keepers)
        self.per_epoch, self.total = 1, options.trees

    @classmethod
    def recipe(cls, spec: StudySpec, dataset: Dataset) -> tuple[Federation, Training]:
        """Return the federation and a recipe of an epoch a round: each row counts once in it.

        All else that there is to say of trees are options of the model.

        Raises:
            SpecError: for a spec that gives or searches a training.
        """
        named = sorted({*spec.training.model_fields_set, *(n[9:] for n in spec.searched if n.startswith("training."))})
        if named:
            raise SpecError(f"training.{named[0]}: trees are trained by model.trees, model.learning_rate and the like")
        rounds = spec.model.options.get("trees", SecureBoostOptions().trees)
        return Federation(name="trees"), Training(epochs=rounds)

    def steps(self, *, deadline: float | None = None) -> Iterator[int]:
        """Grow round by round; the deadline is looked at before each."""
        for done in range(self.total):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"training stopped after {done} of {self.total} rounds of trees: out of time")
            self.boosted.grow_round()
            yield done

    def utilities(self) -> list[float]:
        """Return the current utility on the test rows."""
        return by_member(utility, self.task.cell.metric, self._scores("test"), self._run.y_test)

    def finish(self) -> Run:
        """Return the finished training."""
        run, leaves = self._run, torch.from_numpy(self.boosted.leaves())
        told = torch.from_numpy(np.stack(self.boosted.told, 1))
        for observe in overriding(self._hooks, "partitions_told"):
            for party in range(len(self.task.dataset.passive)):
                observe(Partitions(leaves, told[party]), party=party)
        splits = self.boosted.splits
        put(run.table, ("logged",), {"splits_of_others": [float(splits[:-1].sum() / max(1, splits.sum()))]})
        fill(run, self._defense, self._scores("test"), torch.tensor(False))
        if self.task.asks_training_rows:
            on_training = by_member(utility, self.task.cell.metric, self._scores("train"), run.y_train)
            run.table["training_rows", "utility"] = on_training
        return run

    def _tables(self, part: str) -> list[tuple[int, Floats]]:
        """Return the rows of every party with columns; the label party's number is :data:`OWN`."""
        passive, own = (
            (self._split.passive_train, self._split.active_train)
            if part == "train"
            else (self._split.passive_test, self._split.active_test)
        )
        held = [*enumerate(passive), *([] if own is None else [(OWN, own)])]
        return [(party, x.flatten(1).double().numpy()) for party, x in held]

    def _scores(self, part: str) -> Tensor:
        """Return class scores ``(n, K)`` of the training or test rows."""
        logits = torch.from_numpy(self.boosted.scores_of(self._tables(part)))
        return self._defense.decode(logits)

    def _derivatives(self, targets: Tensor) -> Callable[[Floats], tuple[Floats, Floats]]:
        """Return the derivatives of each row's loss: of the cross-entropy, or of a defense's own loss (H5)."""
        losses, count = overriding(self._hooks, "loss"), len(targets)

        def of(scores: Floats) -> tuple[Floats, Floats]:
            logits = torch.from_numpy(scores.copy()).requires_grad_(bool(losses))
            if losses:
                (gradient,) = torch.autograd.grad(losses[-1](logits, targets, []), logits)
            else:
                gradient = task_gradient(logits, targets)
            p = class_probabilities(logits.detach())[..., -logits.shape[-1] :]
            return (gradient * count).numpy(), (p * (1 - p)).numpy()

        return of

    def _tellable(self, of_all: Tensor) -> Callable[[Floats], Bools] | None:
        """Return which nodes every hook lets be told; None where none forbids any."""
        asking = overriding(self._hooks, "tellable")

        def told(rows: Floats) -> Bools:
            nodes = torch.from_numpy(rows)
            return np.asarray(np.logical_and.reduce([ask(nodes, of_all=of_all).numpy() for ask in asking]))

        return told if asking else None

    def _at_home(self) -> Callable[[int, Floats], Bools]:
        """Return which nodes the defense keeps at the label party; those that any hook keeps."""
        keeping = overriding(self._hooks, "kept_at_home")

        def home(round_: int, shares: Floats) -> Bools:
            nodes = torch.from_numpy(shares)
            kept = [keep(nodes, round_=round_).numpy() for keep in keeping]
            return np.asarray(np.logical_or.reduce([np.zeros(len(shares), dtype=bool), *kept]))

        return home
