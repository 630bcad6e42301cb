"""Keepers: recorders of a training's values that attacks are granted later."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

from tune_vfl.attacks.base import Attack
from tune_vfl.protocol.hooks import Hooks
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict, Training


class Keeper(Hooks):
    """A recorder of one training. Each class has one instance per training, shared by all grants and attacks.

    It is the last of the hooks, so it sees what was really sent. It may look, and change nothing.
    """

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

    @abstractmethod
    def member(self, index: int) -> Self:
        """Return the recording of one member, without leading axes."""
