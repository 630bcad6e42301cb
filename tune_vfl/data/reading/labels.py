"""Turn a label column into classes ``0..K-1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tune_vfl.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

MOST_CLASSES = 1000
# Fewer texts than for features count as missing: a class may well be called "None" or "?".
_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>"})
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


def encode_labels(
    values: pd.Series[Any], where: str, positive: str | float | bool | None = None
) -> tuple[Tensor, tuple[str, ...]]:
    """Number the classes of a label column.

    Classes are in numeric order where all are numbers, else in alphabetic order, so that of 0 and 1 the class 1 is
    positive; ``positive`` moves one of two classes to index 1.

    Args:
        values: N labels, text or numbers; the index counts the file's rows from 0.
        where: names the file and the column, for messages.
        positive: the positive one of two classes, as it stands in the file; YAML's true also means ``yes`` or ``1``.

    Returns:
        ``(N,)`` int64 classes, and K class names.

    Raises:
        DataError: for missing, constant or continuous labels, more than 1,000 classes, or a ``positive`` that is no
            class.
    """
    texts = np.array([_text(v) for v in values], dtype=object)
    _check_missing(texts, values.index, where)
    names, codes = _classes(texts, where)
    if len(names) == 1:
        raise DataError(
            f"{where}: is constant ({names[0]!r} in all {len(texts)} rows); a label needs at least two classes"
        )
    if positive is not None:
        names, codes = _positive_last(names, codes, positive, where)
    return torch.from_numpy(codes.astype(np.int64)), tuple(names)


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _check_missing(texts: np.ndarray[Any, Any], rows: pd.Index[Any], where: str) -> None:
    missing = [row + 1 for row, text in zip(rows, texts, strict=True) if text in _MISSING]
    if missing:
        raise DataError(
            f"{where}: is missing in {len(missing)} of {len(texts)} rows (first in row {missing[0]}); remove these "
            "rows or fill in their labels"
        )


def _classes(texts: np.ndarray[Any, Any], where: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    names, codes = np.unique(texts, return_inverse=True)
    try:
        numbers = np.array([float(name) for name in names])
    except ValueError:
        _check_count(len(names), where)
        return [str(n) for n in names], codes
    _check_numbers(numbers, where)
    # "1" and "1.0" are one class.
    values, merged = np.unique(numbers, return_inverse=True)
    _check_count(len(values), where)
    return [str(int(v)) for v in values], merged[codes]


def _check_numbers(numbers: np.ndarray[Any, Any], where: str) -> None:
    if not np.isfinite(numbers).all():
        raise DataError(f"{where}: holds a number that is not finite; remove its row or give it a class")
    broken = numbers[numbers != np.round(numbers)]
    if len(broken):
        raise DataError(
            f"{where}: is continuous (such as {broken[0]:g}), but a label must be a class; give a column of classes, "
            "or cut the numbers into ranges"
        )


def _check_count(classes: int, where: str) -> None:
    if classes > MOST_CLASSES:
        raise DataError(
            f"{where}: has {classes} different values, more than {MOST_CLASSES} classes; is it continuous, or an id? "
            "give a column of classes"
        )


def _positive_last(
    names: list[str], codes: np.ndarray[Any, Any], positive: str | float | bool, where: str
) -> tuple[list[str], np.ndarray[Any, Any]]:
    if len(names) != 2:
        raise DataError(f"{where}: positive={positive!r} is for two classes, and there are {len(names)}; leave it out")
    if isinstance(positive, bool):
        accepted = _YES if positive else _NO
        matches = [k for k, name in enumerate(names) if name.lower() in accepted]
    else:
        matches = [k for k, name in enumerate(names) if name == _text(positive)]
    if len(matches) != 1:
        raise DataError(
            f"{where}: has no class {positive!r} to be positive; its classes are {names[0]!r} and {names[1]!r}"
        )
    return (names, codes) if matches[0] == 1 else (names[::-1], 1 - codes)
