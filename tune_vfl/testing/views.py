"""Worlds made up for tests: rows, labels, gradients and a bottom model, and the views that attacks get of them.

A separable world gives labels away to any reader of gradients or embeddings, and features to the receiver of the
embeddings; in the other one both are drawn apart from everything that an attacker sees.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from tune_vfl.evaluation.granting import parameter_gradient
from tune_vfl.models.layers import select_member, stack_of
from tune_vfl.protocol.granted import FirstBatch, Pairs, Received
from tune_vfl.protocol.members import gather_rows
from tune_vfl.protocol.view import Auxiliary, Average, ClassOracle, Features, Grant, Moment, Recording, View
from tune_vfl.seeds import Streams

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TARGETS, KNOWN = 40, 200
"""Rows under attack where features are the goal, and rows known with their embeddings."""
EVERYTHING: frozenset[Grant] = frozenset(get_args(Grant))


@dataclass(frozen=True, eq=False)
class World:
    """Everything that exists in one made-up run, or in a pack of them.

    Attributes:
        seeds: an int, or one per member.
        num_classes: K.
        y_train, y_test: ``(*trials, n)`` true labels.
        features: the attacker's.
        bottom: the attacker's bottom model.
        recordings: what it received.
        auxiliary: rows whose labels it knows.
        sent: ``(*trials, N, d)`` the embeddings that the label party received for the training rows.
    """

    seeds: int | tuple[int, ...]
    num_classes: int
    y_train: Tensor
    y_test: Tensor
    features: Features
    bottom: nn.Module
    recordings: dict[Moment, Recording]
    auxiliary: Auxiliary
    sent: Tensor

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes of every tensor."""
        return () if isinstance(self.seeds, int) else (len(self.seeds),)

    def view(self, attack: str, grants: Collection[Grant] = EVERYTHING) -> View:
        """Return the view of an attack that is granted ``grants``."""
        return View(
            attack=attack,
            lead=self.lead,
            num_classes=self.num_classes,
            streams=Streams(self.seeds if isinstance(self.seeds, int) else list(self.seeds)),
            held_recordings=self.recordings if "gradients" in grants else None,
            held_features=self.features if "features" in grants else None,
            held_bottom=(lambda: copy.deepcopy(self.bottom)) if "bottom" in grants else None,
            held_auxiliary=self.auxiliary if "auxiliary" in grants else None,
            held_positive_hints=self._hints if "positive_hints" in grants else None,
            held_class_oracle=ClassOracle(of=self._statistics) if "class_oracle" in grants else None,
            held_class_prior=self._shares() if "class_prior" in grants else None,
            held_received=self._received() if "received" in grants else None,
            held_known_bottom=(lambda _: copy.deepcopy(self.bottom)) if "known_bottom" in grants else None,
            held_pairs=self._pairs() if "pairs" in grants else None,
            held_first_batch=self._first_batch() if "parameter_gradient" in grants else None,
        )

    def _first_batch(self) -> FirstBatch | None:
        """The first batch at a label party that adds one other embedding up with this one; None where widths differ."""
        seen = self.recordings["first_batch"]
        x = gather_rows(self.features.train, seen.ids)
        with torch.no_grad():
            if self.bottom(x).shape != seen.gradients.shape:
                return None
        gradient = parameter_gradient(self.bottom, x, seen.gradients)
        return FirstBatch(seen.ids, x, gradient, lambda: copy.deepcopy(self.bottom), 1, "sum", None)

    def _received(self) -> Received:
        """The first ``TARGETS`` training rows are under attack: rows are in random order already."""
        axis = len(self.lead)
        ids = torch.arange(TARGETS).expand(*self.lead, TARGETS)
        return Received(ids, self.sent.narrow(axis, 0, TARGETS), tuple(self.features.train.shape[axis + 1 :]))

    def _pairs(self) -> Pairs:
        axis = len(self.lead)
        return Pairs(*(x.narrow(axis, TARGETS, KNOWN) for x in (self.features.train, self.sent)))

    def member(self, index: int) -> World:
        """Return one member of a pack, without leading axes."""
        if isinstance(self.seeds, int):
            raise TypeError("a single world has no members")

        def recorded(r: Recording) -> Recording:
            return Recording(r.ids[index], r.gradients[index], r.batches)

        return World(
            seeds=self.seeds[index],
            num_classes=self.num_classes,
            y_train=self.y_train[index],
            y_test=self.y_test[index],
            features=replace(self.features, train=self.features.train[index], test=self.features.test[index]),
            bottom=select_member(self.bottom, index),
            recordings={m: recorded(r) for m, r in self.recordings.items()},
            auxiliary=Auxiliary(self.auxiliary.ids[index], self.auxiliary.labels[index]),
            sent=self.sent[index],
        )

    def _shares(self) -> Tensor:
        return torch.nn.functional.one_hot(self.y_train, self.num_classes).float().mean(-2)

    def _statistics(self, values: Tensor, ids: Tensor, kind: Literal["mean", "median"]) -> Tensor:
        labels = self.y_train.gather(-1, ids)
        centres = []
        for c in range(self.num_classes):
            mine = values.masked_fill((labels != c).unsqueeze(-1), torch.nan)
            centres.append(mine.nanmean(-2) if kind == "mean" else mine.nanquantile(0.5, dim=-2))
        return torch.stack(centres, -2)

    def _hints(self, recording: Recording, count: int) -> Tensor:
        """The first ``count`` positives of each batch: rows are in random order already."""
        positive = self.y_train.gather(-1, recording.ids) == 1
        hints = []
        for start, stop in recording.batches:
            block = positive[..., start:stop]
            at = torch.where(block, torch.arange(start, stop), recording.ids.shape[-1]).sort(-1).values[..., :count]
            hints.append(torch.where(at < recording.ids.shape[-1], at, -1))
        return torch.stack(hints, -2)


