"""Turn a label column into classes ``0..K-1``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tune_vfl.data.codes import sorted_codes
from tune_vfl.data.reading.marks import MISSING_LABELS, is_mark
from tune_vfl.data.reading.numbers import as_numbers, whole
from tune_vfl.data.spellings import spelling_note
from tune_vfl.errors import DataError, did_you_mean, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

MOST_CLASSES = 1000
_SHOWN = 5
_MOST_DIGITS = 1e15
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


def encode_labels(
    values: pd.Series[Any],
    where: str,
    positive: str | float | bool | None = None,
    classes: Mapping[str, str] = {},
    *,
    advice: str = "",
) -> tuple[Tensor, tuple[str, ...]]:
    """Number the classes of a label column.

    Classes are named as they stand in the file, in alphabetic order. Where all are whole numbers of at most 15 digits,
    they are in numeric order, and ``1.0`` is ``1``; codes such as ``007``, ``1E50`` and ``1_0`` are no numbers. So of 0
    and 1 the class 1 is positive; ``positive`` moves one of two classes to index 1.

    Args:
        values: N labels, text or numbers; the index counts the file's rows from 0.
        where: names the file and the column, for messages.
        positive: the positive one of two classes, as it stands in the file; YAML's true also means ``yes`` or ``1``.
        classes: the class by the label in the file, which the labels went through already.
        advice: a remedy where the labels are a number and no classes.

    Returns:
        ``(N,)`` int64 classes, and K class names.

    Raises:
        DataError: for missing, constant or continuous labels, more than 1,000 classes, or a ``positive`` that is no
            class.
    """
    texts = texts_of(values)
    check_labeled(texts, values.index, where)
    names, codes = _classes(texts, where, advice)
    if len(names) == 1:
        raise DataError(
            f"{where}: is constant ({names[0]!r} in all {len(texts)} rows); a label needs at least two classes"
        )
    if positive is not None:
        names, codes = _positive_last(names, codes, positive, where, classes)
    return torch.from_numpy(codes.astype(np.int64)), tuple(names)


def texts_of(values: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Return labels ``(N,)`` as text, without surrounding blanks; whole numbers without a decimal point."""
    return np.array([_text(v) for v in values], dtype=object)


def renamed(values: pd.Series[Any], classes: Mapping[str, str], where: str) -> pd.Series[Any]:
    """Return labels as text, where some count as the class that ``classes`` gives.

    Args:
        values: N labels.
        classes: the class by the label in the file.
        where: names the file and the column, for messages.

    Raises:
        DataError: for a label that is not in the file.
    """
    import pandas as pd

    texts = pd.Series(texts_of(values), index=values.index, dtype=object)
    if not classes:
        return texts
    known = set(texts)
    for label in classes:
        if label not in known:
            near = did_you_mean(label, sorted(known)[:MOST_CLASSES])
            raise DataError(f"{where}: classes names label {label!r}, which no row has; take it off classes.{near}")
    return texts.map(lambda text: classes.get(text, text))


def _text(value: Any) -> str:
    # Larger ones are written with an exponent, not with all their digits: most of these would be made up.
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_DIGITS:
        return str(int(value))
    return str(value).strip()


