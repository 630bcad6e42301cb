"""The labels of a user's own data, as the options say: the rows that have one, their classes, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tune_vfl.data.codes import sorted_codes
from tune_vfl.data.reading.labels import check_labeled, encode_labels, is_unlabeled, renamed
from tune_vfl.data.reading.marks import is_mark
from tune_vfl.data.reading.numbers import as_numbers, declared_numbers, whole
from tune_vfl.data.sample import training_sample
from tune_vfl.data.spellings import spelling_note
from tune_vfl.errors import DataError, did_you_mean, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from tune_vfl.data.label_options import LabelOptions

_NAMED = 3
_DECIMAL = 'the label has decimal commas: set `decimal` to "," in `dataset`'
# Of more whole numbers than this a note asks whether they are classes.
_FEW = 20


@dataclass(frozen=True, eq=False)
class OwnLabels:
    """Labels as classes.

    Attributes:
        rows: ``(n,)`` the places of the rows that are used, in rising order.
        y: ``(n,)`` int64 their classes.
        class_names: K names.
        test_rows: ``(m,)`` the places of the official test rows among them; None where there are none.
        notes: sentences on rows left out, and on classes that look like one.
        hint: the likely cause where a class has too few rows.
    """

    rows: Tensor
    y: Tensor
    class_names: tuple[str, ...]
    test_rows: Tensor | None
    notes: tuple[str, ...]
    hint: str


def own_labels(
    values: pd.Series[Any],
    options: LabelOptions,
    where: str,
    *,
    above: float | None = None,
    test_rows: Tensor | None = None,
    name: str,
    as_number: str = "above: {bound}",
) -> OwnLabels:
    """Number the classes of a user's labels, and choose the rows that are used.

    Args:
        values: N labels as the file has them; the index counts its rows from 0.
        options: the class of each label, and the rows to leave out or sample.
        where: names the file and the column, for messages.
        above: the bound above which a number is the positive class; None where labels are classes.
        test_rows: the official test rows among the N, all of which are used; None where there are none.
        name: the data set's registered name, from which the sample is drawn.
        as_number: how the options say the bound above which a number is the positive class.

    Raises:
        DataError: as :func:`tune_vfl.data.reading.labels.encode_labels`; for options that name no label of the file;
            for more rows than there are.
    """
    texts, as_classes = renamed(values, options.classes, where), above is None and not options.positives
    as_array = texts.to_numpy(dtype=object)
    kept = ~is_unlabeled(as_array, options.missing) if options.drop_unlabeled else np.ones(len(texts), dtype=bool)
    if above is None and kept.all():
        check_labeled(as_array, texts.index, where, options.missing, ", or leave them out with drop_unlabeled: true")
    notes = [] if kept.all() else [f"{(~kept).sum():,} of {len(kept):,} rows have no label and are left out"]
    if not kept.any():
        raise DataError(f"{where}: is missing in all {len(kept)} rows; fill in labels")
    labels = texts[kept]
    cut = _cut(labels, options, as_number) if as_classes else ""
    if above is not None:
        y, names = _above(labels, above, where, options)
    elif options.positives:
        grouped, said = _grouped(labels, options, where)
        notes += said
        kept[kept] = grouped >= 0
        y, names = torch.from_numpy(grouped[grouped >= 0]), _group_names(labels, options)
        _check_both(y, names, where)
    else:
        positive = None if isinstance(options.positive, tuple) else options.positive
        y, names = encode_labels(labels, where, positive, options.classes, advice=cut)
    counts = dict(zip(names, torch.bincount(y, minlength=len(names)).tolist(), strict=True))
    spelling = spelling_note(counts, options.classes) if as_classes else ""
    notes += [*_question(cut, len(names)), *(_beside_unlabeled(counts) if as_classes and notes else [])]
    rows = torch.from_numpy(np.flatnonzero(kept))
    tests = None if test_rows is None else torch.isin(rows, test_rows).nonzero().squeeze(1)
    chosen, sampled, said_of = training_sample(y, tests, options.rows, names, name)
    return OwnLabels(
        rows=rows[chosen],
        y=y[chosen],
        class_names=names,
        test_rows=None if tests is None else sampled,
        notes=(*notes, *said_of, *([spelling] if spelling else [])),
        hint=spelling or (cut and f"add rows or remove the class; is the label a number? {cut}"),
    )


def _question(cut: str, classes: int) -> list[str]:
    """Return a note that asks whether many numbers are classes; ``cut`` is what to do where they are not."""
    asked = f"the label has {classes} different numbers, each a class; is it a number? {cut}"
    return [asked] if cut and classes > _FEW else []


def _reads_points(options: LabelOptions) -> bool:
    """Whether the options, as a table's, have a decimal sign, which is a point."""
    return "decimal" in type(options).model_fields and getattr(options, "decimal", None) != ","


