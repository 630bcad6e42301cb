"""What an adversary may see is a type: a :class:`View` holds what an attack's threat model grants, and nothing else.

The private labels stay with the evaluator, which scores the attack's :class:`Answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from tune_vfl.errors import NotGrantedError
from tune_vfl.protocol.granted import FirstBatch, Pairs, Received
from tune_vfl.seeds import Streams

Instant = Literal["first_batch", "epoch0", "last"]
Grant = Literal[
    "gradients",
    "features",
    "bottom",
    "auxiliary",
    "positive_hints",
    "class_oracle",
    "class_prior",
    "received",
    "known_bottom",
    "pairs",
    "parameter_gradient",
]


@dataclass(frozen=True)
class Average:
    """A moment that lasts: each row's mean gradient over the last epochs, in which noise drawn anew averages out.

    Attributes:
        epochs: how many, at least 1; all of them where the training has fewer.
    """

    epochs: int

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"a mean is over 1 epoch or more, got {self.epochs}")


Moment = Instant | Average


@dataclass(frozen=True, eq=False)
class Recording:
    """What the attacker received during one moment of training, in the order it was sent.

    A mean over epochs has the last one's order and batches. What it averages is the gradient of a row's own loss, the
    received one times the rows of its batch then; it is divided by the rows of its batch here, as a received one is.

    Attributes:
        ids: ``(*trials, M)`` positions in the training split.
        gradients: ``(*trials, M, d)`` exactly the tensors that were sent to the attacker, or their means.
        batches: ``(start, stop)`` of each batch in the M rows.
    """

    ids: Tensor
    gradients: Tensor
    batches: tuple[tuple[int, int], ...]

    def member(self, index: int) -> Recording:
        """Return what one member of a pack received, without the leading axis."""
        return Recording(self.ids[index], self.gradients[index], self.batches)


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """Rows of the training split whose labels the attacker knows.

    Attributes:
        ids: ``(*trials, A)`` positions in the training split.
        labels: ``(*trials, A)`` their true labels.
        smaller: by rows a class, the sets that would have been drawn of fewer; each is a part of the next larger.
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
class ClassOracle:
    """Per-class statistics of the received gradients, computed with true labels by the evaluator.

    Attributes:
        of: ``(values (*trials, M, d), ids (*trials, M), "mean" | "median") -> (*trials, K, d)``.
    """

    of: Callable[[Tensor, Tensor, Literal["mean", "median"]], Tensor]


