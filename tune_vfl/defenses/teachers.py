"""Teachers: small networks that the label party trains on features of its own, to soften labels with what they believe.

Members of a pack with the same data, seed and recipe share one teacher. Teachers stay in the process, under a key made
of their content, so that the next pack of a study does not train them again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tune_vfl.models.layers import stack_of
from tune_vfl.protocol.losses import task_loss
from tune_vfl.seeds import Stream

MEMORY_BYTES = 256 * 2**20
"""How much the teachers kept in a process may take."""
ROWS_AT_ONCE = 8192


class TeacherRecipe(NamedTuple):
    """How a teacher is built and trained.

    Attributes:
        hidden: widths of the hidden layers.
        lr: Adam's learning rate, a tenth of it after half of the epochs and a hundredth after four fifths.
        epochs: passes over the training rows.
        batch_size: rows a step.
    """

    hidden: tuple[int, ...]
    lr: float
    epochs: int
    batch_size: int


class Teacher(NamedTuple):
    """What a trained teacher believes.

    Attributes:
        probabilities: ``(N, K)`` for the training rows.
        accuracy: share of the training rows whose likeliest class is the true one.
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


def _key(x: Tensor, y: Tensor, seed: int, recipe: TeacherRecipe, num_classes: int) -> str:
    digest = hashlib.blake2b(_content(x) + _content(y), digest_size=16)
    digest.update(repr((seed, recipe, num_classes, x.device.type)).encode())
    return digest.hexdigest()


def _rate(recipe: TeacherRecipe, epoch: int) -> float:
    drops = (epoch >= recipe.epochs // 2) + (epoch >= recipe.epochs * 4 // 5)
    return recipe.lr * 0.1**drops


@torch.enable_grad()
def train_teacher(x: Tensor, y: Tensor, seed: int, recipe: TeacherRecipe, num_classes: int) -> Teacher:
    """Train a teacher by cross-entropy on the true labels, and ask it once about all training rows.

    Args:
        x: ``(N, F)`` features.
        y: ``(N,)`` classes.
        seed: of its weights and of the order of rows.
        recipe: how.
        num_classes: K.
    """
    count = x.shape[0]
    widths = [x.shape[1], *recipe.hidden, num_classes]
    network = nn.Sequential(*stack_of(widths, nn.ReLU, stream=Stream(seed, "teacher/weights", x.device)))
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.lr, fused=True)
    order = Stream(seed, "teacher/order", x.device)
    for epoch in range(recipe.epochs):
        optimizer.param_groups[0]["lr"] = _rate(recipe, epoch)
        rows = order.permutation(count)
        for start in range(0, count, recipe.batch_size):
            batch = rows[start : start + recipe.batch_size]
            task_loss(network(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        parts = [x[start : start + ROWS_AT_ONCE] for start in range(0, count, ROWS_AT_ONCE)]
        probabilities = torch.cat([network(part).softmax(-1) for part in parts])
    right = (probabilities.argmax(-1) == y).double().mean()
    return Teacher(probabilities, float(right))


def find_teachers(
    x: Tensor, y: Tensor, seeds: Sequence[int], recipes: Sequence[TeacherRecipe], num_classes: int
) -> tuple[list[Teacher], list[int]]:
    """Return the teachers of the members of a pack, trained now or taken from memory.

    They are trained one by one although they could be stacked: stacking changes the last bits of a probability, and
    with them, now and then, which classes are the likeliest; so a pack would train on other labels than a trial alone.

    Args:
        x: ``(T, N, ...)`` features.
        y: ``(T, N)`` classes.
        seeds: T seeds.
        recipes: T recipes.
        num_classes: K.

    Returns:
        The distinct teachers, and for each member which of them is its own.
    """
    own: list[str] = []
    found: dict[str, Teacher] = {}
    for features, labels, seed, recipe in zip(x, y, seeds, recipes, strict=True):
        key = _key(features, labels, seed, recipe, num_classes)
        own.append(key)
        if key not in found:
            held = MEMORY.get(key)
            found[key] = held or train_teacher(features.flatten(1), labels, seed, recipe, num_classes)
            MEMORY.put(key, found[key])
    distinct = list(found)
    return list(found.values()), [distinct.index(key) for key in own]