def make_world(
    seeds: int | Sequence[int],
    *,
    num_classes: int = 2,
    separable: bool = True,
    width: int = 4,
    rows: int = 600,
    test_rows: int = 200,
    batch: int = 64,
    aux_per_class: int = 10,
    bottom_widths: Sequence[int] = (12, 6),
) -> World:
    """Make up a world.

    Args:
        seeds: an int for one, one per member for a pack.
        num_classes: K; one class in three is positive when K is 2.
        separable: whether features and gradients depend on the labels, and what was sent on the row it was sent for.
        width: d of the gradients; K of them (or 1 for a binary target) are ``p - y``, others have a direction of their
            own on which they are.
        rows: training rows.
        test_rows: test rows.
        batch: rows in a batch.
        aux_per_class: labelled rows a class.
        bottom_widths: hidden widths of the bottom model, which is not trained, and that of its embeddings.
    """
    many = [seeds] if isinstance(seeds, int) else list(seeds)
    known = num_classes * aux_per_class
    drawn = [_labels(s, num_classes, rows + test_rows, known) for s in many]
    sent = [_rows(g, y, num_classes=num_classes, separable=separable, width=width, rows=rows) for g, y in drawn]
    columns = zip(*((y, *row, torch.arange(known)) for (_, y), row in zip(drawn, sent, strict=True)), strict=True)
    y, x, gradients, order, at = (c[0] if isinstance(seeds, int) else torch.stack(c) for c in columns)
    whole = seeds if isinstance(seeds, int) else tuple(seeds)
    stream = Streams(seeds)["bottom"]
    batches = tuple((s, min(s + batch, rows)) for s in range(0, rows, batch))
    y_train = y[..., :rows]
    epoch = Recording(order, gradients, batches)
    first = Recording(order[..., :batch], gradients[..., :batch, :], batches[:1])
    bottom = nn.Sequential(*stack_of([x.shape[-1], *bottom_widths], nn.ReLU, stream=stream))
    x_train = x[..., :rows, :]
    with torch.no_grad():
        sent = bottom(x_train if separable else x_train.roll(rows // 2, -2))
    return World(
        seeds=whole,
        num_classes=num_classes,
        y_train=y_train,
        y_test=y[..., rows:],
        features=Features(x_train, x[..., rows:, :]),
        bottom=bottom,
        recordings={"first_batch": first, "epoch0": epoch, "last": epoch, Average(2): epoch},
        auxiliary=Auxiliary(at, y_train.gather(-1, at)),
        sent=sent,
    )


def _labels(seed: int, num_classes: int, count: int, known: int) -> tuple[torch.Generator, Tensor]:
    """One member's generator and labels; the first ``known`` rows hold every class equally often."""
    g = torch.Generator().manual_seed(seed)
    share = torch.ones(num_classes)
    share[0] = 2.0 if num_classes == 2 else 1.0
    y = torch.multinomial(share, count, replacement=True, generator=g)
    y[:known] = torch.arange(num_classes).repeat(known // num_classes)
    return g, y


def _rows(
    g: torch.Generator, y: Tensor, *, num_classes: int, separable: bool, width: int, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One member's features, gradients in the order they were sent, and that order."""
    shown = y if separable else y[torch.randperm(len(y), generator=g)]
    x = torch.eye(num_classes)[shown] * 4 + torch.randn(len(y), num_classes, generator=g)
    order = torch.randperm(rows, generator=g)
    return x, _gradients(shown[order], num_classes, width, g), order


def _gradients(y: Tensor, num_classes: int, width: int, g: torch.Generator) -> Tensor:
    """Gradients of a model that leans towards class 0: ``p - y``, or that times a direction plus a little noise."""
    logits = torch.randn(len(y), num_classes, generator=g) * 0.3
    logits[:, 0] += 1.0 if num_classes == 2 else 0.0
    residual = logits.softmax(-1) - torch.eye(num_classes)[y]
    if width == num_classes:
        return residual / 32
    if num_classes != 2:
        raise ValueError(f"gradients of {num_classes} classes have width {num_classes}, got {width}")
    if width == 1:
        return residual[:, 1:] / 32
    direction = torch.randn(width, generator=g)
    return (residual[:, 1:] * direction + 0.05 * torch.randn(len(y), width, generator=g)) / 32
