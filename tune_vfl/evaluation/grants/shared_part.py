"""The top model that all clients share, and the public architecture of the bottom models that they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.client_model import ClientNetwork
from tune_vfl.protocol.uploaded import SharedPart

if TYPE_CHECKING:
    from torch import nn

    from tune_vfl.attacks.base import Attack
    from tune_vfl.evaluation.run import Run
    from tune_vfl.seeds import Stream
    from tune_vfl.spec import Strict


@grant("shared_part")
class PublicPart(Grant):
    """What a server knows that is told no bottom model."""

    keeps = (ClientNetwork,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> SharedPart | None:
        """Return it; None where no client trained."""
        kept = run.kept(ClientNetwork)
        if not kept.of_a_client:
            return None
        task, shape = run.task, tuple(run.x_train.shape[len(run.pack.lead) + 1 :])

        held = task.dataset.parties[0].fields
        fields = (*held, *[1] * (shape[0] - sum(held))) if held else ()
        width = task.architecture.width(shape, task.dataset.num_classes)

        def bottom(stream: Stream) -> nn.Module:
            with torch.random.fork_rng(devices=[]):  # torch's own layers draw from its global generator
                return task.architecture.bottom_of(shape, fields, width, stream)

        return SharedPart(kept.top, bottom)
