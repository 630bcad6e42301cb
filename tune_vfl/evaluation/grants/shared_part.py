"""The top model that all clients share, and the public architecture of the bottom models that they do not."""

from __future__ import annotations

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.client_model import ClientNetwork
from tune_vfl.evaluation.run import Run
from tune_vfl.models.base import as_architecture, built_bottom
from tune_vfl.protocol.uploaded import SharedPart
from tune_vfl.spec import Strict


@grant("shared_part")
class PublicPart(Grant):
    """The part of a client's network that is shared with the server, without the bottom model."""

    keeps = (ClientNetwork,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> SharedPart | None:
        """Return the shared part; None if no client trained."""
        kept = run.kept(ClientNetwork)
        if not kept.of_a_client:
            return None
        task, shape = run.task, tuple(run.x_train.shape[len(run.pack.lead) + 1 :])
        architecture, held = as_architecture(task.architecture), task.dataset.parties[0].fields
        width = architecture.width(shape, task.dataset.num_classes)
        return SharedPart(kept.top, lambda stream: built_bottom(architecture, shape, held, width, stream))
