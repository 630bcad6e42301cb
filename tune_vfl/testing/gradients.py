"""Made-up rows for contract suites: labels, gradients that give them away, logits and features, a seed each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from tune_vfl.models.base import HeadOption
from tune_vfl.protocol.hooks import Context
from tune_vfl.seeds import generator
from tune_vfl.spec.cell import Mode

ROWS = 61
BATCH_SCALE = 32
"""What a batch-mean loss divides by: gradients here have the size they have at a batch of 32."""


@dataclass(frozen=True)
class Case:
    """A shape of problem.

    Attributes:
        name: for test ids.
        num_classes: K.
        d: width of the embedding.
        mode: the architecture it stands for, where the method allows it.
    """

    name: str
    num_classes: int
    d: int
    mode: Mode

    def mode_for(self, allowed: Iterable[Mode]) -> Mode:
        """Return this case's architecture, or another allowed one."""
        modes = sorted(allowed)
        return self.mode if self.mode in modes else modes[0]


CASES = (Case("binary-d1", 2, 1, "split"), Case("binary-d8", 2, 8, "split"), Case("ten-classes-d10", 10, 10, "nosplit"))


@dataclass(frozen=True, eq=False)
class MadeUpRows:
    """Rows of one trial, or of a pack with a leading axis.

    Attributes:
        y: ``(*trials, N)`` classes.
        ids: ``(*trials, N)`` distinct, neither sorted nor without gaps.
        grad: ``(*trials, N, d)``.
        logits: ``(*trials, N, K)``, or ``(*trials, N, 1)`` for a method with a scalar head.
        features: ``(*trials, N, 4)`` of the label party.
    """

    y: Tensor
    ids: Tensor
    grad: Tensor
    logits: Tensor
    features: Tensor

    @property
    def by_row(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``y, ids, grad, logits``."""
        return self.y, self.ids, self.grad, self.logits

    def take(self, ids: Tensor) -> list[Tensor]:
        """Return the features ``(*trials, B, 4)`` of rows by id: two passive parties', the label party's."""
        at = (self.ids.unsqueeze(-2) == ids.unsqueeze(-1)).int().argmax(-1)
        return [self.features.gather(-2, at.unsqueeze(-1).expand(*at.shape, self.features.shape[-1]))] * 3

    @staticmethod
    def stack(rows: Sequence[MadeUpRows]) -> MadeUpRows:
        """Stack the rows of several trials along a new leading axis."""
        return MadeUpRows(**{f.name: torch.stack([getattr(r, f.name) for r in rows]) for f in fields(MadeUpRows)})


def softmax_gradient(logits: Tensor, targets: Tensor, batch: int = BATCH_SCALE) -> Tensor:
    """Return the gradient of a batch-mean cross-entropy with respect to the logits, for soft targets ``(..., K)``."""
    return (logits.softmax(-1) - targets) / batch


def make_rows(case: Case, seeds: Iterable[int], *, head: HeadOption = "auto") -> list[MadeUpRows]:
    """Return rows for each seed: every class occurs, and the class shows in the gradient and in the features."""
    return [_rows(case, seed, head) for seed in seeds]


def _rows(case: Case, seed: int, head: HeadOption) -> MadeUpRows:
    g = generator(seed, "testing/rows")
    y = torch.arange(ROWS)[torch.randperm(ROWS, generator=g)] % case.num_classes
    logits = torch.randn(ROWS, case.num_classes, generator=g) * 0.05
    shown = torch.randn(case.num_classes, case.d, generator=g)
    error = softmax_gradient(logits, torch.nn.functional.one_hot(y, case.num_classes).float())
    grad = error if case.mode == "nosplit" and case.d == case.num_classes else error @ shown
    centers = torch.randn(case.num_classes, 4, generator=g)
    features = centers[y] + 0.5 * torch.randn(ROWS, 4, generator=g)
    ids = torch.randperm(3 * ROWS, generator=g)[:ROWS]
    given = logits[:, -1:] if head == "scalar" else logits
    return MadeUpRows(y=y, ids=ids, grad=grad, logits=given, features=features)


def linear(by_class: Sequence[Tensor]) -> Callable[[int | Tensor], Tensor]:
    """Return a context's ``per_class_gradient`` where the gradients ``(*trials, B, d)`` of the classes are known."""

    def gradient(label: int | Tensor) -> Tensor:
        if isinstance(label, int):
            return by_class[label]
        return torch.stack([label[..., c, None] * g for c, g in enumerate(by_class)]).sum(0)

    return gradient


def context_of(grad: Tensor, y: Tensor, outputs: int) -> Context:
    """Return a label party's context of this step for so many logits; a class's gradients are those of other rows."""
    logits = torch.zeros(*y.shape, outputs)
    ids = torch.arange(y.shape[-1]).expand(y.shape)
    return Context(
        embeddings=[grad, grad],
        logits=logits,
        targets=y,
        ids=ids,
        epoch=0,
        step=0,
        per_class_gradient=linear([grad.roll(c, dims=-2) for c in range(max(outputs, 2))]),
    )
