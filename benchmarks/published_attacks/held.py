"""A passive party's data of one training, and its answers: shared by the published attacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.protocol.view import Answer, View


@dataclass(frozen=True, eq=False)
class PartyData:
    """A passive party's view of one training, without leading axes.

    Attributes:
        sent: ``(E, N, d)`` its embeddings at E recorded epochs.
        received: ``(E, N, d)`` gradients of each row's own loss at the same epochs.
        embedding: ``(N, d)`` of the trained bottom model.
        ids: ``(A,)`` rows whose labels it knows.
        labels: ``(A,)`` their labels.
        classes: K.
    """

    sent: Tensor
    received: Tensor
    embedding: Tensor
    ids: Tensor
    labels: Tensor
    classes: int

    @classmethod
    def of(cls, view: View) -> PartyData:
        """Read a view with the grants ``visits``, ``features``, ``bottom`` and ``auxiliary``."""
        visits, known = view.granted("visits"), view.auxiliary
        embedding = in_chunks(view.bottom().eval(), view.features.train, 0).flatten(1)
        return cls(visits.sent, visits.received, embedding, known.ids, known.labels, view.num_classes)

    def answer(self, scores: Tensor) -> Answer:
        """Return class scores ``(N, K)`` as an answer for the rows whose labels are not known."""
        return answer_of(scores, self.ids)


def answer_of(scores: Tensor, known: Tensor, *, named: bool = True) -> Answer:
    """Return class scores ``(N, K)`` as an answer; rows with known labels are not counted.

    Args:
        scores: NaN and infinite entries count as 0.
        known: ``(A,)`` rows whose labels the attacker knows.
        named: the columns stand for classes; False: for clusters.
    """
    hidden = torch.ones(len(scores), dtype=torch.bool)
    hidden[known] = False
    ids = torch.arange(len(scores))
    return Answer(scores.nan_to_num(0.0, 0.0, 0.0).float(), ids, oriented=named, counted=hidden, named=named)


def unit(x: Tensor) -> Tensor:
    """Return rows ``(..., d)`` scaled to length 1; rows of zeros stay zeros."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / lengths.clamp_min(1e-30)


@contextmanager
def seeded(view: View, name: str) -> Iterator[None]:
    """Have torch draw from the view's stream ``name`` inside the block."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(view.streams[name].uniform(1).item() * 2**31))
        yield
