"""A white-box label party's knowledge of a passive party's trained bottom model."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import Defense
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.keeper import Keeper
from tune_vfl.evaluation.run import Run
from tune_vfl.models.layers import select_members
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.seeds import Stream
from tune_vfl.spec import Strict


class DisguisedBottom(Keeper):
    """Stores the trained model, with the defense, which can redraw the passive party's secrets."""

    _defense: Defense
    _bottom: nn.Module
    _seeds: int | list[int]

    def end(self, loop: SplitTraining) -> None:
        """Store the model and the defense; the model moves to the CPU with its network."""
        self._defense = next(h for h in loop.hooks if isinstance(h, Defense))
        self._bottom, self._seeds = loop.network.bottoms[0], loop.rows.pack.member_seeds

    def guessed(self, name: str) -> nn.Module:
        """Return a copy of the model with secrets redrawn from the stream ``name``."""
        return self._own(self._defense.disguised(self._bottom, stream=Stream(self._seeds, name)))

    def opened(self, name: str) -> nn.Module:
        """Return a copy of the model whose secrets are its only trainable parameters, starting at a guess."""
        frozen = copy.deepcopy(self._bottom).requires_grad_(False)
        return self._own(self._defense.open_bottom(frozen, stream=Stream(self._seeds, name)))

    def _own(self, found: nn.Module) -> nn.Module:
        return found if self._members is None else select_members(found, self._members)


@grant("known_bottom")
class KnownBottom(Grant):
    """The passive party's trained bottom model, with guesses in the place of what a defense keeps secret of it."""

    keeps = (DisguisedBottom,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Callable[[str], nn.Module]:
        """Return a factory of copies with secrets redrawn from the stream of a given name."""
        known = run.kept(DisguisedBottom)
        return lambda name: known.guessed(f"attack/{attack.name}/{name}")
