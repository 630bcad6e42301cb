"""Training on encrypted residuals: a passive party is told its columns' sums over a batch, and nothing of a row."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tune_vfl.protocol.loop import SplitTraining, overriding
from tune_vfl.protocol.members import Batch


@dataclass(frozen=True, eq=False)
class BatchSums:
    """Sums that a passive party was told, a batch after the other, and the rows of each batch.

    Attributes:
        values: ``(*trials, E, S, K, d)`` by epoch and step: the batch's mean of residual times own columns, in each of
            the logits; one of two classes is the positive one's.
        weights: as ``values``: the party's weights when it was told, before they stepped.
        order: ``(*trials, E, N)`` positions of the training rows in their order of arrival, a batch after the other.
        batch_size: rows of a batch; the last one of an epoch may have fewer.
        columns: how many of the d columns are each party's, of parties that know together; none: they are one's.
    """

    values: Tensor
    weights: Tensor
    order: Tensor
    batch_size: int
    columns: tuple[int, ...] = ()

    def of_members(self, members: int | Tensor) -> BatchSums:
        """Return those of some members, or of one without the leading axis."""
        values, weights, order = (t[members] for t in (self.values, self.weights, self.order))
        return BatchSums(values, weights, order, self.batch_size, self.columns)


class SummedTraining(SplitTraining):
    """Trains linear models: the gradient of a passive party's weights is its columns' sum, and all that it is told."""

    def tell(self, batch: Batch, epoch: int) -> None:
        """Let hooks change the sums and observe them, before the weights step by them."""
        changing, observing = (overriding(self.hooks, name) for name in ("send_sums", "sums_told"))
        for party, bottom in enumerate(self.network.bottoms):
            for weight in bottom.parameters():
                assert weight.grad is not None  # noqa: S101 - gone back to
                for change in changing:
                    weight.grad = change(weight.grad, party=party)
                for observe in observing:
                    observe(weight.grad, weight.detach(), party=party, ids=batch.ids, epoch=epoch)
