"""Gradient completion: heads on received gradients, fitted with a few labels; the one that says them best is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.blocks import Block, blocks_of
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.attacks.parts.folds import Labeled
from tune_vfl.attacks.parts.heads import Blend, Head, LinearHead, NearestHead, fit_alike
from tune_vfl.errors import SpecError
from tune_vfl.protocol.granted import WHOLE_TRAINING
from tune_vfl.protocol.view import Answer
from tune_vfl.spec import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from tune_vfl.protocol.view import Moment, Recording, View

MOMENTS: dict[str, Moment] = {"epoch0": "epoch0", "last": "last", "mean": WHOLE_TRAINING}
SHOWN = 500
"""Rows, evenly spread, on which heads that are only shown are scored; the choice is scored on all."""


class GradientCompletionParams(Strict):
    """Parameters of :class:`GradientCompletion`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")


@attack("gradient_completion")
class GradientCompletion(Attack[GradientCompletionParams]):
    """Completes what it received, as model completion completes what it trained: with heads fitted to a few labels.

    It reads the gradients of the first epoch, when the top model has not yet learned the rows and what comes back
    differs by class above all; of the last epoch; and each row's mean over all epochs, in which noise drawn anew
    averages out. Of each it takes the gradients, their directions and the logs of their lengths, with its features and
    embeddings or without; all of these together; the nearest directions; and a blend of what these heads say. The head
    that says held-out labeled rows best is its choice and its answer, ``gradient_completion``; the others are variants
    beside it, of 500 rows.
    """

    summary = "complete received gradients of three moments, features and embeddings with heads trained on a few labels"
    reference = "after Fu et al., Label Inference Attacks Against Vertical Federated Learning, USENIX Security 2022"
    Params = GradientCompletionParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(
        sees=frozenset({"gradients", "features", "bottom", "auxiliary"}), parties="joined"
    )
    choice = "gradient_completion"

    def moments(self) -> tuple[Moment, ...]:
        """Return the first epoch, the last one, and all of them."""
        return tuple(MOMENTS.values())

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return how many labeled rows it wants."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def seen(self, view: View) -> Mapping[str, Recording]:
        """Return the gradients that it reads, of every training row, by the name of the moment."""
        return {name: view.recording(moment) for name, moment in MOMENTS.items()}

    def run(self, view: View) -> dict[str, Answer]:
        """Return the choice and every head: scores ``(*trials, N, K)``, oriented.

        Raises:
            SpecError: when no row is unlabeled.
        """
        labeled = Labeled.draw(view.auxiliary, view.streams["folds"], view.num_classes)
        rows, known = view.features.train.shape[len(view.lead)], labeled.y.shape[-1]
        if rows <= known:
            raise SpecError(f"attack {view.attack!r} got labels for all {rows} training rows; lower aux_per_class")
        heads = _fitted(view, labeled, self.seen(view))
        blend = Blend(heads, labeled)
        choice = torch.stack([head.loss for head in (blend, *heads)]).argmin(0)
        shown = torch.arange(rows) if rows <= SHOWN else torch.arange(SHOWN) * rows // SHOWN
        hidden = ~torch.zeros(*view.lead, rows, dtype=torch.bool).scatter(-1, labeled.ids, True)
        said = [head.scores() for head in heads]
        best, answers = torch.zeros(()), {}
        for place, (head, scores) in enumerate(zip((blend, *heads), (blend.of(said), *said), strict=True)):
            best = torch.where((choice == place)[..., None, None], scores, best)
            answers[head.name] = _answer(scores, hidden, shown)
        return {self.choice: _answer(best, hidden, torch.arange(rows)), **answers}


def _answer(scores: Tensor, hidden: Tensor, rows: Tensor) -> Answer:
    ids = rows.expand(*hidden.shape[:-1], len(rows))
    return Answer(scores[..., rows, :], ids, oriented=True, counted=hidden[..., rows])


def _fitted(view: View, labeled: Labeled, seen: Mapping[str, Recording]) -> list[Head]:
    own = _own_blocks(view)
    alone: list[LinearHead] = []
    joined: list[LinearHead] = []
    nearest: list[Head] = []
    everything = [*own]
    for name, recording in seen.items():
        blocks, directions = blocks_of(recording)
        for kind, block in blocks.items():
            alone.append(LinearHead(f"{kind}@{name}", [block], labeled))
            joined.append(LinearHead(f"{kind}+own@{name}", [block, *own], labeled))
        nearest.append(NearestHead(f"nearest@{name}", directions, labeled))
        everything += blocks.values()
    whole = [LinearHead("all", everything, labeled)]
    for heads in (alone, joined, whole):
        fit_alike(heads, labeled)
    return [*whole, *joined, *alone, *nearest]


def _own_blocks(view: View) -> list[Block]:
    """Return the attacker's features, if they are numbers, and its embeddings."""
    x, axis = view.features.train, len(view.lead)
    embedded = in_chunks(view.bottom().eval(), x, axis).nan_to_num().flatten(axis + 1)
    # Tokens of a text stand for words: their numbers mean nothing.
    own = [x.flatten(axis + 1)] if x.is_floating_point() else []
    return [Block(rows) for rows in (*own, embedded)]