def is_unlabeled(texts: np.ndarray[Any, Any], own: Sequence[str] = ()) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return ``(N,)`` where a label is missing; among whole numbers, ``.`` or ``-`` is no class but a missing one.

    Args:
        texts: N labels.
        own: texts that mean a missing label, beside the usual ones.
    """
    import pandas as pd

    codes, names = sorted_codes(texts)
    missing = np.isin(np.array(names, dtype=object), [*MISSING_LABELS, *own])
    other = np.array([whole(name) is None for name in names]) & ~missing
    marks = is_mark(pd.Series([name for name, odd in zip(names, other, strict=True) if odd], dtype=str))
    if marks.all() and (~missing & ~other).any():
        missing |= other
    unlabeled: np.ndarray[Any, np.dtype[np.bool_]] = missing[codes]
    return unlabeled


def check_labeled(
    texts: np.ndarray[Any, Any], rows: pd.Index[Any], where: str, own: Sequence[str] = (), advice: str = ""
) -> None:
    """Check that every row has a label.

    Args:
        texts: N labels.
        rows: N numbers of the file's rows, from 0.
        where: names the file and the column, for messages.
        own: texts that mean a missing label, beside the usual ones.
        advice: another remedy.

    Raises:
        DataError: naming the first row without one.
    """
    missing = is_unlabeled(texts, own)
    if missing.any():
        first = int(np.argmax(missing))
        mark = f": {texts[first]!r}" if texts[first] else ""
        raise DataError(
            f"{where}: is missing in {missing.sum()} of {len(texts)} rows (first in row {rows[first] + 1}{mark}); "
            f"remove these rows or fill in their labels{advice}{_as_class(texts[missing]) if advice else ''}"
        )


def _as_class(marks: np.ndarray[Any, Any]) -> str:
    """Return an option that makes a class of words that mean a missing label, such as NA for North America."""
    words = {word: f"{word} (a class)" for word in sorted(set(marks)) if any(map(str.isalpha, word))}
    if not words:
        return ""
    return f"; where {shortened([repr(w) for w in words], _SHOWN)} is a class, paste this into `dataset`: classes: " + (
        json.dumps(words, ensure_ascii=False)
    )


def _classes(texts: np.ndarray[Any, Any], where: str, advice: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    codes, names = sorted_codes(texts)
    numbers = [int(number) for name in names if (number := whole(name)) is not None]
    if len(numbers) < len(names):
        _check_continuous(names, where, advice)
        _check_count(len(names), where, advice)
        return names, codes
    # "1" and "1.0" are one class.
    values, merged = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
    _check_count(len(values), where, advice)
    return [str(v) for v in values], merged[codes]


def _check_continuous(names: list[str], where: str, advice: str) -> None:
    import pandas as pd

    numbers = as_numbers(pd.Series(names, dtype=str))
    if np.isnan(numbers).any():
        return
    if not np.isfinite(numbers).all():
        raise DataError(f"{where}: holds a number that is not finite; remove its row or give it a class")
    broken = numbers[numbers != np.round(numbers)]
    if len(broken):
        raise DataError(
            f"{where}: is continuous (such as {broken[0]:g}), but a label must be a class; give a column of classes, "
            f"or {advice or 'cut the numbers into ranges'}"
        )


def _check_count(classes: int, where: str, advice: str) -> None:
    if classes > MOST_CLASSES:
        raise DataError(
            f"{where}: has {classes} different values, more than {MOST_CLASSES} classes; is it continuous, or an id? "
            f"give a column of classes{f', or {advice}' if advice else ''}"
        )


def _positive_last(
    names: list[str],
    codes: np.ndarray[Any, Any],
    positive: str | float | bool,
    where: str,
    classes: Mapping[str, str],
) -> tuple[list[str], np.ndarray[Any, Any]]:
    if len(names) != 2:
        counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
        advice = (
            spelling_note(counts, classes) or "leave it out, or list all labels of the positive class: positive: [...]"
        )
        raise DataError(
            f"{where}: positive={positive!r} is for two classes, and there are {len(names)} "
            f"({shortened([repr(name) for name in names], _SHOWN)}); {advice}"
        )
    if isinstance(positive, bool):
        accepted = _YES if positive else _NO
        matches = [k for k, name in enumerate(names) if name.lower() in accepted]
    else:
        asked = _text(positive)
        matches = [k for k, name in enumerate(names) if name in (asked, whole(asked))]
    if len(matches) != 1:
        raise DataError(
            f"{where}: has no class {positive!r} to be positive; its classes are {names[0]!r} and {names[1]!r}"
        )
    return (names, codes) if matches[0] == 1 else (names[::-1], 1 - codes)
