"""The labels of a user's own data, as the options say: classes by row, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tune_vfl.data.reading.labels import encode_labels, renamed
from tune_vfl.data.spellings import spelling_note

if TYPE_CHECKING:
    import pandas as pd

    from tune_vfl.data.options import LabelOptions


@dataclass(frozen=True, eq=False)
class OwnLabels:
    """Labels as classes.

    Attributes:
        y: ``(N,)`` int64.
        class_names: K names.
        notes: sentences on classes that look like one; the first is a hint where a class has too few rows.
    """

    y: Tensor
    class_names: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def hint(self) -> str:
        """What to do where a class has too few rows."""
        return self.notes[0] if self.notes else ""


def own_labels(values: pd.Series[Any], options: LabelOptions, where: str) -> OwnLabels:
    """Number the classes of a user's labels.

    Args:
        values: N labels as the file has them; the index counts its rows from 0.
        options: which labels are one class, and which one is positive.
        where: names the file and the column, for messages.

    Raises:
        DataError: as :func:`tune_vfl.data.reading.labels.encode_labels`, and for options that name no label.
    """
    y, names = encode_labels(renamed(values, options.classes, where), where, options.positive, options.missing)
    counts = dict(zip(names, torch.bincount(y, minlength=len(names)).tolist(), strict=True))
    note = spelling_note(counts)
    return OwnLabels(y, names, (note,) if note else ())
