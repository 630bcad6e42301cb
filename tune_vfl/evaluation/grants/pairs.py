"""Rows of the passive party whose features the label party knows, and the embeddings that were sent for them."""

from __future__ import annotations

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.received import SentEmbeddings, targets_of
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.granted import Pairs
from tune_vfl.protocol.members import gather_rows
from tune_vfl.spec import Strict


@grant("pairs")
class KnownPairs(Grant):
    """Rows of the passive party with their embeddings, other ones than those under attack."""

    keeps = (SentEmbeddings,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Pairs | None:
        """Return features and embeddings; None for an attack on labels."""
        targets = targets_of(attack, run)
        if targets is None:
            return None
        features = run.pack.spread(gather_rows(run.split.passive_train[0], targets[1]))
        return Pairs(features, gather_rows(run.kept(SentEmbeddings).sent, run.pack.spread(targets[1])))
