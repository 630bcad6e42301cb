"""A passive party's trained bottom model without its secrets, for a label party that fits them."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.known_bottom import DisguisedBottom
from tune_vfl.evaluation.run import Run
from tune_vfl.spec import Strict


@grant("open_bottom")
class OpenBottom(Grant):
    """The passive party's trained bottom model, with free parameters in the place of a defense's secrets."""

    keeps = (DisguisedBottom,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Callable[[str], nn.Module]:
        """Return a factory of copies whose free parameters start at a guess from the stream of the given name."""
        known = run.kept(DisguisedBottom)
        return lambda name: known.opened(f"attack/{attack.name}/{name}")
