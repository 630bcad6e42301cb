"""A site that records what it sends and receives in NVFlare: put it in the place of ``Site`` in ``job.py``.

In a class of your own its lines go where the gradient of the embeddings that were sent last arrives, and to the end.
"""

from __future__ import annotations

import numpy as np
import torch
from nvflare.collab import collab
from sites import Site
from torch import Tensor


class RecordedSite(Site):
    """A site without labels whose recording ``tune-vfl attack`` reads."""

    @collab.publish
    def begin(self, seed: int) -> int:
        """Begin a training with nothing recorded."""
        self.visits: dict[str, list[Tensor]] = {"ids": [], "steps": [], "embeddings": [], "gradients": []}
        return int(super().begin(seed))

    @collab.publish
    def learn(self, gradient: Tensor, lr: float) -> None:
        """Record a step, then take it."""
        step = self.ids.new_full(self.ids.shape, len(self.visits["steps"]))
        for name, value in zip(self.visits, (self.ids, step, self.sent.detach(), gradient), strict=True):
            self.visits[name].append(value)  # as received, with what was sent for it
        super().learn(gradient, lr)

    @collab.final
    def save(self) -> None:
        """Write the recording of the last training when the job ends; the label site has none."""
        if not hasattr(self, "visits"):
            return
        ids, steps, sent, received = (torch.cat(values).numpy() for values in self.visits.values())
        file = self.folder / "recording.npz"
        np.savez(file, ids=ids, steps=steps, embeddings=sent, gradients=received, columns=self.train.numpy())
