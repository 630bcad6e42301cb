"""The top model's part of a client's gradients, which every client uploads, whatever its defense."""

from __future__ import annotations

from tune_vfl.attacks.base import Attack
from tune_vfl.evaluation.grants.base import Grant, grant
from tune_vfl.evaluation.grants.client_gradients import SingleSteps, uploads_of
from tune_vfl.evaluation.run import Run
from tune_vfl.protocol.uploaded import Uploads
from tune_vfl.spec import Strict


@grant("top_gradients")
class TopGradients(Grant):
    """Gradients of the shared part, which a server reads if bottom models are private, or are assumed to be."""

    keeps = (SingleSteps,)

    def hand_out(self, attack: Attack[Strict], run: Run) -> Uploads | None:
        """Return the gradients; None for attacks on labels, or if no client trained; empty without a top model."""
        top, members = run.network.top, max(1, len(run.pack.seed_of_each) if run.pack.lead else 1)
        width = 0 if top is None else sum(p.numel() for p in top.parameters()) // members
        return uploads_of(attack, run, width)
