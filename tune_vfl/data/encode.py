"""Encode columns of text as numbers: numbers stay, categories become 0/1 columns or codes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator

from tune_vfl.data.base import ColumnKind, Columns, Source
from tune_vfl.data.codes import sorted_codes
from tune_vfl.data.column_notes import (
    NAMED,
    Note,
    decimal_commas,
    differing_spellings,
    grouped,
    mostly_numbers,
    texts_among_numbers,
)
from tune_vfl.data.looks import Written, as_written
from tune_vfl.data.missing_words import missing_words
from tune_vfl.data.options import ColumnList, MissingOptions
from tune_vfl.data.partition import ACTIVE, Partition
from tune_vfl.data.precision import fitted, too_large
from tune_vfl.data.reading.marks import is_mark, is_missing
from tune_vfl.data.reading.numbers import as_numbers, declared_numbers
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from tune_vfl.statistics.arrays import Bools, Floats

# So many fields are looked up at once; those of a million rows column by column.
_CELLS = 500_000


class Encoding(MissingOptions):
    """Rules that turn the columns of a text table into numbers."""

    codes: Literal["one_hot", "ordinal"] = Field("one_hot", description="how categories become numbers")
    max_categories: int = Field(32, ge=2, description="one-hot columns of a column; the rarer values share 'other'")
    numeric: ColumnList = Field((), description="columns that must hold numbers; text in them is refused")
    categorical: ColumnList = Field((), description="columns of categories, also where all their values are numbers")

    @model_validator(mode="after")
    def _one_kind(self) -> Encoding:
        both = sorted({*self.numeric} & {*self.categorical})
        if both:
            raise ValueError(f"column {both[0]!r} is listed as numeric and as categorical; list it once")
        return self


@dataclass(frozen=True)
class EncodedColumn:
    """One column of a file, encoded as numbers.

    Attributes:
        x: ``(N, k)`` float32, NaN where a number is missing.
        names: k names.
        scaled: k flags: whether the column is standardized later.
        notes: facts that limit the results.
        kind: number, code or category.
        written: how the column stands in the file.
    """

    x: np.ndarray[Any, np.dtype[np.float32]]
    names: tuple[str, ...]
    scaled: tuple[bool, ...]
    notes: tuple[Note, ...] = ()
    kind: ColumnKind = "number"
    written: Written | None = None


def encode_column(values: pd.Series[Any], name: str, where: str, encoding: Encoding) -> EncodedColumn:
    """Turn one column of text into numbers.

    A column whose known values are all numbers, by the rule of :func:`tune_vfl.data.reading.numbers.as_numbers`, stays
    as it is. Missing values become NaN, and a 0/1 column ``name=missing`` beside it marks them. Any other column is
    categorical: it becomes a 0/1 column for every value in the file (``name=value``), or codes in alphabetic order. 0/1
    columns are not standardized: they are on one scale already, and standardizing would give rare categories large
    values.

    Args:
        values: N strings; the index counts the file's rows from 0.
        name: the column's name.
        where: the file, for messages.
        encoding: the options.

    Raises:
        DataError: for a number that is infinite or does not fit into 32 bits, and text in a column declared numeric.
    """
    return _encode(values, name, where, encoding, _looked_up(values, encoding))


class _Cells(NamedTuple):
    """Texts as they are looked up, of one column or of many: which mean no value, and the numbers; NaN for texts."""

    missing: Bools
    numbers: Floats


def _looked_up(texts: pd.Series[Any], encoding: Encoding) -> _Cells:
    return _Cells(is_missing(texts, encoding.missing), as_numbers(texts))


def _encode(values: pd.Series[Any], name: str, where: str, encoding: Encoding, cells: _Cells) -> EncodedColumn:
    missing = cells.missing
    known = values[~missing] if missing.any() else values
    numbers = declared_numbers(known) if name in encoding.numeric else cells.numbers[~missing]
    notes: tuple[Note, ...] = ()
    marks = _marks(known, numbers) if name not in encoding.categorical else np.zeros(len(known), dtype=bool)
    if marks.any():
        seen = ", ".join(repr(str(mark)) for mark in list(dict.fromkeys(known[marks]))[:NAMED])
        notes = (Note("marks", name, f"{int(marks.sum())} of {len(values)} rows: {seen}"),)
        missing = missing.copy()
        missing[~missing] = marks
        known, numbers = known[~marks], numbers[~marks]
    encoded = _encoded(values, _KnownValues(known, numbers), missing, name, where=where, encoding=encoding)
    written = as_written(values, missing, name, categories=encoded.kind != "number")
    notes = (*notes, *encoded.notes)
    if encoded.kind == "number":
        written = _as_numbers(encoded.x[:, 0], written)
    elif name not in encoding.categorical and written.looks == "decimal commas":
        notes = (*decimal_commas(known, name), *(note for note in notes if note.what != "mixed"))
    else:
        words = missing_words(values, missing, name, encoding.missing, one_hot=encoding.codes == "one_hot")
        notes = (*notes, *differing_spellings(written, name), *words)
        if name not in encoding.categorical:
            written = replace(written, slips=_slips(known, np.isnan(numbers)))
    return replace(encoded, notes=notes, written=written)


class _KnownValues(NamedTuple):
    """Values that are not missing, and the numbers that they are; NaN for texts."""

    texts: pd.Series[Any]
    numbers: Floats


def _marks(known: pd.Series[Any], numbers: Floats) -> Bools:
    """Return ``(n,)`` where a mark of nothing stands in a column whose other values are all numbers, at least one."""
    texts = np.isnan(numbers)
    none = np.zeros(len(known), dtype=bool)
    if not texts.any() or texts.all():
        return none
    marks = texts.copy()
    marks[texts] = is_mark(known[texts])
    return marks if (marks == texts).all() else none


def _slips(known: pd.Series[Any], slips: Bools) -> str:
    """Return the first values that make categories of a column that is mostly numbers, with their rows."""
    if not mostly_numbers(~slips):
        return ""
    named = known[slips].sort_index().iloc[:NAMED]
    shown = ", ".join(f"{value!r} in row {row + 1}" for row, value in zip(named.index.tolist(), named, strict=True))
    more = f", and {int(slips.sum()) - NAMED} more" if slips.sum() > NAMED else ""
    return f"{shown}{more}"


def _as_numbers(x: np.ndarray[Any, np.dtype[np.float32]], written: Written) -> Written:
    """Count the values of a column of numbers as numbers: ``1`` and ``1.0`` are one."""
    counts = np.unique(x[~np.isnan(x)], return_counts=True)[1]
    common = max(int(counts.max(initial=0)), len(x) - int(counts.sum())) / len(x)
    return replace(written, distinct=len(counts), common=common)


def _encoded(
    values: pd.Series[Any], held: _KnownValues, missing: Bools, name: str, *, where: str, encoding: Encoding
) -> EncodedColumn:
    known, numbers = held
    numeric = ~np.isnan(numbers)
    if numeric.all() and name not in encoding.categorical:
        return _numeric(numbers, missing, name, where, rows=values.index)
    if name in encoding.numeric:
        slip = int(np.argmin(numeric))
        raise DataError(
            f"{where}: column {name!r} is declared numeric, but holds {known.iloc[slip]!r} in row "
            f"{known.index[slip] + 1}; correct it, leave the field empty, or take the column off numeric"
        )
    notes = () if name in encoding.categorical else texts_among_numbers(known, numeric, name)
    texts = values.to_numpy(dtype=object)
    if encoding.codes == "ordinal":
        codes, _ = sorted_codes(texts[~missing])
        return _as("code", _numeric(codes.astype(np.float64), missing, name, where, rows=values.index), notes)
    return _as("category", _one_hot(texts, missing, name, encoding.max_categories), notes)


def _as(kind: ColumnKind, block: EncodedColumn, notes: tuple[Note, ...]) -> EncodedColumn:
    return EncodedColumn(block.x, block.names, block.scaled, (*notes, *block.notes), kind)


def _numeric(
    numbers: np.ndarray[Any, Any], missing: Bools, name: str, where: str, *, rows: pd.Index[Any]
) -> EncodedColumn:
    broken = too_large(numbers)
    if broken.any():
        place = int(np.argmax(broken))
        raise DataError(
            f"{where}: column {name!r} holds {numbers[place]:g} in row {rows[~missing][place] + 1}, which is not "
            "finite in 32 bits; correct it or leave the field empty"
        )
    x = np.full(len(missing), np.nan, dtype=np.float32)
    x[~missing], merged = fitted(numbers)
    notes = (Note("merged", name, f"{merged[0]} of {merged[1]} values are left"),) if merged else ()
    if not missing.any():
        return EncodedColumn(x[:, None], (name,), (True,), notes)
    columns = np.stack([x, missing.astype(np.float32)], axis=1)
    notes = (Note("missing", name, f"{int(missing.sum())} of {len(missing)} rows"), *notes)
    return EncodedColumn(columns, (name, f"{name}=missing"), (True, False), notes)


def _one_hot(texts: np.ndarray[Any, Any], missing: Bools, name: str, most: int) -> EncodedColumn:
    labels = np.where(missing, "missing", texts).astype(object)
    codes, categories = sorted_codes(labels[~missing])
    counts = np.bincount(codes, minlength=len(categories))
    notes: tuple[Note, ...] = ()
    if len(categories) > most:
        # The most frequent categories stay; of equally frequent ones, the first in the alphabet.
        kept = np.lexsort((np.arange(len(categories)), -counts))[: most - 1]
        labels[~missing] = np.where(np.isin(codes, kept), labels[~missing], "other")
        notes = (Note("many", name, f"{len(categories)} values"),)
    places, found = sorted_codes(labels)
    x = (places[:, None] == np.arange(len(found))).astype(np.float32)
    return EncodedColumn(x, tuple(f"{name}={value}" for value in found), (False,) * len(found), notes)


def encode_party(
    frame: pd.DataFrame, party: str, columns: Sequence[str], where: str, encoding: Encoding
) -> tuple[Columns, tuple[Note, ...]]:
    """Encode one party's columns of a text frame.

    Returns:
        The party's :class:`Columns`, and notes.

    Raises:
        DataError: naming the file and the column.
    """
    blocks = [*_encoded_columns(frame, columns, where, encoding)]
    held = Columns(
        party=party,
        x=torch.from_numpy(np.concatenate([b.x for b in blocks], axis=1)),
        names=tuple(name for b in blocks for name in b.names),
        scaled=torch.tensor([s for b in blocks for s in b.scaled]),
        sources=tuple(Source(c, b.kind, len(b.names), b.written) for c, b in zip(columns, blocks, strict=True)),
    )
    return held, tuple(note for b in blocks for note in b.notes)


def _encoded_columns(
    frame: pd.DataFrame, columns: Sequence[str], where: str, encoding: Encoding
) -> Iterator[EncodedColumn]:
    """Encode columns, whose texts are looked up many columns at once: of thousands most of the time goes into calls."""
    import pandas as pd

    rows = len(frame)
    at_once = max(1, _CELLS // rows)
    for begin in range(0, len(columns), at_once):
        texts = [frame[column] for column in columns[begin : begin + at_once]]
        cells = _looked_up(pd.concat(texts, ignore_index=True), encoding)
        for k, values in enumerate(texts):
            here = slice(k * rows, (k + 1) * rows)
            own = _Cells(cells.missing[here], cells.numbers[here])
            yield _encode(values, columns[begin + k], where, encoding, own)


def encode_parties(
    frame: pd.DataFrame, partition: Partition, where: str, encoding: Encoding
) -> tuple[tuple[Columns, ...], Columns | None, list[str]]:
    """Encode the columns of all parties that hold a share of one file, and return them with notes.

    Raises:
        DataError: naming the file and the column.
    """
    notes: list[Note] = []

    def party(name: str, columns: Sequence[str]) -> Columns:
        held, found = encode_party(frame, name, columns, where, encoding)
        notes.extend(found)
        return held

    passive = tuple(party(name, columns) for name, columns in partition.passive.items())
    active = party(ACTIVE, partition.active) if partition.active else None
    return passive, active, grouped(notes)
