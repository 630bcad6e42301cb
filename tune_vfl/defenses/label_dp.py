"""Label differential privacy by randomised response: some labels are swapped once, before training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses._by_id import RowTable
from tune_vfl.defenses.base import Defense, DefenseCapabilities, defense
from tune_vfl.protocol.losses import class_probabilities, task_loss
from tune_vfl.spec import Strict


class LabelDpParams(Strict):
    """Parameters of :class:`LabelDp`."""

    epsilon: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="privacy budget of each label; larger keeps more labels"
    )
    forward_correct: bool = Field(
        False, description="train the predictions, passed through the swapping probabilities, on the noisy labels"
    )


def keep_probability(epsilon: float, num_classes: int) -> float:
    """Return how likely randomised response keeps a label: e^epsilon / (e^epsilon + K - 1)."""
    return 1 / (1 + (num_classes - 1) * math.exp(-epsilon))


@defense("label_dp")
class LabelDp(Defense):
    """Keeps each label with probability e^eps / (e^eps + K - 1), else swaps it for one of the others, uniformly.

    Every label is drawn once, at the set-up, and stays: drawing again at each epoch would spend the budget each time.
    With ``forward_correct`` the loss compares the noisy labels with the distribution that the predicted classes would
    have after swapping, so that the model learns the true classes. Source: randomised response, Warner 1965; as a
    label defense Ghazi et al. 2021.
    """

    summary = "randomised response on the labels, drawn once"
    reference = "Ghazi et al. 2021, Deep Learning with Label Differential Privacy"
    Params = LabelDpParams
    capabilities = DefenseCapabilities(protects=("labels",), random=("labels",))
    # Beyond this epsilon the chance of a swap is below what 32-bit random numbers can hit.
    weakest = {"epsilon": 100.0}  # noqa: RUF012 - read only, as its declaration in the base says

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: draw every row's label."""
        super().setup(y, ids, active_features=active_features, seed=seed)
        stream, count = self.streams["labels"], y.shape[-1]
        coin, other = stream.uniform(count), stream.uniform(count)
        others = self.num_classes - 1
        step = 1 + (other * others).long().clamp(max=others - 1)
        self._rows = RowTable(ids)
        self._noisy = torch.where(coin < self._keep(dims=1), y, (y + step) % self.num_classes)

    def _keep(self, dims: int) -> Tensor:
        kept = [keep_probability(epsilon, self.num_classes) for epsilon in self.values("epsilon")]
        shape = (-1, *([1] * dims)) if self.stacked else ()
        return torch.tensor(kept, dtype=torch.float64, device=self._device).view(shape)

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: return the labels ``(*trials, B)`` drawn for these rows."""
        return self._noisy.gather(-1, self._rows.positions(ids))

    def loss(self, logits: Tensor, targets: Tensor, embeddings: Sequence[Tensor]) -> Tensor:
        """H5: the task loss, or with ``forward_correct`` the cross-entropy after swapping; ``(*trials,)``."""
        if not any(getattr(p, "forward_correct", False) for p in self.members):
            return task_loss(logits, targets)
        kept = self._keep(dims=2).to(logits.dtype)
        swapped = (1 - kept) / (self.num_classes - 1)
        predicted = class_probabilities(logits).gather(-1, targets.unsqueeze(-1))
        seen = predicted * (kept - swapped) + swapped
        return -seen.clamp_min(torch.finfo(seen.dtype).tiny).log().squeeze(-1).mean(-1)
