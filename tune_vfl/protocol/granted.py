"""Values that an attack may be granted: recordings, labeled rows, features, oracles, embeddings. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tune_vfl.protocol.folds import folds_with_every_class
from tune_vfl.seeds import Stream

ORACLE_FOLDS = 10

Instant = Literal["first_batch", "epoch0", "last"]


@dataclass(frozen=True)
class Average:
    """A moment of several epochs: each row's mean gradient, in which independent noise averages out.

    Attributes:
        epochs: how many, at least 1; all of them where the training has fewer.
    """

    epochs: int

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"a mean is over 1 epoch or more, got {self.epochs}")


WHOLE_TRAINING = Average(2**31)
"""Each row's mean gradient over all epochs: over more of them than any training has."""

Moment = Instant | Average


@dataclass(frozen=True, eq=False)
class Recording:
    """Gradients received during one moment of training, in order of arrival.

    A mean over epochs has the last one's order and batches. What it averages is the gradient of a row's own loss, the
    received one times the rows of its batch then; it is divided by the rows of its batch here, as a received one is.

    Attributes:
        ids: ``(*trials, M)`` positions in the training split.
        gradients: ``(*trials, M, d)`` exactly the tensors that were sent to the attacker, or their means.
        batches: ``(start, stop)`` of each batch in the M rows.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks import Recording
        >>> one = Recording(ids=torch.arange(5), gradients=torch.zeros(5, 2), batches=((0, 3), (3, 5)))
        >>> one.batch_rows.tolist()
        [3.0, 3.0, 3.0, 2.0, 2.0]
    """

    ids: Tensor
    gradients: Tensor
    batches: tuple[tuple[int, int], ...]

    @property
    def batch_rows(self) -> Tensor:
        """``(M,)`` batch size of each row: the factor from a received gradient to that of the row's own loss."""
        return torch.cat([self.gradients.new_full((stop - start,), stop - start) for start, stop in self.batches])

    def of_members(self, members: int | Tensor) -> Recording:
        """Return the recording of some members, or of one without the leading axis."""
        return Recording(self.ids[members], self.gradients[members], self.batches)

    @staticmethod
    def joined(parts: Sequence[Recording]) -> Recording:
        """Return the recordings of several parties in the same batches, side by side; of one party, its own."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return Recording(first.ids, torch.cat([p.gradients for p in parts], -1), first.batches)


@dataclass(frozen=True, eq=False)
class Exchange:
    """A passive party's embedding of each training row and the gradient received for it, by epoch.

    Attributes:
        sent: ``(*trials, E, N, d)`` embeddings, in the order of the training split.
        received: ``(*trials, E, N, d)`` gradients of the row's own loss: the received ones times the rows of the batch.
    """

    sent: Tensor
    received: Tensor


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Partners and shares of one epoch's mixed training rows, known to every party that mixes.

    Attributes:
        partners: ``(*trials, N, m)`` int64 positions in the training split; mixture n carries the id of row n.
        shares: ``(*trials, N, m)`` the share of each, adding up to 1.
    """

    partners: Tensor
    shares: Tensor


@dataclass(frozen=True, eq=False)
class MixedGradients:
    """Sums of gradients received for mixtures over some epochs: sufficient for least squares.

    Attributes:
        mixtures: of each of the epochs; the same object where two epochs had the same ones.
        totals: ``(*trials, N, d)`` for each training row the sum, over the epochs and the mixtures that hold it, of its
            share times the gradient of the mixture's own loss (the received one times the rows of its batch).
    """

    mixtures: Sequence[Mixtures]
    totals: Tensor


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """Rows of the training split whose labels the attacker knows.

    Attributes:
        ids: ``(*trials, A)`` positions in the training split.
        labels: ``(*trials, A)`` their true labels.
        smaller: by rows a class, the sets that would have been drawn of fewer; each is a part of the next larger.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks import Auxiliary
        >>> Auxiliary(ids=torch.tensor([3, 17]), labels=torch.tensor([0, 1])).ids.tolist()
        [3, 17]
    """

    ids: Tensor
    labels: Tensor
    smaller: Mapping[int, Auxiliary] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Features:
    """The attacker's own features: ``(*trials, n, ...)`` for the training and the test rows.

    Attributes:
        added: how many of the last columns a defense had the attacker add to the data set's own.
    """

    train: Tensor
    test: Tensor
    added: int = 0


@dataclass(frozen=True, eq=False)
class Centers:
    """Class centers computed without the rows of one fold at a time.

    Attributes:
        folds: ``(*trials, M)`` int64 the fold of each row.
        without: ``(*trials, F, K, d)`` the centers of the rows outside each fold; NaN for a class that has none there.
    """

    folds: Tensor
    without: Tensor


