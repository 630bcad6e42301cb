"""Views: a :class:`View` holds the grants of an attack's threat model, and nothing else.

The private labels stay with the evaluator, which scores the attack's :class:`Answer`. In a loop of one's own,
:meth:`View.from_gradients` and :meth:`View.from_embeddings` make a view of what a party really received or holds.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from tune_vfl.errors import NotGrantedError
from tune_vfl.protocol.answers import Answer, Reconstruction
from tune_vfl.protocol.granted import (
    Auxiliary,
    Average,
    ClassOracle,
    Features,
    FirstBatch,
    Moment,
    Pairs,
    Received,
    Recording,
)
from tune_vfl.seeds import Streams

__all__ = [
    "Answer",
    "Auxiliary",
    "Average",
    "ClassOracle",
    "Features",
    "FirstBatch",
    "Moment",
    "Pairs",
    "Received",
    "Reconstruction",
    "Recording",
    "View",
]

Known = tuple[Tensor, Tensor]
"""Rows whose labels the attacker knows: ``(A,)`` their positions, and ``(A,)`` their labels."""


@dataclass(frozen=True, eq=False)
class View:
    """The grants of one attack. Access to anything else raises :class:`NotGrantedError`.

    Attributes:
        attack: the attack's name, for messages.
        lead: the leading axes ``*trials`` of every tensor here.
        num_classes: K, a public constant.
        streams: the attack's own random streams, named below its own name.
        held: the granted values, by the name of the grant.

    Example:
        >>> import torch
        >>> from tune_vfl.attacks import GradCluster, View
        >>> y = torch.arange(200) % 2  # a loop of your own: labels, and the gradients that came back for them
        >>> gradients = torch.stack([y - 0.5, 0.5 - y], dim=1) + 0.1 * torch.randn(200, 2)
        >>> known = (torch.arange(4), y[:4])  # four rows whose labels the party knows
        >>> answer = GradCluster().run(View.from_gradients(gradients, known=known))["grad_cluster"]
        >>> (answer.scores.argmax(1) == y[answer.ids]).float().mean().item()
        1.0
    """

    attack: str
    lead: tuple[int, ...]
    num_classes: int
    streams: Streams
    held: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_gradients(
        cls,
        gradients: Tensor,
        *,
        batch_size: int | None = None,
        num_classes: int = 2,
        known: Known | None = None,
        labels: Tensor | None = None,
        seed: int = 0,
    ) -> View:
        """Return the view of a party that received ``gradients`` in a training loop of your own.

        Whatever moment an attack asks for, it gets these gradients; answers carry positions in them.

        Args:
            gradients: ``(M, d)`` the cut gradients of one epoch, in the order in which they came.
            batch_size: rows of a batch, of which the last may have fewer; None takes them for one batch.
            num_classes: K, the number of classes.
            known: rows whose labels the party knows: ``direction`` takes its hints from them, ``grad_cluster`` names.
            labels: ``(M,)`` all true labels, which only an oracle has: ``mean`` and ``median`` ask for it.
            seed: of the attack's random draws.
        """
        rows = len(gradients)
        size = batch_size or rows
        batches = tuple((start, min(start + size, rows)) for start in range(0, rows, size))
        recording = Recording(torch.arange(rows), gradients.detach(), batches)
        held: dict[str, object] = {"gradients": defaultdict(lambda: recording)}
        if known is not None:
            held |= {"auxiliary": Auxiliary(*known), "positive_hints": hints_from(known)}
        if labels is not None:
            shares = torch.nn.functional.one_hot(labels, num_classes).float().mean(-2)
            keys = Streams(seed)["class_oracle/folds"].uniform(rows)
            held |= {"class_oracle": ClassOracle.from_labels(labels, num_classes, keys), "class_prior": shares}
        return cls("from_gradients", (), num_classes, Streams(seed), held)

    @classmethod
    def from_embeddings(
        cls,
        train: Tensor,
        known: Known,
        *,
        num_classes: int,
        test: Tensor | None = None,
        bottom: nn.Module | None = None,
        seed: int = 0,
    ) -> View:
        """Return the view of a party with embeddings of its rows and the labels of a few.

        Args:
            train: ``(N, d)`` embeddings, or ``(N, ...)`` what ``bottom`` reads.
            known: rows of ``train`` whose labels the party knows.
            num_classes: K, the number of classes.
            test: other rows to score; by default the first row of ``train``.
            bottom: the party's bottom model ``(B, ...) -> (B, d)``, copied before it is used; None where ``train``
                holds embeddings already.
            seed: of the attack's random draws.
        """
        features = Features(train.detach(), train[:1].detach() if test is None else test.detach())
        own = nn.Identity() if bottom is None else bottom
        held = {"features": features, "bottom": lambda: copy.deepcopy(own), "auxiliary": Auxiliary(*known)}
        return cls("from_embeddings", (), num_classes, Streams(seed), held)

    def holding(self, **held: object) -> View:
        """Return this view with other grants."""
        return replace(self, held={**self.held, **held})

    def granted(self, grant: str) -> Any:
        """Return the value of a grant by name; its file under ``evaluation/grants`` documents it.

        Raises:
            NotGrantedError: when it was not.
        """
        if grant not in self.held:
            raise NotGrantedError(
                f"attack {self.attack!r} asked for {grant!r}, which its capabilities do not list under sees; add it "
                "there if its threat model really grants it"
            )
        return self.held[grant]

    def recording(self, moment: Moment) -> Recording:
        """Return the gradients received during ``moment`` (grant ``gradients``)."""
        recordings: Mapping[Moment, Recording] = self.granted("gradients")
        return recordings[moment]

    @property
    def features(self) -> Features:
        """The attacker's own features (grant ``features``)."""
        features: Features = self.granted("features")
        return features

    def bottom(self) -> nn.Module:
        """Return a fresh copy of the attacker's trained bottom model, free to modify (grant ``bottom``)."""
        copy_of_it: Callable[[], nn.Module] = self.granted("bottom")
        return copy_of_it()

    @property
    def auxiliary(self) -> Auxiliary:
        """The rows whose labels the attacker knows (grant ``auxiliary``)."""
        auxiliary: Auxiliary = self.granted("auxiliary")
        return auxiliary

    def positive_hints(self, recording: Recording, count: int | None = None) -> Tensor:
        """Return, for each batch, ``count`` known positive rows (grant ``positive_hints``); None: the threat's count.

        Returns:
            ``(*trials, batches, count)`` int64 positions in the recording, drawn without replacement among the
            positives whose received gradient is not all zeros (among all of them where there is none); -1 where
            the batch has fewer.
        """
        draw: Callable[[Recording, int | None], Tensor] = self.granted("positive_hints")
        return draw(recording, count)

    @property
    def class_oracle(self) -> ClassOracle:
        """Per-class statistics of the gradients (grant ``class_oracle``): makes the attack an upper bound."""
        oracle: ClassOracle = self.granted("class_oracle")
        return oracle

    @property
    def class_prior(self) -> Tensor:
        """``(*trials, K)`` class shares (grant ``class_prior``)."""
        shares: Tensor = self.granted("class_prior")
        return shares

    @property
    def received(self) -> Received:
        """The embeddings that the label party received for the rows under attack (grant ``received``)."""
        received: Received = self.granted("received")
        return received

    def known_bottom(self, restart: int = 0) -> nn.Module:
        """Return a copy of a passive party's trained bottom model as the label party knows it (grant ``known_bottom``).

        Args:
            restart: what a defense keeps secret of the model is guessed anew for each.
        """
        known: Callable[[str], nn.Module] = self.granted("known_bottom")
        return known(f"known_bottom/{restart}")

    def open_bottom(self, draw: int = 0) -> nn.Module:
        """Return the same model with the defense's secrets as free parameters (grant ``open_bottom``).

        They alone want a gradient; a model without secrets has none that does.

        Args:
            draw: where they start is guessed anew for each.
        """
        known: Callable[[str], nn.Module] = self.granted("open_bottom")
        return known(f"open_bottom/{draw}")

    @property
    def pairs(self) -> Pairs:
        """Known rows of the passive party and their embeddings (grant ``pairs``)."""
        pairs: Pairs = self.granted("pairs")
        return pairs

    @property
    def first_batch(self) -> FirstBatch:
        """The first batch without gradients of single rows (grant ``parameter_gradient``)."""
        first: FirstBatch = self.granted("parameter_gradient")
        return first


def hints_from(known: Known) -> Callable[[Recording, int | None], Tensor]:
    """Return a function that gives, for each batch, the first of its known positives."""
    positives = set(known[0][known[1] == 1].tolist())

    def draw(recording: Recording, asked: int | None) -> Tensor:
        count = asked or 1
        places = [
            [at for at in range(start, stop) if int(recording.ids[at]) in positives][:count]
            for start, stop in recording.batches
        ]
        return torch.tensor([[*row, *[-1] * (count - len(row))] for row in places])

    return draw
