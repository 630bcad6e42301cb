"""Gradient boosting over the columns of several parties, and the record of what each passive party is told.

A round grows a tree for two classes, or a tree a class for more. To sum gradients by bin, a passive party is told which
rows stand in every node that it may split; of a node that it split itself it knows both children. Encryption is taken
as perfect: it sees no gradient, no sum, no weight of a leaf and no cut of another party.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tune_vfl.trees.bins import Bins, ColumnBins
from tune_vfl.trees.growing import Bools, Floats, Growth, Ints, Parting, Tree, grow

OWN = -1
"""The label party, among the owners of columns."""

AtHome = Callable[[int, Floats], Bools]
"""Says which nodes ``(M,)`` of a tree's level stay at the label party, from the round and their class shares (M, K)."""
Tellable = Callable[[Floats], Bools]
"""Says which nodes may be told, ``(...)``, from how many rows of each class stand in them, ``(..., K)``."""
Derivatives = Callable[[Floats], tuple[Floats, Floats]]
"""Returns first and second derivatives ``(N, C)`` of the rows' losses by their scores ``(N, C)``."""


def told_to_all(round_: int, shares: Floats) -> Bools:
    """Keep no node at home."""
    return np.zeros(len(shares), dtype=bool)


@dataclass(frozen=True)
class Boosting(Growth):
    """Rules of boosting.

    Attributes:
        trees: rounds; each grows one tree, or one a class for more than two classes.
        learning_rate: factor of what a tree adds to the scores.
        bins: the most bins of a column.
        rows: share of the rows, drawn for each round, whose gradients its trees are grown on.
        columns: share of all parties' columns, drawn for each round, that may be split on.
        tells_leaves: whether passive parties are told the leaves, as in XGBoost's vertical mode, or only what was
            summed for a further split, as in FATE; whoever made a last split knows both of its sides either way.
    """

    trees: int = 50
    learning_rate: float = 0.1
    bins: int = 32
    rows: float = 1.0
    columns: float = 1.0
    tells_leaves: bool = True


