"""Keepers: recorders of a training's values that attacks are granted later."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

import torch
from torch import Tensor

from tune_vfl.attacks.base import Attack
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training


class Keeper(Hooks):
    """A recorder of one training. Each class has one instance per training, shared by all grants and attacks.

    It is the last of the hooks, so it sees what was really sent. It may look, and change nothing. What it keeps has the
    axis of all members in front, and is read by :meth:`part`.
    """

    _members: Tensor | None = None

    def __init__(self, attacks: Sequence[Attack[Strict]], training: Training, rows: int) -> None:
        self.attacks, self.training, self.rows = attacks, training, rows

    @classmethod
    def bytes_needed(cls, attacks: Sequence[Attack[Strict]], *, members: int, rows: int, width: int) -> int:
        """Return the memory of the recording per passive party while ``members`` train; little by default.

        Args:
            attacks: those that share the training.
            members: networks that train together.
            rows: of the data set.
            width: columns of an embedding.
        """
        return 0

    def begin(self, loop: SplitTraining) -> None:
        """Look at the training before its first step."""

    def end(self, loop: SplitTraining) -> None:
        """Look at the training after its last step; everything else that draws noise has drawn by then."""

    @classmethod
    def stands_in(cls) -> bool:
        """Return whether noise can replace a recorded training."""
        return cls.keep_noise is not Keeper.keep_noise

    def keep_noise(self, width: int, streams: Streams) -> None:
        """Record noise of the shape of a training's values, independent of the labels.

        Args:
            width: columns of an embedding.
            streams: the random streams of the noise, one per member.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps nothing where nothing was trained")

    def member(self, index: int) -> Self:
        """Return the recording of one member, without leading axes."""
        return self.of_members(torch.tensor(index))

    def of_members(self, members: Tensor) -> Self:
        """Return the recording of some members, by position; of one without leading axes where it has none."""
        some = copy(self)
        some._members = members if self._members is None else self._members[members]
        return some

    def part(self, kept: Tensor) -> Tensor:
        """Return of what was kept, ``(T, ...)``, these members' part."""
        return kept if self._members is None else kept[self._members]
