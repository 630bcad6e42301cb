"""Teachers: networks on the label party's own features; their predictions soften the training labels.

Members of a pack with the same data, seed and recipe share one teacher. Teachers are kept in the process, under a key
made from those three, so that the next pack of a study does not train them again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from tune_vfl.defenses.parts.teacher_nets import TeacherNet, teacher_network
from tune_vfl.models.layers import stack_of
from tune_vfl.models.optimizers import Adam
from tune_vfl.protocol.losses import task_loss
from tune_vfl.seeds import Stream

MEMORY_BYTES = 256 * 2**20
"""Memory limit of the cached teachers of a process."""
ROWS_AT_ONCE = 8192
ROWS_AT_ONCE_OF_A_NET = 256
"""A net for images or texts holds far more for a row than linear layers do."""
BAG = 1024
"""Bins of the bag of tokens that linear layers read of a text."""


class TeachersParams(Protocol):
    """The parameters that every defense with a teacher has."""

    @property
    def teacher_hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""

    @property
    def teacher_lr(self) -> float:
        """Adam's learning rate."""

    @property
    def teacher_epochs(self) -> int:
        """Passes over the training rows."""

    @property
    def teacher_batch_size(self) -> int:
        """Rows a step."""


class TeacherRecipe(NamedTuple):
    """Architecture and training of a teacher.

    Attributes:
        hidden: widths of the hidden layers.
        lr: Adam's learning rate, a tenth of it after half of the epochs and a hundredth after four fifths.
        epochs: passes over the training rows.
        batch_size: rows a step.
        net: the network; None for linear layers.
    """

    hidden: tuple[int, ...]
    lr: float
    epochs: int
    batch_size: int
    net: TeacherNet | None = None


def recipe_of(params: TeachersParams, net: TeacherNet | None = None) -> TeacherRecipe:
    """Return the recipe in a defense's parameters.

    Args:
        params: the defense's.
        net: the network, where the defense has a choice.
    """
    own = None if net is None or net.model == "mlp" else net
    return TeacherRecipe(
        params.teacher_hidden, params.teacher_lr, params.teacher_epochs, params.teacher_batch_size, own
    )


class Teacher(NamedTuple):
    """Predictions of a trained teacher.

    Attributes:
        probabilities: ``(N, K)`` for the rows that it was asked about: those that it was trained on, or others.
        accuracy: share of the training rows whose likeliest class is the one that it was taught.
    """

    probabilities: Tensor
    accuracy: float