@dataclass(frozen=True, eq=False)
class View:
    """What one attack sees. Asking for what was not granted raises :class:`NotGrantedError`.

    Attributes:
        attack: the attack's name, for messages.
        lead: the leading axes ``*trials`` of every tensor here.
        num_classes: K, a public constant.
        streams: the attack's own random streams, named below its own name.
    """

    attack: str
    lead: tuple[int, ...]
    num_classes: int
    streams: Streams
    held_recordings: Mapping[Moment, Recording] | None = None
    held_features: Features | None = None
    held_bottom: Callable[[], nn.Module] | None = None
    held_auxiliary: Auxiliary | None = None
    held_positive_hints: Callable[[Recording, int], Tensor] | None = None
    held_class_oracle: ClassOracle | None = None
    held_class_prior: Tensor | None = None
    held_received: Received | None = None
    held_known_bottom: Callable[[str], nn.Module] | None = None
    held_pairs: Pairs | None = None
    held_first_batch: FirstBatch | None = None

    def _missing(self, grant: Grant) -> NotGrantedError:
        return NotGrantedError(
            f"attack {self.attack!r} asked for {grant!r}, which its capabilities do not list under sees; add it there "
            "if its threat model really grants it"
        )

    def recording(self, moment: Moment) -> Recording:
        """Return the gradients received during ``moment`` (grant ``gradients``)."""
        if self.held_recordings is None:
            raise self._missing("gradients")
        return self.held_recordings[moment]

    @property
    def features(self) -> Features:
        """The attacker's own features (grant ``features``)."""
        if self.held_features is None:
            raise self._missing("features")
        return self.held_features

    def bottom(self) -> nn.Module:
        """Return a fresh copy of the attacker's trained bottom model, its to change (grant ``bottom``)."""
        if self.held_bottom is None:
            raise self._missing("bottom")
        return self.held_bottom()

    @property
    def auxiliary(self) -> Auxiliary:
        """The labelled rows (grant ``auxiliary``)."""
        if self.held_auxiliary is None:
            raise self._missing("auxiliary")
        return self.held_auxiliary

    def positive_hints(self, recording: Recording, count: int) -> Tensor:
        """Return, for each batch, ``count`` known positive rows (grant ``positive_hints``).

        Returns:
            ``(*trials, batches, count)`` int64 positions in the recording, drawn without replacement among the
            positives whose received gradient is not all zeros (among all of them where there is none); -1 where
            the batch has fewer.
        """
        if self.held_positive_hints is None:
            raise self._missing("positive_hints")
        return self.held_positive_hints(recording, count)

    @property
    def class_oracle(self) -> ClassOracle:
        """Per-class statistics of the gradients (grant ``class_oracle``): makes the attack an upper bound."""
        if self.held_class_oracle is None:
            raise self._missing("class_oracle")
        return self.held_class_oracle

    @property
    def class_prior(self) -> Tensor:
        """``(*trials, K)`` class shares (grant ``class_prior``)."""
        if self.held_class_prior is None:
            raise self._missing("class_prior")
        return self.held_class_prior

    @property
    def received(self) -> Received:
        """The embeddings that the label party received for the rows under attack (grant ``received``)."""
        if self.held_received is None:
            raise self._missing("received")
        return self.held_received

    def known_bottom(self, restart: int = 0) -> nn.Module:
        """Return a copy of a passive party's trained bottom model as the label party knows it (grant ``known_bottom``).

        Args:
            restart: what a defense keeps secret of the model is guessed anew for each.
        """
        if self.held_known_bottom is None:
            raise self._missing("known_bottom")
        return self.held_known_bottom(f"known_bottom/{restart}")

    @property
    def pairs(self) -> Pairs:
        """Known rows of the passive party and their embeddings (grant ``pairs``)."""
        if self.held_pairs is None:
            raise self._missing("pairs")
        return self.held_pairs

    @property
    def first_batch(self) -> FirstBatch:
        """The first batch without gradients of single rows (grant ``parameter_gradient``)."""
        if self.held_first_batch is None:
            raise self._missing("parameter_gradient")
        return self.held_first_batch


@dataclass(frozen=True, eq=False)
class Answer:
    """What one variant of an attack says about rows.

    Attributes:
        scores: ``(*trials, M)`` binary scores, larger is more positive, or ``(*trials, M, K)`` class scores.
        ids: ``(*trials, M)`` positions in the training split (or in the test split, for ``test``).
        oriented: the attacker knows which end of the scores is positive; False lets leak AUC take max(AUC, 1 - AUC).
        counted: ``(*trials, M)`` bool: rows that count; None counts all.
        test: class scores ``(*trials, n_test, K)`` for the test rows, where the attack makes them.
        validation: ``(*trials,)`` the attacker's own estimate of this variant's success, by which it may choose.
    """

    scores: Tensor
    ids: Tensor
    oriented: bool = False
    counted: Tensor | None = None
    test: Tensor | None = None
    validation: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What one variant of an attack takes a passive party's rows to be.

    Attributes:
        rows: ``(*trials, M, ...)`` of the shape of the rows; pixels beyond [0, 1] are clamped when they are scored.
        ids: ``(*trials, M)`` positions in the training split.
        validation: ``(*trials,)`` the attacker's own estimate of this variant's success, by which it may choose.
    """

    rows: Tensor
    ids: Tensor
    validation: Tensor | None = None
