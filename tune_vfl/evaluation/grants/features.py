"""The attacker's own features, or those of several parties side by side."""

from __future__ import annotations

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import Features
from tune_vfl.spec import Strict


@grant("features")
class OwnFeatures(Grant):
    """The attacker's own columns of the training rows, with those that a defense had it add."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> Features:
        """Return training and test rows."""
        return Features(train=run.x_train, test=run.x_test, added=sum(run.layout.added))