def _beside_unlabeled(counts: Mapping[str, int]) -> list[str]:
    """Return a note on classes whose name may mean that there is no label, where other rows have none either."""
    import pandas as pd

    names = pd.Series([*counts], dtype=str)
    named = [f"{name!r} ({counts[name]:,} rows)" for name in names[is_mark(names)]]
    asked = "is a class beside rows without a label; where it means none, list it in `missing`"
    return [f"{shortened(named)} {asked}"] if named else []


def _cut(labels: pd.Series[Any], options: LabelOptions, as_number: str) -> str:
    """Return the option that makes two classes of labels that are numbers; empty for texts, and for two numbers.

    For texts with decimal commas it is the option that makes numbers of them.
    """
    import pandas as pd

    codes, names = sorted_codes(labels.to_numpy(dtype=object))
    texts = pd.Series(names, dtype=str)
    numbers = as_numbers(texts)
    if len(names) < 3:
        return ""
    if not np.isfinite(numbers).all():
        commas = np.isfinite(as_numbers(texts.str.replace(",", ".", n=1, regex=False))).all()
        return _DECIMAL if commas and _reads_points(options) else ""
    below = np.flatnonzero(numbers < numbers.max())
    middle = np.median(numbers[codes])
    bound = max(below, key=lambda place: (numbers[place] <= middle, -abs(numbers[place] - middle)))
    option = as_number.replace("{bound}", names[bound])
    return f"cut the numbers into ranges, two at their median: set {option} in `dataset`"


def _above(labels: pd.Series[Any], bound: float, where: str, options: LabelOptions) -> tuple[Tensor, tuple[str, ...]]:
    missing = is_unlabeled(labels.to_numpy(dtype=object), options.missing)
    numbers = declared_numbers(labels.astype(str))
    broken = missing | np.isnan(numbers)
    if broken.any():
        place = int(np.argmax(broken))
        advice = (
            "leave such rows out with drop_unlabeled: true" if missing.any() else "correct it, or list it in missing"
        )
        raise DataError(
            f"{where}: holds {labels.iloc[place]!r} in row {labels.index[place] + 1}, where `above` needs a number; "
            f"{advice}"
        )
    y, names = torch.from_numpy((numbers > bound).astype(np.int64)), (f"at most {bound:g}", f"above {bound:g}")
    _check_both(y, names, where)
    return y, names


def _grouped(labels: pd.Series[Any], options: LabelOptions, where: str) -> tuple[Any, list[str]]:
    """Return ``(n,)`` 1 for the positive class, 0 for the negative one, -1 for rows of neither; and notes."""
    spelt, written = sorted_codes(labels.to_numpy(dtype=object))
    merged, names = sorted_codes(np.array([_plain(name) for name in written], dtype=object))
    codes = merged[spelt]
    groups = [[_plain(label) for label in group] for group in (options.negative, options.positives)]
    for label in [label for group in groups for label in group]:
        if label not in names:
            near = did_you_mean(label, names) or f" It has: {shortened(names)}"
            raise DataError(f"{where}: has no label {label!r}, which positive or negative lists.{near}")
    kinds = np.array([1 if n in groups[1] else 0 if n in groups[0] or not groups[0] else -1 for n in names])
    counts = np.bincount(codes, minlength=len(names))
    left = [f"{name!r} ({count:,})" for name, kind, count in zip(names, kinds, counts, strict=True) if kind < 0]
    total = int(counts[kinds < 0].sum())
    told = f"{total:,} of {len(labels):,} rows are left out, whose label is neither positive nor negative: "
    return kinds[codes].astype(np.int64), [told + shortened(left)] if left else []


def _group_names(labels: pd.Series[Any], options: LabelOptions) -> tuple[str, str]:
    positive = {_plain(label) for label in options.positives}
    others = options.negative or sorted({_plain(str(label)) for label in set(labels)} - positive)
    negative = _named(others)
    return negative, _named(options.positives)


def _named(labels: Sequence[str]) -> str:
    return " or ".join(labels) if len(labels) <= _NAMED else f"{labels[0]} or {len(labels) - 1} others"


def _check_both(y: Tensor, names: tuple[str, ...], where: str) -> None:
    counts = torch.bincount(y, minlength=2).tolist()
    if 0 in counts:
        raise DataError(
            f"{where}: no row is {names[counts.index(0)] or 'negative'!r}; a label needs at least two classes"
        )


def _plain(label: str) -> str:
    return whole(label) or label
