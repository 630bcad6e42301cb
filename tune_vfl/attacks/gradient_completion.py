"""Gradient completion: heads on received gradients, fitted with a few labels and chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field, field_validator
from torch import Tensor

from tune_vfl.attacks.base import Attack, AttackCapabilities, AuxiliaryRequest, attack
from tune_vfl.attacks.parts.blocks import KINDS, Block, blocks_of
from tune_vfl.attacks.parts.completion import in_chunks
from tune_vfl.attacks.parts.folds import Labeled
from tune_vfl.attacks.parts.heads import STRENGTHS, Blend, Head, LinearHead, NearestHead, fit_alike
from tune_vfl.errors import SpecError
from tune_vfl.protocol.granted import WHOLE_TRAINING
from tune_vfl.protocol.view import Answer, Moment, Recording, View
from tune_vfl.spec import Strict

MOMENTS: dict[str, Moment] = {"epoch0": "epoch0", "last": "last", "mean": WHOLE_TRAINING}
SHOWN = 500
"""Rows, evenly spread, on which heads that are only shown are scored; the choice is scored on all."""
OWN = ("features", "embedding")
READABLE = (*OWN, *(f"{kind}@{moment}" for moment in MOMENTS for kind in KINDS))


class GradientCompletionParams(Strict):
    """Parameters of :class:`GradientCompletion`."""

    aux_per_class: int | None = Field(None, ge=1, description="labeled rows a class; none: the data set's recipe")
    reads: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="what a single head reads: features, embedding, gradient@MOMENT, direction@MOMENT, norm@MOMENT, "
        "where MOMENT is epoch0, last or mean; none: all heads, of which it chooses one by held-out labeled rows",
    )
    strength: float | None = Field(
        None, gt=0, description="C of the regressions, larger is less ridge; none: chosen by held-out labeled rows"
    )

    @field_validator("reads")
    @classmethod
    def _known(cls, reads: tuple[str, ...] | None) -> tuple[str, ...] | None:
        unknown = sorted(set(reads or ()) - set(READABLE))
        if unknown or len(set(reads or ())) < len(reads or ()):
            raise ValueError(f"expected each at most once of {', '.join(READABLE)}; got {', '.join(reads or ())}")
        return reads


@attack("gradient_completion")
class GradientCompletion(Attack[GradientCompletionParams]):
    """Fits heads on received gradients with a few labels, as model completion does on the trained model.

    It reads the gradients of the first epoch, when the top model has not yet learned the rows and what comes back
    differs by class above all; of the last epoch; and each row's mean over all epochs, in which noise drawn anew
    averages out. Of each it takes the gradients, their directions and the logs of their lengths, with its features and
    embeddings or without; all of these together; the nearest directions; and a blend of what these heads say. The head
    that says held-out labeled rows best is its choice and its answer, ``gradient_completion``; the others are variants
    beside it, of 500 rows.
    """

    summary = "complete received gradients of three moments, features and embeddings with heads trained on a few labels"
    reference = "Fu et al. 2022, Label Inference Attacks Against Vertical Federated Learning (carried over)"
    Params = GradientCompletionParams
    in_default = {}  # noqa: RUF012 - a constant
    capabilities = AttackCapabilities(
        sees=frozenset({"gradients", "features", "bottom", "auxiliary"}), parties="joined"
    )
    choice = "gradient_completion"

    @property
    def draws(self) -> int:
        """Two: known rows, and the folds that heads are compared on."""
        return 2

    def moments(self) -> tuple[Moment, ...]:
        """Return the first epoch, the last one, and all of them."""
        return tuple(MOMENTS.values())

    def tunable(self, epochs: int) -> Mapping[str, Sequence[Any]]:
        """Return sets of blocks for one head, and strengths."""
        sets: list[tuple[str, ...] | None] = [None, READABLE, OWN]
        for moment in MOMENTS:
            own = tuple(f"{kind}@{moment}" for kind in KINDS)
            sets += [own, (*own, *OWN), *((name,) for name in own), *((name, *OWN) for name in own)]
        sets += [tuple(f"{kind}@{moment}" for moment in MOMENTS) for kind in KINDS]
        return {"reads": sets, "strength": [None, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0]}

    def auxiliary_request(self) -> AuxiliaryRequest:
        """Return the number of labeled rows to grant."""
        return AuxiliaryRequest(per_class=self.params.aux_per_class)

    def seen(self, view: View) -> Mapping[str, Recording]:
        """Return the received gradients of every training row, by the name of the moment."""
        return {name: view.recording(moment) for name, moment in MOMENTS.items()}

    def run(self, view: View) -> dict[str, Answer]:
        """Return the choice and every head: scores ``(*trials, N, K)``, oriented.

        Raises:
            SpecError: when no row is unlabeled, or none of the requested gradients is there.
        """
        labeled = Labeled.draw(view.auxiliary, view.streams["folds"], view.num_classes)
        rows, known = view.features.train.shape[len(view.lead)], labeled.y.shape[-1]
        if rows <= known:
            raise SpecError(f"attack {view.attack!r} got labels for all {rows} training rows; lower aux_per_class")
        hidden = ~torch.zeros(*view.lead, rows, dtype=torch.bool).scatter(-1, labeled.ids, True)
        among = STRENGTHS if self.params.strength is None else (self.params.strength,)
        if self.params.reads is not None:
            single = LinearHead(self.choice, _read(view, self.params.reads, self.seen(view)), labeled)
            fit_alike([single], labeled, among)
            return {self.choice: _answer(single.scores(), hidden, torch.arange(rows))}
        heads = _fitted(view, labeled, self.seen(view), among)
        blend = Blend(heads, labeled)
        choice = torch.stack([head.loss for head in (blend, *heads)]).argmin(0)
        shown = torch.arange(rows) if rows <= SHOWN else torch.arange(SHOWN) * rows // SHOWN
        said = [head.scores() for head in heads]
        best, answers = torch.zeros(()), {}
        for place, (head, scores) in enumerate(zip((blend, *heads), (blend.of(said), *said), strict=True)):
            best = torch.where((choice == place)[..., None, None], scores, best)
            answers[head.name] = _answer(scores, hidden, shown)
        return {self.choice: _answer(best, hidden, torch.arange(rows)), **answers}


def _answer(scores: Tensor, hidden: Tensor, rows: Tensor) -> Answer:
    ids = rows.expand(*hidden.shape[:-1], len(rows))
    return Answer(scores[..., rows, :], ids, oriented=True, counted=hidden[..., rows])


def _fitted(view: View, labeled: Labeled, seen: Mapping[str, Recording], among: Sequence[float]) -> list[Head]:
    own = list(_own_blocks(view).values())
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
        fit_alike(heads, labeled, among)
    return [*whole, *joined, *alone, *nearest]


def _read(view: View, names: Sequence[str], seen: Mapping[str, Recording]) -> list[Block]:
    """Return the blocks of these names, those that there are."""
    found = _own_blocks(view) if set(names) & set(OWN) else {}
    for moment in dict.fromkeys(name.partition("@")[2] for name in names if "@" in name):
        if moment in seen:
            received, _ = blocks_of(seen[moment])
            found |= {f"{kind}@{moment}": block for kind, block in received.items()}
    read = [found[name] for name in names if name in found]
    if not read:
        raise SpecError(f"attack {view.attack!r} is to read {', '.join(names)}, of which there is nothing here")
    return read


def _own_blocks(view: View) -> dict[str, Block]:
    """Return the attacker's features, if they are numbers, and its embeddings."""
    x, axis = view.features.train, len(view.lead)
    embedded = in_chunks(view.bottom().eval(), x, axis).nan_to_num().flatten(axis + 1)
    # Tokens of a text stand for words: their numbers mean nothing.
    own = {"features": Block(x.flatten(axis + 1))} if x.is_floating_point() else {}
    return {**own, "embedding": Block(embedded)}