@dataclass(eq=False)
class BoostedRows:
    """The training rows of all parties in bins, with their scores, and the trees so far.

    Args:
        parties: the training rows ``(N, d)`` of each party, with its number, :data:`OWN` for the label party.
        shares: ``(N, K)`` the classes that it trains on, one-hot or soft.
        rules: of the boosting.
        derivatives: of the loss; scores start at the log odds, or the logs, of the classes' shares.
        at_home: which nodes stay at the label party.
        tellable: which nodes may be told; a passive party's split needs both sides to be, and both sides of one by the
            label party stay at home where one is not. None: all.
        uniform: draws so many numbers in [0, 1).

    Attributes:
        scores: ``(N, C)``, C 1 for two classes and K for more.
        trees: those grown, and ``told``: ``(parties, nodes)`` of each the nodes whose rows a passive party knows.
        splits: how many nodes each passive party, and last the label party, has split.
    """

    parties: Sequence[tuple[int, Floats]]
    shares: Floats
    rules: Boosting
    derivatives: Derivatives
    uniform: Callable[[int], Floats]
    at_home: AtHome = told_to_all
    tellable: Tellable | None = None
    trees: list[list[Tree]] = field(default_factory=list)
    told: list[Bools] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Cut the columns into bins and start the scores. The label party's columns stand first and win ties."""
        held = sorted(self.parties, key=lambda party: party[0])
        self.owner = np.concatenate([np.full(x.shape[1], party) for party, x in held])
        self.count = max(max(party for party, _ in held) + 1, 1)
        table = np.concatenate([x for _, x in held], axis=1)
        self._cuts = ColumnBins.of(table, self.rules.bins)
        self._bins: Bins = self._cuts.binned(table)
        mean = self.shares.mean(0).clip(1e-6)
        self._start = np.log(mean[1:] / mean[:1]) if len(mean) == 2 else np.log(mean)
        self.scores = np.tile(self._start, (len(table), 1))
        self.splits = np.zeros(self.count + 1, dtype=np.int64)

    def grow_round(self) -> None:
        """Grow the trees of the next round, and add what they say to the scores."""
        rules, number = self.rules, len(self.trees)
        used = self._drawn(self.scores.shape[0], rules.rows)
        chosen = self._drawn(len(self.owner), rules.columns)
        grown: list[Tree] = []
        parting = None if self.tellable is None else Parting(self.shares.T, self._may_part)
        for g, h in zip(*(part.T for part in self.derivatives(self.scores)), strict=True):
            home: list[Bools] = []

            def allowed(level: int, place: Ints, home: list[Bools] = home) -> Bools:
                inside = np.stack([np.bincount(place, of, 2**level) for of in self.shares.T], -1)
                above = home[-1].repeat(2) if home else False
                home.append(self.at_home(number, inside / inside.sum(-1, keepdims=True).clip(1e-12)) | above)
                if self.tellable is not None and level:
                    home[-1] |= ~self.tellable(np.asarray(inside, dtype=np.float64)).reshape(-1, 2).all(-1).repeat(2)
                return np.asarray(chosen & ((self.owner == OWN) | ~home[-1][:, None]), dtype=bool)

            tree = grow(self._bins, np.stack([g, h]) * used, rules, allowed, parting)
            self.told.append(self._told(tree, home))
            grown.append(tree)
        self.scores += np.stack([rules.learning_rate * tree.weight[tree.leaf] for tree in grown], -1)
        self.trees.append(grown)

    def _may_part(self, left: Floats, right: Floats) -> Bools:
        """Return which splits ``(F, M, W)`` may be made: the label party's, and those whose sides may be told."""
        told = [self.tellable(np.moveaxis(side, 0, -1)) for side in (left, right)] if self.tellable else []
        return np.asarray((self.owner == OWN)[:, None, None] | np.logical_and.reduce(told))

    def scores_of(self, parties: Sequence[tuple[int, Floats]]) -> Floats:
        """Return the scores ``(n, C)`` of other rows, whose columns are given as the training rows' were."""
        table = np.concatenate([x for _, x in sorted(parties, key=lambda party: party[0])], axis=1)
        bins = self._cuts.binned(table)
        scores = np.tile(self._start, (len(table), 1))
        for grown in self.trees:
            added = [self.rules.learning_rate * tree.weight[tree.leaves_of(bins)] for tree in grown]
            scores += np.stack(added, -1)
        return scores

    def leaves(self) -> Ints:
        """Return the leaf of each row in each tree, ``(trees, N)``."""
        return np.stack([tree.leaf for grown in self.trees for tree in grown])

    def _drawn(self, count: int, share: float) -> Bools:
        """Return which of so many are drawn: a share of them, at least one; all of them without a draw."""
        if share >= 1:
            return np.ones(count, dtype=bool)
        keys = self.uniform(count)
        kept: Bools = keys.argsort().argsort() < max(1, round(share * count))
        return kept

    def _told(self, tree: Tree, home: Sequence[Bools]) -> Bools:
        """Return the nodes of a tree ``(parties, 2^(depth + 1) - 1)`` whose rows each passive party knows."""
        by = np.where(tree.column >= 0, self.owner[tree.column], OWN - 1)
        self.splits += [int((by == party).sum()) for party in (*range(self.count), OWN)]
        asked = ~np.concatenate(home)
        inner = len(by)
        asked[inner:] &= self.rules.tells_leaves
        told = np.tile(asked, (self.count, 1))
        for party in range(self.count):
            made = np.flatnonzero(by == party)
            told[party, 2 * made + 1] = told[party, 2 * made + 2] = True
        # A node that is not split hands its rows down as they are: whoever knows them there knows them here.
        for node in np.flatnonzero(by == OWN - 1):
            told[:, 2 * node + 1] |= told[:, node]
        return told
