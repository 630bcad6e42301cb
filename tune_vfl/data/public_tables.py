"""Public text tables: known columns and labels of one, and the data set that stands in for one that few have."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from tune_vfl.data.base import Dataset, Loader
from tune_vfl.data.encode import Encoding, encode_party
from tune_vfl.data.public import P, PublicSet, Rows
from tune_vfl.data.reading.files import find, holds
from tune_vfl.data.reading.joined import require
from tune_vfl.data.reading.labels import encode_labels
from tune_vfl.data.reading.table import left_out, read_table
from tune_vfl.errors import DataError, shortened

if TYPE_CHECKING:
    import pandas as pd


class CsvSet(PublicSet[P]):
    """A public data set in one text table.

    Attributes:
        label: the label column.
        labels: K labels as the file has them, in the order of ``classes``; empty where they are the names of these.
        features: all other columns, in the order in which they are shared out.
        has_header: whether the file's first line names its columns; else the label is the last one.
        has_numbers: whether each field of a feature is a number, and none is empty.
    """

    label: ClassVar[str]
    labels: ClassVar[tuple[str, ...]] = ()
    features: ClassVar[tuple[str, ...]]
    has_header: ClassVar[bool] = True
    has_numbers: ClassVar[bool] = False

    def read(self, options: P, root: Path) -> Rows:
        """Read the table, whose columns and labels must be those of the class."""
        del options
        path, where = self.file(root), f"label column {self.label!r}"
        frame = read_table(path, None if self.has_header else [*self.features, self.label])
        if strange := sorted({*frame.columns} ^ {*self.features, self.label}):
            raise DataError(
                f"{path}: expected {self.label} and its {len(self.features)} features, got {len(frame.columns)} "
                f"columns; not so: {shortened(strange)}; fetch it again"
            )
        y, names = encode_labels(frame[self.label], f"{path}: {where}")
        if names != (expected := self.labels or self.classes):
            raise DataError(f"{path}: {where} holds {', '.join(names)}, expected {' and '.join(expected)}")
        features = frame[list(self.features)]
        x = complete_numbers(features, path) if self.has_numbers else features
        return Rows(x, y, path, where, names=self.features)


class RareTable(PublicSet[P]):
    """A text table of a paper that few have, and the public data set that stands in where it is missing.

    The option ``label`` names its label column, by default the last one, ``positive`` one of two classes.

    Attributes:
        instead: the data set that stands in; options that it does not have are for the table alone.
        unlike: the note that says so.
        has_numbers: whether each field of a feature must be a number, or empty.
    """

    instead: ClassVar[type[Loader[Any]]]
    unlike: ClassVar[str]
    has_numbers: ClassVar[bool] = False
    kept = True

    def load(self, options: P, root: Path) -> Dataset:
        """Read the table if it is there, else the data set that stands in."""
        if any(holds(root, file) for file in self.files):
            return super().load(options, root)
        own = {*type(options).model_fields} - {*self.instead.Options.model_fields}
        if any(getattr(options, name) is not None for name in own):
            find(root, self.files[0], self.source)
        data = self.instead().load(self.instead.Options(**options.model_dump(exclude=own)), root)
        return replace(data, name=self.name, notes=(self.unlike, *data.notes))

    def read(self, options: P, root: Path) -> Rows:
        """Read the table."""
        path = self.file(root)
        frame = read_table(path)
        label = getattr(options, "label", None) or str(frame.columns[-1])
        require(frame, label, "the label", path)
        where = f"label column {label!r}"
        y, classes = encode_labels(frame[label], f"{path}: {where}", getattr(options, "positive", None))
        x = frame.drop(columns=label)
        counts = self.count_note(len(x.columns), len(classes), label, f"{path}: {where}")
        notes = (*left_out(frame), *([f"{path.name} has {counts}"] if counts else []))
        encoding = Encoding(numeric=tuple(x.columns) if self.has_numbers else ())
        return Rows(x, y, path, where, notes=notes, classes=classes, encoding=encoding)

    @abstractmethod
    def count_note(self, columns: int, classes: int, label: str, where: str) -> str:
        """Return how many columns and classes the table has, where the paper counts others; else an empty text.

        Args:
            columns: how many features there are.
            classes: how many classes there are.
            label: the label column.
            where: names the file and that column, for messages.

        Raises:
            DataError: for numbers with which the data set cannot be used.
        """


def complete_numbers(frame: pd.DataFrame, path: Path) -> Tensor:
    """Return a table of text as numbers ``(N, d)`` float32.

    Raises:
        DataError: when a field is empty, or no number.
    """
    columns, _ = encode_party(frame, "all", list(frame.columns), str(path), Encoding())
    if columns.names != (*frame.columns,) or not torch.isfinite(columns.x).all():
        raise DataError(f"{path}: expected {len(frame.columns)} complete numeric columns; fetch the file again")
    return columns.x
