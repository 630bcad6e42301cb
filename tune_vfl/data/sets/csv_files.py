"""A user's own tables, csv or Parquet: one table shared out over the parties, or one a party, joined on an id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Holders, Loader, Recipe, dataset
from tune_vfl.data.column_notes import Note, grouped
from tune_vfl.data.copies import equal_rows
from tune_vfl.data.encode import Encoding, encode_parties, encode_party
from tune_vfl.data.merging import merge_categories
from tune_vfl.data.options import share_in_order
from tune_vfl.data.own_labels import OwnLabels, own_labels
from tune_vfl.data.partition import Parties, by_list, by_share, check_excluded, without
from tune_vfl.data.reading.files import absolute, locate
from tune_vfl.data.reading.holders import read_holders
from tune_vfl.data.reading.joined import join, require
from tune_vfl.data.reading.table import TextForm, left_out, read_table
from tune_vfl.data.row_groups import row_groups
from tune_vfl.data.row_split import ByTime, held_out
from tune_vfl.data.table_options import CsvOptions
from tune_vfl.errors import DataError, did_you_mean, shortened
from tune_vfl.spec import Training

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import pandas as pd
    import torch


@dataset("csv")
class CsvFiles(Loader[CsvOptions]):
    """Text tables separated by ``,``, ``;`` or tab, plain or gzipped, and Parquet files, in any mixture.

    Numbers are standardized, categories become 0/1 columns (:func:`tune_vfl.data.encode.encode_column`), missing values
    are marked. A nameless first column that only numbers the rows, as pandas writes it, is left out. In one table, the
    party called ``active`` is the label party and has the columns listed for it. With a file a party, the label party
    is the one whose file has the label column. All others are passive, in the order of the spec.
    """

    summary = "your own table: one csv or Parquet file, or one a party joined on an id"
    reference = "-"
    Options = CsvOptions

    def located(self, options: CsvOptions, root: Path) -> CsvOptions:
        """Make the paths absolute."""
        if options.path is not None:
            return options.model_copy(update={"path": str(absolute(options.path, root))})
        files = {
            name: file.model_copy(update={"path": str(absolute(file.path, root))})
            for name, file in options.files.items()
        }
        return options.model_copy(update={"parties": files})

    def load(self, options: CsvOptions, root: Path) -> Dataset:
        """Read the file, or the files."""
        return _load_joined(options, root) if options.files else _load_single(options, root)


def _load_single(options: CsvOptions, root: Path) -> Dataset:
    path = locate(options.path or "", root)
    frame = read_table(path, form=TextForm(options.separator, options.encoding, options.decimal))
    skipped = left_out(frame)
    reserved = options.reserved
    for column, role in reserved.items():
        require(frame, column, role, path)
    check_excluded(options.exclude, list(frame.columns), reserved, str(path))
    features = [c for c in frame.columns if c not in reserved and c not in options.exclude]
    if options.parties is not None:
        lists = {party: without(columns, options.exclude, party, str(path)) for party, columns in options.lists.items()}
        partition = by_list(lists, list(frame.columns), reserved, str(path))
    else:
        if not features:
            left = [*reserved, *options.exclude]
            raise DataError(f"{path}: has no column beside {shortened([repr(c) for c in left])}; a party needs columns")
        share = 0.5 if options.column_split is None else share_in_order(options.column_split)
        partition = by_share(features, share, options.passive_parties, str(path))
    used = {*partition.active, *(c for columns in partition.passive.values() for c in columns)}
    _check_declared(options, used, str(path))
    frame = merge_categories({str(path): frame}, options.categories or {})[str(path)]
    labels = _labels(frame, path, options)
    frame = _taken(frame, labels)
    passive, active, notes = encode_parties(frame, partition, str(path), _typed(options, frame))
    unused = [c for c in features if c not in used]
    notes += [f"excluded: {shortened(options.exclude)}"] if options.exclude else []
    notes += [f"columns of no party, left out: {shortened(unused)}"] if unused else []
    if options.parties is None and options.column_split is None and options.passive_parties == 1:
        notes.append(
            f"who holds which column is not said, so party 'passive' has the first half of them ({len(features)}, in "
            "the file's order); set dataset.parties to {passive: [...], active: [...]}"
        )
    held = [*passive, *([active] if active else [])]
    said = _rows_looked_at(held, labels, [frame] * len(held), options)
    return _dataset((passive, active), labels, frame, path, options, notes=[*skipped, *notes, *said])


def _holders(frame: pd.DataFrame, options: CsvOptions) -> Holders | None:
    """Return the client of each row by the client column, in order of its values; None without such a column."""
    if options.client is None:
        return None
    where = f"{options.path}: client column {options.client!r}"
    return read_holders(frame[options.client], where, options.missing)


def _check_declared(options: CsvOptions, features: Collection[str], where: str) -> None:
    for kind in ("numeric", "categorical", "categories"):
        for column in getattr(options, kind) or ():
            if column not in features and column not in options.exclude:
                near = did_you_mean(column, features)
                raise DataError(
                    f"{where}: column {column!r}, listed as {kind}, is no party's feature; take it off {kind}, or give "
                    f"it to a party.{near}"
                )


def _load_joined(options: CsvOptions, root: Path) -> Dataset:
    files = {name: (locate(f.path, root), f.columns) for name, f in options.files.items()}
    forms = {
        name: TextForm(f.separator or options.separator, f.encoding or options.encoding, f.decimal or options.decimal)
        for name, f in options.files.items()
    }
    joined = join(
        files,
        id_column=options.id or "",
        label=options.label_column,
        exclude=options.exclude,
        missing=options.missing,
        reserved=options.reserved,
        forms=forms,
    )
    own = joined.tables[joined.label_party]
    for column, role in options.reserved.items():
        require(own.frame, column, f"{role} (of the label party's file)", own.path)
    labels = _labels(own.frame, own.path, options)
    notes = [*joined.notes, *([f"excluded: {shortened(options.exclude)}"] if options.exclude else [])]
    columns: list[Note] = []
    places = ", ".join(str(table.path) for table in joined.tables.values())
    _check_declared(options, {c for table in joined.tables.values() for c in table.columns}, places)
    held: dict[str, Columns] = {}
    taken: dict[str, pd.DataFrame] = {}
    frames = {f"{table.path} ({name})": table.frame for name, table in joined.tables.items() if table.columns}
    merged = merge_categories(frames, options.categories or {})
    for name, table in joined.tables.items():
        if table.columns:
            frame = merged[f"{table.path} ({name})"]
            taken[name] = _taken(frame, labels)
            held[name], found = encode_party(
                taken[name], name, table.columns, where=str(table.path), encoding=_typed(options, frame)
            )
            columns.extend(found)
    passive = tuple(held[name] for name in joined.tables if name != joined.label_party)
    parties = (passive, held.get(joined.label_party))
    said = [*grouped(columns), *_rows_looked_at([*held.values()], labels, [*taken.values()], options)]
    return _dataset(parties, labels, _taken(own.frame, labels), own.path, options, notes=[*notes, *said])


def _rows_looked_at(
    parties: Sequence[Columns], labels: OwnLabels, frames: Sequence[pd.DataFrame], options: CsvOptions
) -> list[str]:
    """Return notes on rows that are copies, and on rows of one customer where the spec does not say how to split."""
    groups = row_groups(parties, frames) if options.row_split is None else []
    return [*equal_rows(parties, labels.y, frames), *groups]


def _typed(options: CsvOptions, frame: pd.DataFrame) -> Encoding:
    """Return the options, with the columns whose type in the file is a number among the numeric ones."""
    said = {*options.numeric, *options.categorical, *(options.categories or {})}
    typed = [column for column in frame.attrs.get("numbers", ()) if column not in said]
    return options.model_copy(update={"numeric": (*options.numeric, *typed)}) if typed else options


def _labels(frame: pd.DataFrame, path: Path, options: CsvOptions) -> OwnLabels:
    return own_labels(
        frame[options.label_column],
        options,
        _label_place(path, options),
        above=options.above,
        name="csv",
        as_number=f"label: {{column: {json.dumps(options.label_column)}, above: {{bound}}}}",
    )


def _label_place(path: Path, options: CsvOptions) -> str:
    return f"{path}: label column {options.label_column!r}"


def _taken(frame: pd.DataFrame, labels: OwnLabels) -> pd.DataFrame:
    """Return the rows that are used, before their columns are encoded."""
    return frame if len(labels.rows) == len(frame) else frame.iloc[labels.rows.numpy()]


def _dataset(
    parties: Parties, labels: OwnLabels, frame: pd.DataFrame, path: Path, options: CsvOptions, *, notes: Sequence[str]
) -> Dataset:
    """Put the data set together; ``frame`` has the rows of the label party's file that are used."""
    by = options.row_split
    held = None
    if by is not None:
        column = by.time if isinstance(by, ByTime) else by.group
        held = held_out(by, frame[column], labels.y, labels.class_names, where=str(path), missing=options.missing)
    recipe = Recipe.of("mlp", Training(epochs=30, batch_size=_batch_size(labels.y), lr=1e-3))
    return assemble(
        "csv",
        parties,
        labels.y,
        labels.class_names,
        metric=options.metric,
        recipe=recipe,
        test_rows=held and held.test_rows,
        reserved=held and held.reserved,
        notes=[*notes, *labels.notes, *([held.note] if held else [])],
        where=_label_place(path, options),
        hint=labels.hint,
        holders=_holders(frame, options),
    )


def _batch_size(y: torch.Tensor) -> int:
    # A small table gets about twenty steps an epoch; from 5,000 rows on, batches have 256 rows.
    return next((size for size in (16, 32, 64, 128) if len(y) < 40 * size), 256)
