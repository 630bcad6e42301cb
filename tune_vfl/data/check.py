"""What a data set is like before anything is trained on it: rows, classes, columns by party, and what looks wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tune_vfl.data.partition import ACTIVE
from tune_vfl.data.predictive_columns import THRESHOLD, file_columns, measure, scores_alone, values_of
from tune_vfl.data.split import split

if TYPE_CHECKING:
    from tune_vfl.data.base import ColumnKind, Columns, Dataset


@dataclass(frozen=True)
class ClassFacts:
    """A class: its rows, their share of all rows, and how many of them are training and test rows."""

    name: str
    rows: int
    share: float
    train: int
    test: int


@dataclass(frozen=True)
class ColumnFacts:
    """A column of a party's file.

    Attributes:
        name: its name in the file.
        kind: number, code (a category as one number) or category (as 0/1 columns).
        width: how many columns it became.
        missing: the share of rows without a value.
        alone: how well it predicts the label by itself, see :func:`tune_vfl.data.predictive_columns.scores_alone`; None
            where rows are too few.
    """

    name: str
    kind: ColumnKind
    width: int
    missing: float
    alone: float | None


@dataclass(frozen=True)
class PartyFacts:
    """A party: its name, its role (passive or active), the shape of one of its rows, and its columns.

    Images and texts have no columns here.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    columns: tuple[ColumnFacts, ...]


@dataclass(frozen=True)
class Facts:
    """What ``data check`` reports of a data set.

    Attributes:
        name: its registered name.
        rows: N.
        train, test: rows of the split of ``seed``.
        seed: the seed of that split.
        official_test: whether the test rows are the data set's own, the same for every seed.
        metric: the utility metric.
        modality: table, image, ...
        classes: in the order of their index.
        parties: the passive ones in order, then the label party where it has features.
        alone_measure: the name of the score in ``ColumnFacts.alone``.
        notes: what was dropped, filled in or merged.
        warnings: what looks wrong.
    """

    name: str
    rows: int
    train: int
    test: int
    seed: int
    official_test: bool
    metric: str
    modality: str
    classes: tuple[ClassFacts, ...]
    parties: tuple[PartyFacts, ...]
    alone_measure: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def examine(dataset: Dataset, seed: int = 0) -> Facts:
    """Count the rows, classes and columns of a data set, and find what looks wrong.

    Args:
        dataset: as loaded.
        seed: the seed of the split whose sizes are reported.

    Raises:
        DataError: when a class has too few rows to be split.
    """
    cut = split(dataset, seed)
    parties = [_party(columns, "passive", dataset) for columns in dataset.passive]
    if dataset.active is not None:
        parties.append(_party(dataset.active, ACTIVE, dataset))
    kind = measure(dataset.num_classes)
    return Facts(
        name=dataset.name,
        rows=len(dataset.y),
        train=len(cut.y_train),
        test=len(cut.y_test),
        seed=seed,
        official_test=dataset.test_rows is not None,
        metric=dataset.metric,
        modality=dataset.modality,
        classes=_classes(dataset, cut.y_train, cut.y_test),
        parties=tuple(parties),
        alone_measure=kind,
        notes=dataset.notes,
        warnings=tuple(f"{dataset.name}: {w}" for party in parties for w in _warnings(party, kind)),
    )


def _classes(dataset: Dataset, y_train: torch.Tensor, y_test: torch.Tensor) -> tuple[ClassFacts, ...]:
    train, test = (torch.bincount(y, minlength=dataset.num_classes).tolist() for y in (y_train, y_test))
    return tuple(
        ClassFacts(name, a + b, (a + b) / len(dataset.y), a, b)
        for name, a, b in zip(dataset.class_names, train, test, strict=True)
    )


def _party(columns: Columns, role: str, dataset: Dataset) -> PartyFacts:
    if len(columns.shape) != 1 or not columns.x.is_floating_point():
        return PartyFacts(columns.party, role, columns.shape, ())
    scores = scores_alone(columns, dataset.y, dataset.num_classes)
    facts = tuple(
        ColumnFacts(
            name=name,
            kind=kind,
            width=b - a,
            missing=float(np.isnan(values_of(columns, name, kind, a, b)).mean()),
            alone=score,
        )
        for (name, kind, a, b), score in zip(file_columns(columns), scores, strict=True)
    )
    return PartyFacts(columns.party, role, columns.shape, facts)


def _warnings(party: PartyFacts, kind: str) -> list[str]:
    found = [
        f"party {party.name!r}: column {c.name!r} predicts the label alone ({_NAMES[kind]} {c.alone:.3f} on rows not "
        f"fitted to, above {THRESHOLD:g}): if it is made from the label, or known only after it, give it to no party"
        for c in party.columns
        if c.alone is not None and c.alone > THRESHOLD
    ]
    constant = [c.name for c in party.columns if c.missing == 1.0]
    if constant:
        found.append(f"party {party.name!r}: no value in any row of {', '.join(map(repr, constant))}")
    return found


_NAMES = {"auc": "AUC", "balanced_accuracy": "balanced accuracy"}
