"""The label party's own columns, if it has any beside the labels: side information on the rows under attack."""

from __future__ import annotations

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.received import targets_of
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import OwnColumns
from tune_vfl.protocol.members import gather_rows
from tune_vfl.spec import Strict


@grant("own_features")
class LabelPartyColumns(Grant):
    """The label party's columns of the rows under attack and of the rows that it knows."""

    def hand_out(self, attack: Attack[Strict], run: Run) -> OwnColumns | None:
        """Return the columns; None for attacks on labels, and if the label party has labels only."""
        targets, own = targets_of(attack, run), run.split.active_train
        if targets is None or own is None:
            return None
        return OwnColumns(*(run.pack.spread(gather_rows(own, ids).flatten(ids.dim())) for ids in targets))
