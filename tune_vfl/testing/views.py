"""Worlds made up for tests: rows, labels, gradients and a bottom model, and the views that attacks get of them.

A separable world gives labels away to any reader of gradients or embeddings, and features to the receiver of the
embeddings; in the other one both are drawn apart from everything that an attacker sees. What an attack is granted of a
world goes through the very grants that it gets of a real training, which the world plays to whatever they keep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from tune_vfl.attacks.base import Attack, AttackCapabilities, TargetRequest
from tune_vfl.data.base import Columns, Dataset, Recipe, Split
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.evaluation.grants.auxiliary import AuxiliaryLabels
from tune_vfl.evaluation.grants.base import GRANTS, keepers_for, view_of
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.task import Task
from tune_vfl.models.base import VflNetwork
from tune_vfl.models.layers import Linear, select_member, stack_of
from tune_vfl.models.mlp import Mlp, MlpOptions
from tune_vfl.protocol.loop import SplitTraining
from tune_vfl.protocol.members import Batch, Pack, Rows, gather_rows
from tune_vfl.protocol.partitions import Partitions
from tune_vfl.protocol.view import Answer, Auxiliary, Features, Moment, Recording, View
from tune_vfl.seeds import Streams
from tune_vfl.spec import Cell, Named, Strict, Training

TARGETS, KNOWN = 40, 200
"""Rows under attack where features are the goal, and rows known with their embeddings, of who asks for no number."""
TRAINING = Training(epochs=1)


class Everyone(Attack[Strict]):
    """An attack that sees everything, for views that are requested by grant."""

    capabilities = AttackCapabilities()

    def __init__(self, name: str, grants: Collection[str]) -> None:
        super().__init__()
        self.name = name  # type: ignore[misc]
        self._grants = frozenset(grants)

    def sees(self) -> frozenset[str]:
        """Return the given answer."""
        return self._grants

    def moments(self) -> tuple[Moment, ...]:
        """Return every instant."""
        return ("first_batch", "epoch0", "last")

    def target_request(self) -> TargetRequest:
        """Return the world's own numbers."""
        return TargetRequest(TARGETS, KNOWN)

    def run(self, view: View) -> Mapping[str, Answer]:
        """Answer nothing."""
        return {}


