"""One training of a pack, as grants and keepers see it before its first step and after its last one."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from tune_vfl.data.base import Split
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.table import Table
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import VflNetwork
from tune_vfl.models.joined import JoinedBottoms, SideBySide
from tune_vfl.models.layers import select_members
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import derive

K = TypeVar("K", bound="Keeper")


@dataclass(frozen=True, eq=False)
class Run:
    """A pack with its network and true labels, from which the views of attacks are made.

    Attributes:
        task: the task to train.
        pack: the members of the training.
        split: the rows, stacked over the pack's seeds (not over its trials), with the defense's extension columns.
        network: on the CPU once it is trained, and then in evaluation mode; never handed out itself, only copies.
        keepers: recordings of the training for grants, by class; none before the training.
        table: the measurements, a row a member; empty before the training.
        parties: the passive parties that views are cut for, by position: the one that attacks, all that attack
            together, or the one under attack.
        draw: the number of the draw of known rows and of attackers' random numbers; 0 is the seeds' own.
    """

    task: Task
    pack: Pack
    split: Split
    network: VflNetwork
    keepers: Mapping[type[Keeper], Keeper] = field(default_factory=dict)
    table: Table = field(default_factory=dict)
    parties: tuple[int, ...] = (0,)
    draw: int = 0

    @property
    def drawn(self) -> Pack:
        """The pack with the seeds of the attackers' rows and streams: its own, or those of another draw."""
        if self.draw == 0:
            return self.pack
        return replace(self.pack, seeds=tuple(derive(seed, f"draw/{self.draw}") for seed in self.pack.seeds))

    @property
    def y_train(self) -> Tensor:
        """``(*trials, N)`` true training labels."""
        return self.pack.spread(self.split.y_train)

    @property
    def y_test(self) -> Tensor:
        """``(*trials, n_test)`` true test labels."""
        return self.pack.spread(self.split.y_test)

    @property
    def x_train(self) -> Tensor:
        """``(*trials, N, ...)`` the training rows of :attr:`parties`, of several side by side."""
        return self._rows(self.split.passive_train)

    @property
    def x_test(self) -> Tensor:
        """``(*trials, n_test, ...)`` the test rows of :attr:`parties`, of several side by side."""
        return self._rows(self.split.passive_test)

    @property
    def layout(self) -> SideBySide:
        """Layout of the rows of :attr:`parties` side by side."""
        axes, own = self.split.y_train.dim(), self.task.dataset.passive
        shapes = tuple(tuple(self.split.passive_train[k].shape[axes:]) for k in self.parties)
        added = (shape[-1] - own[k].shape[-1] for k, shape in zip(self.parties, shapes, strict=True))
        return SideBySide(shapes, tuple(added))

    def bottom(self) -> nn.Module:
        """Return a fresh copy of the bottom model of :attr:`parties`, of several as one."""
        parts = [copy.deepcopy(self.network.bottoms[k]) for k in self.parties]
        return parts[0] if len(parts) == 1 else JoinedBottoms(parts, self.layout)

    def _rows(self, passive: Sequence[Tensor]) -> Tensor:
        held = [self.pack.spread(passive[k]) for k in self.parties]
        return held[0] if len(held) == 1 else self.layout.joined(held)

    def seen_by(self, parties: tuple[int, ...]) -> Run:
        """Return the same training, for views of these passive parties."""
        return replace(self, parties=parties)

    def with_draw(self, draw: int) -> Run:
        """Return the same training, for views of another draw of the attackers' rows and random numbers."""
        return replace(self, draw=draw)

    def kept(self, kind: type[K]) -> K:
        """Return the keeper of a class.

        Raises:
            KeyError: when no attack of this training needs it.
        """
        keeper = self.keepers[kind]
        assert isinstance(keeper, kind)  # noqa: S101 - filed under its own class
        return keeper

    def member(self, index: int) -> Run:
        """Return one member of a pack, without leading axes."""
        seed = index % len(self.pack.seeds)
        found = self._of_members(torch.tensor(index))
        return replace(found, pack=Pack((self.pack.seeds[seed],), None), split=self.split.seed(seed))

    def of_trials(self, trials: Sequence[int]) -> Run:
        """Return some trials of a pack with all their seeds, side by side."""
        seeds = len(self.pack.seeds)
        found = self._of_members(torch.arange(self.pack.lead[0]).view(-1, seeds)[list(trials)].flatten())
        return replace(found, pack=replace(self.pack, trials=len(trials)))

    def _of_members(self, members: Tensor) -> Run:
        return replace(
            self,
            network=select_members(self.network, members),
            keepers={kind: keeper.of_members(members) for kind, keeper in self.keepers.items()},
        )
