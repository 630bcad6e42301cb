"""An oracle of per-class statistics computed with true labels; it makes an attack's success an upper bound."""

from __future__ import annotations

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import ClassOracle
from tune_vfl.seeds import Streams
from tune_vfl.spec import Strict


@grant("class_oracle")
class ClassStatistics(Grant):
    """Means or medians by true class of any values that the attacker passes in: the label party alone has them."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> ClassOracle:
        """Return the oracle."""
        keys = Streams(run.pack.member_seeds)["class_oracle/folds"].uniform(run.y_train.shape[-1])
        return ClassOracle.from_labels(run.y_train, run.task.dataset.num_classes, keys)