@dataclass(frozen=True, eq=False)
class ClassOracle:
    """Per-class statistics of received values, computed with true labels that no real attacker has.

    A row's own value must not move the centers that it is compared with: on noise it would be nearer to its own class's
    by that alone. So rows fall into folds, and each fold is compared with centers of the others.

    Attributes:
        of: ``(values (*trials, M, d), ids (*trials, M), "mean" | "median") -> Centers``.
        means: ``(values, ids) -> Centers`` of one fold, the means of all rows, each row's own among them.
    """

    of: Callable[[Tensor, Tensor, Literal["mean", "median"]], Centers]
    means: Callable[[Tensor, Tensor], Centers]

    @classmethod
    def from_labels(cls, labels: Tensor, num_classes: int, keys: Tensor) -> ClassOracle:
        """Return the oracle of the true labels.

        Args:
            labels: ``(*trials, N)``, which ids are positions in.
            num_classes: K.
            keys: ``(*trials, N)`` random numbers in [0, 1), by which the rows of a class fall into folds.
        """

        def of(values: Tensor, ids: Tensor, statistic: Literal["mean", "median"]) -> Centers:
            y = labels.gather(-1, ids)
            folds = folds_with_every_class(y, keys.gather(-1, ids), ORACLE_FOLDS)
            center = _means if statistic == "mean" else _medians
            return Centers(folds, center(values, one_hot(y, num_classes).bool(), folds))

        def means(values: Tensor, ids: Tensor) -> Centers:
            members = one_hot(labels.gather(-1, ids), num_classes)
            return Centers(torch.zeros_like(ids), _means_of(values, members.unsqueeze(-2)))

        return cls(of, means)


def _means(values: Tensor, members: Tensor, folds: Tensor) -> Tensor:
    """Return ``(*trials, F, K, d)`` means of ``(*trials, M, d)`` values by class, without each fold."""
    inside = one_hot(folds, ORACLE_FOLDS).bool()
    return _means_of(values, members.unsqueeze(-2) & ~inside.unsqueeze(-1))


def _means_of(values: Tensor, counted: Tensor) -> Tensor:
    """Return means ``(*trials, F, K, d)`` of values ``(*trials, M, d)`` over rows counted ``(*trials, M, F, K)``."""
    shares = counted.to(values.dtype)
    sums = shares.flatten(-2).transpose(-1, -2) @ values
    counts = shares.sum(-3).unsqueeze(-1)
    return torch.where(counts > 0, sums.view(*counts.shape[:-1], -1) / counts, torch.nan)


def _medians(values: Tensor, members: Tensor, folds: Tensor) -> Tensor:
    """Return ``(*trials, F, K, d)`` medians, entry by entry, of values by class, without each fold."""
    found = []
    for f in range(ORACLE_FOLDS):
        kept = members & (folds != f).unsqueeze(-1)
        of_class = [values.masked_fill(~mine.unsqueeze(-1), torch.nan) for mine in kept.unbind(-1)]
        found.append(torch.stack([mine.nanquantile(0.5, dim=-2) for mine in of_class], dim=-2))
    return torch.stack(found, dim=-3)


@dataclass(frozen=True, eq=False)
class Received:
    """Embeddings that the label party received for the rows whose features are to be reconstructed.

    Attributes:
        ids: ``(*trials, M)`` positions in the training split.
        embeddings: ``(*trials, M, d)`` as they were sent, once the training was over.
        shape: of one row of the passive party: ``(d_x,)`` of a table, ``(C, H, W)`` of images with pixels in [0, 1].
    """

    ids: Tensor
    embeddings: Tensor
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Other rows of the passive party with their embeddings, known to the label party.

    Attributes:
        features: ``(*trials, A, ...)``.
        embeddings: ``(*trials, A, d)``, sent as those of :class:`Received` were.
    """

    features: Tensor
    embeddings: Tensor


@dataclass(frozen=True, eq=False)
class OwnColumns:
    """The label party's own columns of the rows that it reconstructs, and of known rows.

    Attributes:
        received: ``(*trials, M, d)`` of the rows of :class:`Received`.
        pairs: ``(*trials, A, d)`` of the rows of :class:`Pairs`.
    """

    received: Tensor
    pairs: Tensor


@dataclass(frozen=True, eq=False)
class FirstBatch:
    """A passive party's data of the first batch if only the gradient of its parameters arrives in the clear.

    Attributes:
        ids: ``(*trials, B)`` positions in the training split.
        features: ``(*trials, B, ...)`` what it fed to its bottom model: its own rows, mixed where a defense mixes them.
        gradient: for each parameter of the bottom model, in order, the gradient that the received one causes.
        bottom: makes a copy of the bottom model as it was before the first step.
        others: how many other parties send embeddings, the label party included where it has features.
        aggregation: how the label party joins them.
        top: makes a fresh top model of the known shape from a stream; None where the joined embeddings are the logits.
    """

    ids: Tensor
    features: Tensor
    gradient: tuple[Tensor, ...]
    bottom: Callable[[], nn.Module]
    others: int
    aggregation: Literal["concat", "sum", "mean"]
    top: Callable[[Stream], nn.Module] | None
