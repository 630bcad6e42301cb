"""The vertical federation: parties hold different columns of the same rows, one of them the labels.

That of sums has the same data, and a linear model whose residuals no passive party sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from tune_vfl.data.base import Split
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.federations.base import FederatedTraining, federation
from tune_vfl.evaluation.grants.base import keepers_for, view_of
from tune_vfl.evaluation.row_variance import row_variance
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.table import write_training
from tune_vfl.evaluation.training import (
    build_defense,
    build_network,
    by_member,
    extended,
    set_up,
    split_of,
)
from tune_vfl.metrics.utility import utility
from tune_vfl.protocol.loop import SplitTraining, overriding
from tune_vfl.protocol.members import Pack, Rows
from tune_vfl.protocol.sums import SummedTraining
from tune_vfl.seeds import Streams

_ROWS_AT_ONCE = 4096


@federation("vertical")
class Vertical(FederatedTraining):
    """One split network of all parties, trained batch by batch.

    Attributes:
        trains: the loop.
    """

    trains: ClassVar[type[SplitTraining]] = SplitTraining

    def __post_init__(self) -> None:
        """Build and set up the defense, the network, the acting attack's part and the keepers."""
        task, pack, attacks, recipe = self.task, self.pack, self.attacks, self.task.cell.training
        widened = sum(a.widens for a in attacks)
        self.defense = build_defense(task, self.params, pack, widened=widened)
        rows = extended(split_of(task, pack), self.defense, pack)
        network = build_network(task, rows, pack, Streams(pack.member_seeds), widened=widened).to(self.device)
        self._split = rows.to(self.device)
        set_up(self.defense, network, self._split, pack)
        before = Run(task, pack, rows, network)
        acting = [hook for a in attacks if a.capabilities.acts for hook in a.hooks(recipe, view_of(a, before))]
        count = rows.y_train.shape[-1]
        self._run = replace(before, keepers={kind: kind(attacks, recipe, count) for kind in keepers_for(attacks)})
        hooks = [self.defense, *acting, *self.hooks, *self._run.keepers.values()]
        self.loop = self.trains(network, Rows(self._split, pack), recipe, hooks, pack.lead)
        for keeper in self._run.keepers.values():
            keeper.begin(self.loop)
        self.per_epoch = -(-count // recipe.batch_size)
        self.total = recipe.epochs * self.per_epoch

    def steps(self, *, deadline: float | None = None) -> Iterator[None]:
        """Train batch by batch; the deadline is looked at once an epoch."""
        return self.loop.steps(deadline=deadline)

    def utilities(self) -> list[float]:
        """Return the utility of each member on the test rows; NaN for scores that are not finite."""
        network, training = self.loop.network, self.loop.network.training
        network.eval()
        scores = scores_on_test_rows(self.loop, self.defense, self._split, self.pack).cpu()
        network.train(training)
        return by_member(utility, self.task.cell.metric, scores, self._run.y_test)

    def finish(self) -> Run:
        """Return the finished training."""
        scores = scores_on_test_rows(self.loop, self.defense, self._split, self.pack).cpu()
        on_training = None
        if self.task.asks_training_rows:
            on_training = scores_on_training_rows(self.loop, self.defense, self._split, self.pack).cpu()
        # After everything else that draws noise: asking for it must move nothing.
        for keeper in self._run.keepers.values():
            keeper.end(self.loop)
        run = replace(self._run, network=self.loop.network.cpu())
        fill(run, self.defense, scores, self.loop.diverged.cpu())
        if on_training is not None:
            on_rows = by_member(utility, self.task.cell.metric, on_training, run.y_train)
            run.table["training_rows", "utility"] = on_rows
        return run


@federation("sums")
class EncryptedSums(Vertical):
    """One linear model of all parties, trained batch by batch on residuals of which passive parties are told sums."""

    trains = SummedTraining


def fill(run: Run, defense: Defense, scores: Tensor, diverged: Tensor) -> None:
    """Write a training's results into its table, one row per member.

    Args:
        run: the training.
        defense: as it ended.
        scores: ``(*trials, n_test, K)`` class scores of the test rows, on the CPU.
        diverged: ``(*trials,)`` bool.
    """
    # Weights may end finite and yet too large for the logits to be: that is a lost training, not a failed evaluation.
    lost = (diverged | ~torch.isfinite(scores).flatten(-2).all(-1)).reshape(-1).tolist()
    reached, variances = (by_member(of, run.task.cell.metric, scores, run.y_test) for of in (utility, row_variance))
    write_training(run.table, lost, reached, variances, defense)


@torch.no_grad()
def scores_on_test_rows(loop: SplitTraining, defense: Defense, split: Split, pack: Pack) -> Tensor:
    """Return the class scores ``(*trials, n_test, K)`` of the test rows, sent as in training (H3) and decoded (H10)."""
    return _scores(loop, defense, [pack.spread(x) for x in split.features("test")])


@torch.no_grad()
def scores_on_training_rows(loop: SplitTraining, defense: Defense, split: Split, pack: Pack) -> Tensor:
    """Return the class scores ``(*trials, N, K)`` of the unchanged training rows, a few thousand at a time."""
    axis = len(loop.lead)
    parts = zip(*(torch.split(pack.spread(x), _ROWS_AT_ONCE, axis) for x in split.features("train")), strict=True)
    return torch.cat([_scores(loop, defense, list(part)) for part in parts], axis)


def _scores(loop: SplitTraining, defense: Defense, features: list[Tensor]) -> Tensor:
    network = loop.network
    parties = len(network.bottoms)
    embeddings = [bottom(x) for bottom, x in zip(network.bottoms, features[:parties], strict=True)]
    for send in overriding(loop.hooks, "send_embedding"):
        embeddings = [send(e, party=party) for party, e in enumerate(embeddings)]
    own = [network.own_bottom(x) for x in features[parties:]] if network.own_bottom is not None else []
    return defense.decode_rows(network.head(network.join([*embeddings, *own])), features)