class TeacherMemory:
    """The teachers that were used last, up to a number of bytes.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        self._limit = limit
        self._held: OrderedDict[str, Teacher] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: str) -> Teacher | None:
        """Return a teacher, which then counts as used last."""
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def put(self, key: str, teacher: Teacher) -> None:
        """Keep a teacher; the ones that were not used for longest make room."""
        self._held[key] = teacher
        while len(self._held) > 1 and sum(t.probabilities.nbytes for t in self._held.values()) > self._limit:
            self._held.popitem(last=False)

    def clear(self) -> None:
        """Forget all teachers."""
        self._held.clear()


MEMORY = TeacherMemory()


def _content(tensor: Tensor) -> bytes:
    host = tensor.detach().cpu().contiguous()
    return hashlib.blake2b(host.numpy().tobytes(), digest_size=16).digest() + repr(tuple(host.shape)).encode()


def _key(x: Tensor, y: Tensor, seed: int, recipe: TeacherRecipe, num_classes: int, *, asked: Tensor | None) -> str:
    others = b"" if asked is None else _content(asked)
    digest = hashlib.blake2b(_content(x) + _content(y) + others, digest_size=16)
    digest.update(repr((seed, recipe, num_classes, x.device.type)).encode())
    return digest.hexdigest()


def _rate(recipe: TeacherRecipe, epoch: int) -> float:
    drops = (epoch >= recipe.epochs // 2) + (epoch >= recipe.epochs * 4 // 5)
    return recipe.lr * 0.1**drops


def numbers(rows: Tensor) -> Tensor:
    """Return rows as input of linear layers: tokens ``(..., L)`` become counts in ``BAG`` bins, others stay."""
    if rows.is_floating_point():
        return rows
    bins = torch.where(rows == 0, BAG, rows % BAG)  # after a text's end there is nothing to count
    counts = torch.zeros(*rows.shape[:-1], BAG + 1, device=rows.device)
    return counts.scatter_add_(-1, bins, torch.ones_like(bins, dtype=counts.dtype))[..., :BAG]


def _readable(rows: Tensor, recipe: TeacherRecipe) -> Tensor:
    return numbers(rows).flatten(1) if recipe.net is None else rows


def _network(x: Tensor, seed: int, recipe: TeacherRecipe, num_classes: int) -> nn.Module:
    if recipe.net is not None:
        return teacher_network(recipe.net, x, num_classes, Stream(seed, "teacher/weights")).to(x.device)
    widths = [x.shape[1], *recipe.hidden, num_classes]
    return nn.Sequential(*stack_of(widths, nn.ReLU, stream=Stream(seed, "teacher/weights", x.device)))


@torch.no_grad()
def _beliefs(network: nn.Module, x: Tensor, rows_at_once: int) -> Tensor:
    parts = [x[start : start + rows_at_once] for start in range(0, x.shape[0], rows_at_once)]
    return torch.cat([network(part).softmax(-1) for part in parts])


@torch.enable_grad()
def train_teacher(
    x: Tensor, y: Tensor, seed: int, recipe: TeacherRecipe, num_classes: int, *, asked: Tensor | None = None
) -> Teacher:
    """Train a teacher by cross-entropy, and predict all training rows, or other rows, in evaluation mode.

    Args:
        x: ``(N, ...)`` features: columns, images ``(N, C, H, W)`` or tokens ``(N, L)``.
        y: ``(N,)`` classes that it is taught.
        seed: of its weights and of the order of rows.
        recipe: how.
        num_classes: K.
        asked: ``(M, ...)`` features of the rows that it is asked about in place of the training rows.

    Raises:
        UsageError: when the recipe's net does not read such features.
    """
    x, count = _readable(x, recipe), x.shape[0]
    network = _network(x, seed, recipe, num_classes).train()
    optimizer = Adam(network.parameters(), lr=recipe.lr, fused=True)
    order = Stream(seed, "teacher/order", x.device)
    for epoch in range(recipe.epochs):
        optimizer.param_groups[0]["lr"] = _rate(recipe, epoch)
        rows = order.permutation(count)
        for start in range(0, count, recipe.batch_size):
            batch = rows[start : start + recipe.batch_size]
            task_loss(network(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    at_once = ROWS_AT_ONCE if recipe.net is None else ROWS_AT_ONCE_OF_A_NET
    learned = _beliefs(network.eval(), x, at_once)
    right = (learned.argmax(-1) == y).double().mean()
    believed = learned if asked is None else _beliefs(network, _readable(asked, recipe), at_once)
    return Teacher(believed, float(right))


def find_teachers(
    x: Sequence[Tensor] | Tensor,
    y: Sequence[Tensor] | Tensor,
    seeds: Sequence[int],
    recipes: Sequence[TeacherRecipe],
    num_classes: int,
    *,
    asked: Sequence[Tensor] | Tensor | None = None,
) -> tuple[list[Teacher], list[int]]:
    """Return the teachers of the members of a pack, trained now or taken from memory.

    They are trained one by one although they could be stacked: stacking changes the last bits of a probability, and
    with them, now and then, which classes are the likeliest; so a pack would train on other labels than a trial alone.

    Args:
        x: ``(T, N, ...)`` features, or T tensors ``(N_t, ...)``.
        y: ``(T, N)`` classes, or T tensors ``(N_t,)``.
        seeds: T seeds.
        recipes: T recipes.
        num_classes: K.
        asked: features ``(T, M, ...)`` of the rows to ask about, where those are not the training rows.

    Returns:
        The distinct teachers, and for each member which of them is its own.
    """
    own: list[str] = []
    found: dict[str, Teacher] = {}
    others = [None] * len(seeds) if asked is None else asked
    for features, labels, seed, recipe, rows in zip(x, y, seeds, recipes, others, strict=True):
        key = _key(features, labels, seed, recipe, num_classes, asked=rows)
        own.append(key)
        if key not in found:
            held = MEMORY.get(key)
            found[key] = held or train_teacher(features, labels, seed, recipe, num_classes, asked=rows)
            MEMORY.put(key, found[key])
    distinct = list(found)
    return list(found.values()), [distinct.index(key) for key in own]
