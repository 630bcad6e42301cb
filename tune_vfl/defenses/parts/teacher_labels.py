"""Training labels softened over the k classes that a teacher finds likeliest: shared part of KDk and LADistill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from tune_vfl.defenses.base import Defense, DefenseCapabilities
from tune_vfl.defenses.parts.by_id import RowTable
from tune_vfl.defenses.parts.teacher_nets import TeacherNet, teacher_for
from tune_vfl.defenses.parts.teachers import find_teachers, recipe_of
from tune_vfl.errors import UsageError
from tune_vfl.protocol.mechanism import Mechanism
from tune_vfl.spec import Named, Strict
from tune_vfl.spec.cell import Mode


class TeacherLabelsParams(Strict):
    """Parameters of :class:`TeacherLabels`."""

    k: int = Field(
        3, ge=2, description="classes that share the probability, the anchor included; at most K (2 for two classes)"
    )
    epsilon: float = Field(
        0.45, ge=0, lt=1, description="probability that leaves the anchor; above (k-1)/k the anchor is the least likely"
    )
    anchor: Literal["true_label", "teacher_argmax"] = Field(
        "true_label", description="the class that keeps 1 - epsilon: the true one, or the teacher's likeliest"
    )
    teacher: TeacherNet | None = Field(
        None,
        description="the teacher's network, {model: NAME} with that model's options: mlp, resnet20, resnet50, bert, "
        "distilbert, or same, the parties' own; none: the paper's where the parties train a resnet, a bert or a "
        "distilbert, else mlp",
    )
    teacher_lr: float = Field(1e-3, gt=0, allow_inf_nan=False, description="the teacher's learning rate (Adam)")
    teacher_epochs: int = Field(20, ge=1, description="the teacher's epochs")
    teacher_batch_size: int = Field(128, ge=1, description="rows a step of the teacher's training")
    teacher_hidden: tuple[int, ...] = Field((64, 64), description="hidden widths of a teacher that is an mlp")
    teacher_view: Literal["active", "full"] = Field(
        "active", description="what the teacher sees: the label party's own features, or those of all parties"
    )


def class_ranks(probabilities: Tensor, first: Tensor | None = None) -> Tensor:
    """Rank the classes of each row from the likeliest, 0, downwards; of equal ones the lower class comes first.

    Args:
        probabilities: ``(..., K)`` in [0, 1].
        first: ``(...)`` classes that come first whatever their probability; the others keep their order.

    Returns:
        ``(..., K)`` int16.
    """
    if first is not None:
        probabilities = probabilities.scatter(-1, first.unsqueeze(-1), 2.0)
    likeliest_first = probabilities.argsort(dim=-1, descending=True, stable=True)
    return likeliest_first.argsort(dim=-1).to(torch.int16)


def soft_labels(ranks: Tensor, k: float | Tensor, epsilon: float | Tensor) -> Tensor:
    """Return rows with 1 - epsilon at rank 0, epsilon / (k - 1) at the ranks up to k, and 0 beyond.

    Args:
        ranks: ``(*trials, B, K)``.
        k: a number or ``(T, 1, 1)``.
        epsilon: a number or ``(T, 1, 1)``.

    Returns:
        ``(*trials, B, K)`` float32, rows summing to 1.
    """
    epsilon = torch.as_tensor(epsilon, dtype=torch.float32, device=ranks.device)
    k = torch.as_tensor(k, device=ranks.device)
    shared = torch.where(ranks < k, epsilon / (k - 1), 0.0)
    return torch.where(ranks == 0, 1 - epsilon, shared)


class TeacherLabels(Defense[TeacherLabelsParams]):
    """Soft labels: 1 - epsilon for the anchor, epsilon / (k - 1) for each of the next likeliest k - 1 classes.

    The teacher is a network on the label party's own features and true labels, trained once and frozen; every
    row's soft label stays the same in all epochs.

    Attributes:
        published_teachers: by the kind of data, the net that the paper names as teacher.
    """

    published_teachers: ClassVar[Mapping[str, str]]
    capabilities = DefenseCapabilities(stackable=True, protects=("labels",))
    weakest = {"epsilon": 0.0}  # noqa: RUF012 - read only, as its declaration in the base says

    @classmethod
    def completed(cls, given: Mapping[str, Any], *, num_classes: int) -> dict[str, Any]:
        """Complete k: 3, or 2 for two classes, the paper's choice."""
        return {"k": min(3, num_classes), **given}

    @classmethod
    def fitted_to(cls, given: Mapping[str, Any], *, model: Named, modality: str) -> dict[str, Any]:
        """Write in the teacher: the paper's for such a model, or the model itself for ``same``.

        Raises:
            SpecError: for a teacher that does not read such data.
        """
        teacher = teacher_for(given.get("teacher"), model=model, modality=modality, published=cls.published_teachers)
        return dict(given) if teacher is None else {**given, "teacher": teacher}

    @classmethod
    def structure(cls, params: TeacherLabelsParams) -> tuple[object, ...]:
        """Parameters that members of one pack must share; the teacher as text, since a mapping is not hashable."""
        return (repr(params.teacher), *super().structure(params.model_copy(update={"teacher": None})))

    @classmethod
    def problems(cls, params: TeacherLabelsParams, *, num_classes: int, mode: Mode) -> list[str]:
        """Return problems of k, and of a teacher without input."""
        found = []
        if params.k > num_classes:
            found.append(f"{cls.name}: k must be at most the number of classes, {num_classes}, got {params.k}; lower k")
        if mode == "label_only" and params.teacher_view == "active":
            found.append(
                f"{cls.name}: the label party has no features for its teacher; set teacher_view: full to let it see "
                "the features of all parties"
            )
        return found

    @property
    def wants_full_view(self) -> bool:
        """Whether the teacher looks at the features of all parties."""
        return self.shared.teacher_view == "full"

    def setup(
        self, y: Tensor, ids: Tensor, *, active_features: Tensor | None = None, seed: int | Sequence[int] = 0
    ) -> None:
        """H0: train the teachers, or load them from the cache, and rank every row's classes.

        Raises:
            UsageError: without features for the teacher.
        """
        super().setup(y, ids, active_features=active_features, seed=seed)
        if active_features is None:
            raise UsageError(f"{self.name} trains a teacher on features, got none; pass active_features to setup")
        x, labels = (active_features, y) if self.stacked else (active_features.unsqueeze(0), y.unsqueeze(0))
        seeds = [seed] if isinstance(seed, int) else list(seed)
        recipes = [recipe_of(p, p.teacher) for p in self.members]
        teachers, own = find_teachers(x, labels, seeds, recipes, self.num_classes)
        self._accuracy = [teachers[slot].accuracy for slot in own]
        true_first = self.shared.anchor == "true_label"
        # Ranks per distinct teacher, not soft labels per member: a tenth of the memory in a pack of many trials.
        self._ranks = torch.cat(
            [class_ranks(t.probabilities, labels[own.index(i)] if true_first else None) for i, t in enumerate(teachers)]
        )
        self._rows = RowTable(ids)
        starts = torch.tensor(own, device=self._device) * self._rows.count
        self._starts = starts.view(-1, 1) if self.stacked else starts

    def labels(self, y: Tensor, ids: Tensor) -> Tensor:
        """H1: return the soft labels ``(*trials, B, K)`` of these rows."""
        places = self._rows.positions(ids) + self._starts
        ranks = self._ranks.index_select(0, places.reshape(-1)).view(*ids.shape, -1)
        return soft_labels(ranks, self.number(lambda p: p.k), self.number(lambda p: p.epsilon))

    def mechanism(self) -> Mechanism | None:
        """Return that a row is taught the teacher's choice beside its class; None where the class stays first."""
        return None if self.shared.anchor == "true_label" else Mechanism(blurred=True)

    def logged(self) -> dict[str, Sequence[float]]:
        """Return ``teacher_accuracy``, on the training rows."""
        return {"teacher_accuracy": self._accuracy}

    def notes(self, member: int = 0) -> list[str]:
        """Return notes on an anchor that becomes the least likely of the k classes, and on the teacher's input."""
        k, epsilon = self.members[member].k, self.members[member].epsilon
        found = []
        if epsilon > (k - 1) / k:
            found.append(
                f"{self.name}: with k={k}, epsilon={epsilon:g} is above (k-1)/k: the anchor class is the least likely "
                "of the k"
            )
        if self.wants_full_view:
            found.append(f"{self.name}: teacher_view is full: the teacher saw the features of all parties")
        return found
