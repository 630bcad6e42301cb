"""A data set's description before any training: rows, classes, columns by party, and suspicious columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tune_vfl.data.base import ColumnKind, Columns, Dataset
from tune_vfl.data.findings import ColumnFacts, Finding, findings
from tune_vfl.data.looks import Written
from tune_vfl.data.partition import ACTIVE
from tune_vfl.data.predictive_columns import THRESHOLD, file_columns, measure, noise, scores_alone, values_of
from tune_vfl.data.spellings import alike, merging
from tune_vfl.data.split import split
from tune_vfl.errors import shortened
from tune_vfl.statistics.arrays import Floats


@dataclass(frozen=True)
class ClassFacts:
    """A class: number of rows, share of all rows, and numbers of training and test rows."""

    name: str
    rows: int
    share: float
    train: int
    test: int


@dataclass(frozen=True)
class PartyFacts:
    """A party: its name, its role (passive or active), the shape of one row, and its columns.

    Images and texts have no columns here.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    columns: tuple[ColumnFacts, ...]


@dataclass(frozen=True)
class Facts:
    """The result of ``data check``.

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
        findings: suspicious columns, the worst first.
        exclude: the columns to leave out, those that the spec leaves out already among them; empty where nothing new is
            found, or the data set has no such option.
        groups: identifiers of which several rows have one value, as those of a customer have.
        categories: by column, the mapping that merges categories which differ in spelling only, with those that the
            spec merges already; empty where nothing new is found.
        notes: values dropped, filled in or merged.
        warnings: likely mistakes.
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
    findings: tuple[Finding, ...]
    exclude: tuple[str, ...]
    groups: tuple[str, ...]
    categories: dict[str, dict[str, str]]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def examine(
    dataset: Dataset,
    seed: int = 0,
    excluded: Sequence[str] | None = None,
    merged: Mapping[str, Mapping[str, str]] = {},
) -> Facts:
    """Count the rows, classes and columns of a data set, and find suspicious columns.

    Args:
        dataset: as loaded.
        seed: the seed of the split whose sizes are reported.
        excluded: the columns that its spec leaves out already; None where the data set cannot leave out columns.
        merged: the categories that its spec merges already, by column.

    Raises:
        DataError: when a class has too few rows to be split.
    """
    cut = split(dataset, seed)
    parties = [_party(columns, "passive", dataset) for columns in dataset.passive]
    if dataset.active is not None:
        parties.append(_party(dataset.active, ACTIVE, dataset))
    found = findings(
        [(p.name, c) for p in parties for c in p.columns], dataset.num_classes, noise(dataset.y, dataset.num_classes)
    )
    suggested = dict.fromkeys(f.column for f in found if f.exclude)
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
        alone_measure=measure(dataset.num_classes),
        findings=found,
        exclude=(*excluded, *suggested) if excluded is not None and suggested else (),
        groups=tuple(
            c.name
            for p in parties
            for c in p.columns
            if c.looks == "identifier" and c.distinct * _REPEATED <= len(dataset.y) * (1 - c.missing)
        ),
        categories=_categories(parties, merged),
        notes=dataset.notes,
        warnings=tuple(f"{dataset.name}: {w}" for party in parties for w in _warnings(party, dataset.num_classes)),
    )


def _categories(parties: Sequence[PartyFacts], merged: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return the mappings by column that make spellings one, alike in all files that have the column."""
    rows: dict[str, Counter[str]] = {}
    for column in (c for party in parties for c in party.columns if c.spelt):
        counts = rows.setdefault(column.name, Counter())
        for group in column.spelt:
            counts.update(dict(group))
    new = {name: merging(alike(counts), merged.get(name, {})) for name, counts in rows.items()}
    return {**{name: dict(names) for name, names in merged.items()}, **new} if new else {}


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
    written = [source.written for source in columns.sources] or [None] * len(scores)
    facts = [
        _column(name, kind, b - a, values_of(columns, name, kind, a, b), score=score, written=seen)
        for (name, kind, a, b), score, seen in zip(file_columns(columns), scores, written, strict=True)
    ]
    return PartyFacts(columns.party, role, columns.shape, tuple(facts))


def _column(
    name: str, kind: ColumnKind, width: int, values: Floats, *, score: float | None, written: Written | None
) -> ColumnFacts:
    missing = int(np.isnan(values).sum())
    if written is not None:
        return ColumnFacts(name, kind, width, missing / len(values), score, 0, 0.0).seen_as(written)
    known, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    common = max(int(counts.max(initial=0)), missing) / len(values)
    return ColumnFacts(name, kind, width, missing / len(values), score, len(known), common)


def _warnings(party: PartyFacts, num_classes: int) -> list[str]:
    tell = [c for c in party.columns if c.alone is not None and c.alone > THRESHOLD]
    tell.sort(key=lambda c: -(c.alone or 0.0))
    found = []
    if tell:
        name = _NAMES[measure(num_classes)]
        scores = [f"{c.name!r} ({name} {c.alone:.3f})" for c in tell]
        which = f"column {scores[0]} predicts" if len(tell) == 1 else f"{len(tell)} columns predict"
        listed = "" if len(tell) == 1 else f": {shortened(scores, _NAMED)}"
        found.append(
            f"party {party.name!r}: {which} the label alone on rows not fitted to, above {THRESHOLD:g}{listed}; leave "
            "out what is made from the label, or known only after it"
        )
    empty = [c.name for c in party.columns if c.missing == 1.0]
    if empty:
        found.append(f"party {party.name!r}: no value in any row of {shortened([repr(name) for name in empty])}")
    return found


_NAMED = 3
# So many rows of each value of an identifier on average are rows of one customer or patient.
_REPEATED = 1.5
_NAMES = {"auc": "AUC", "balanced_accuracy": "balanced accuracy"}