@dataclass(frozen=True, eq=False)
class World:
    """Everything that exists in one made-up run, or in a pack of them.

    Attributes:
        seeds: an int, or one per member.
        num_classes: K.
        y_train, y_test: ``(*trials, n)`` true labels.
        features: the attacker's.
        bottom: the attacker's bottom model.
        recordings: what it received in the one epoch that there was, by moment; ``last`` is what is played to keepers.
        aux_per_class: how many rows a class have labels that an attacker may know.
        sent_rows: ``(*trials, N, ...)`` the rows whose embeddings the label party receives.
        top: where there is one, bottom and top are the network of a client that holds all columns.
    """

    seeds: int | tuple[int, ...]
    num_classes: int
    y_train: Tensor
    y_test: Tensor
    features: Features
    bottom: nn.Module
    recordings: dict[Moment, Recording]
    aux_per_class: int
    sent_rows: Tensor
    top: nn.Module | None = None

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes of every tensor."""
        return () if isinstance(self.seeds, int) else (len(self.seeds),)

    @property
    def pack(self) -> Pack:
        """The members that train together."""
        return Pack((self.seeds,), None) if isinstance(self.seeds, int) else Pack(self.seeds, 1)

    @property
    def auxiliary(self) -> Auxiliary:
        """The rows whose labels an attacker knows that requests no number of them."""
        drawn = AuxiliaryLabels().hand_out(Everyone("everyone", {"auxiliary"}), self._before())
        assert drawn is not None
        return drawn

    def view(self, attack: str | Attack[Strict]) -> View:
        """Return the view of an attack; by its name alone, one that is granted everything that the world has."""
        asked = Everyone(attack, self._grants()) if isinstance(attack, str) else attack
        return view_of(asked, self.played([asked]))

    def played(self, attacks: Sequence[Attack[Strict]]) -> Run:
        """Return the world as a finished training, with the recordings that these attacks are granted."""
        before, epoch = self._before(), self.recordings["last"]
        keepers = {kind: kind(attacks, TRAINING, self.y_train.shape[-1]) for kind in keepers_for(attacks)}
        none = DEFENSES["none"](Strict(), num_classes=self.num_classes, embedding_dims=[1])
        sent = replace(before.split, passive_train=(self.sent_rows,))
        loop = SplitTraining(before.network, Rows(sent, self.pack), TRAINING, [none, *keepers.values()], self.lead)
        for keeper in keepers.values():
            keeper.begin(loop)
            for step, (start, stop) in enumerate(epoch.batches):
                received, ids = epoch.gradients[..., start:stop, :], epoch.ids[..., start:stop]
                fed = gather_rows(self.features.train, ids)
                keeper.inputs(Batch([fed], None, self.y_train.gather(-1, ids), ids), loop.rows, epoch=0)
                keeper.send_embedding(self.bottom(fed).detach(), party=0)
                keeper.gradient_received(received, party=0, ids=ids, epoch=0, step=step)
                sums = received.mT @ fed.flatten(len(self.lead) + 1)
                keeper.sums_told(sums, torch.zeros_like(sums), party=0, ids=ids, epoch=0)
            keeper.end(loop)
            keeper.partitions_told(self.partitions, party=0)
        return replace(before, keepers=keepers)

    @property
    def partitions(self) -> Partitions:
        """Trees that part the rows by the signs of what was received for them, two columns a tree."""
        seen = self.recordings["last"]
        rows = gather_rows(seen.gradients, seen.ids.argsort(-1)).movedim(-1, -2)
        above = (rows > rows.median(-1, keepdim=True).values).long()
        leaves = 2 * above + above.roll(1, -2)
        return Partitions(leaves, torch.ones(*leaves.shape[:-1], 7, dtype=torch.bool))

    def _grants(self) -> set[str]:
        """All grants; some only where embeddings are as wide as what was received."""
        with torch.no_grad():
            fits = self.bottom(self.features.train).shape[-1] == self.recordings["last"].gradients.shape[-1]
        return set(GRANTS.names()) - (set() if fits else {"parameter_gradient", "exchanged"})

    def _before(self) -> Run:
        """The world as a training before its first step."""
        train, test = self.features.train, self.features.test
        own = self.y_train.unsqueeze(-1).float()
        rows = torch.arange(self.y_train.shape[-1]).expand(self.y_train.shape)
        tests = torch.arange(self.y_test.shape[-1]).expand(self.y_test.shape)
        split = Split((train,), (test,), own, self.y_test.unsqueeze(-1).float(), self.y_train, self.y_test, rows, tests)
        network = VflNetwork([self.bottom], None if self.top else nn.Linear(1, self.num_classes), self.top, "sum")
        return Run(self._task(), self.pack, split, network)

    def _task(self) -> Task:
        model, width = Named(name="mlp"), self.features.train.shape[-1] - self.features.added
        embedded = next((p.shape[-1] for p in reversed(list(self.bottom.parameters()))), self.features.train.shape[-1])
        options = {"aggregation": "sum", "embedding_dim": embedded} | ({} if self.top else {"top": "none"})
        architecture = Mlp(MlpOptions.model_validate(options))
        dataset = Dataset(
            name="made_up",
            passive=(Columns("passive", torch.zeros(1, width)),),
            active=Columns("active", torch.zeros(1, 1)),
            y=self.y_train,
            class_names=tuple(str(k) for k in range(self.num_classes)),
            metric="accuracy",
            recipe=Recipe(model, TRAINING, self.aux_per_class),
            fingerprint="",
        )
        cell = Cell(
            dataset=Named(name="made_up"),
            model=model,
            training=TRAINING,
            defense="none",
            attacks=(),
            seeds=self.pack.seeds,
            metric="accuracy",
            num_classes=self.num_classes,
            mode="nosplit",
        )
        return Task(cell, dataset, architecture, ())

    def member(self, index: int) -> World:
        """Return one member of a pack, without leading axes."""
        if isinstance(self.seeds, int):
            raise TypeError("a single world has no members")
        return World(
            seeds=self.seeds[index],
            num_classes=self.num_classes,
            y_train=self.y_train[index],
            y_test=self.y_test[index],
            features=replace(self.features, train=self.features.train[index], test=self.features.test[index]),
            bottom=select_member(self.bottom, index),
            recordings={m: r.of_members(index) for m, r in self.recordings.items()},
            aux_per_class=self.aux_per_class,
            sent_rows=self.sent_rows[index],
            top=None if self.top is None else select_member(self.top, index),
        )


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
    positives: float = 1 / 3,
    top: bool = False,
) -> World:
    """Make up a world.

    Args:
        seeds: an int for one, one per member for a pack.
        num_classes: K.
        separable: whether features and gradients depend on the labels, and what was sent on the row it was sent for.
        width: d of the gradients; K of them (or 1 for a binary target) are ``p - y``, others have a direction of their
            own on which they are.
        rows: training rows.
        test_rows: test rows.
        batch: rows in a batch.
        aux_per_class: labeled rows a class.
        positives: share of class 1 when K is 2, beside the labeled rows, which hold every class equally often.
        bottom_widths: hidden widths of the bottom model, which is not trained, and that of its embeddings.
        top: put a linear top model on it, as the network of a client in a horizontal federation.
    """
    many = [seeds] if isinstance(seeds, int) else list(seeds)
    known = num_classes * aux_per_class
    share = torch.tensor([1 - positives, positives]) if num_classes == 2 else torch.ones(num_classes)
    drawn = [_labels(s, share, rows + test_rows, known) for s in many]
    sent = [_rows(g, y, num_classes=num_classes, separable=separable, width=width, rows=rows) for g, y in drawn]
    columns = zip(*((y, *row) for (_, y), row in zip(drawn, sent, strict=True)), strict=True)
    y, x, gradients, order = (c[0] if isinstance(seeds, int) else torch.stack(c) for c in columns)
    whole = seeds if isinstance(seeds, int) else tuple(seeds)
    stream = Streams(seeds)["bottom"]
    batches = tuple((s, min(s + batch, rows)) for s in range(0, rows, batch))
    y_train = y[..., :rows]
    epoch = Recording(order, gradients, batches)
    first = Recording(order[..., :batch], gradients[..., :batch, :], batches[:1])
    bottom = nn.Sequential(*stack_of([x.shape[-1], *bottom_widths], nn.ReLU, stream=stream))
    above = nn.Sequential(Linear(bottom_widths[-1], num_classes, stream=stream)) if top else None
    x_train = x[..., :rows, :]
    return World(
        seeds=whole,
        num_classes=num_classes,
        y_train=y_train,
        y_test=y[..., rows:],
        features=Features(x_train, x[..., rows:, :]),
        bottom=bottom,
        recordings={"first_batch": first, "epoch0": epoch, "last": epoch},
        aux_per_class=aux_per_class,
        sent_rows=x_train if separable else x_train.roll(rows // 2, -2),
        top=above,
    )


def _labels(seed: int, share: Tensor, count: int, known: int) -> tuple[torch.Generator, Tensor]:
    """One member's generator and labels; the first ``known`` rows hold every class equally often."""
    g = torch.Generator().manual_seed(seed)
    y = torch.multinomial(share, count, replacement=True, generator=g)
    y[:known] = torch.arange(len(share)).repeat(known // len(share))
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
