"""A user's own tables, csv or Parquet: one table shared out over the parties, or one a party, joined on an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Holders, Loader, Recipe, dataset
from tune_vfl.data.encode import Encoding, Note, encode_parties, encode_party, grouped
from tune_vfl.data.options import Column, ColumnList, LabelOptions, MetricChoice, SplitChoice, share_in_order
from tune_vfl.data.own_labels import own_labels
from tune_vfl.data.partition import by_list, by_share, check_excluded, shown, without
from tune_vfl.data.reading.files import absolute, locate
from tune_vfl.data.reading.holders import read_holders
from tune_vfl.data.reading.joined import join, require
from tune_vfl.data.reading.table import left_out, read_table
from tune_vfl.errors import DataError, did_you_mean
from tune_vfl.spec import Named, Strict, Training

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import pandas as pd
    import torch


class PartyFile(Strict):
    """One party's own file."""

    path: str = Field(description="the party's csv or Parquet file")
    columns: ColumnList | None = Field(None, description="its features; by default all but the id and the label")


def _kind(value: Any) -> str:
    return "file" if isinstance(value, (dict, PartyFile)) else "columns"


Party = Annotated[Annotated[ColumnList, Tag("columns")] | Annotated[PartyFile, Tag("file")], Discriminator(_kind)]


class CsvOptions(Encoding, LabelOptions):
    """Where a user's table is and which party holds which columns."""

    label: Column = Field(description="the label column")
    path: str | None = Field(
        None, description="the csv (.gz is fine) or Parquet file, from the working directory or the data root"
    )
    id: Column | None = Field(None, description="the column that joins the parties' files; never a feature")
    client: Column | None = Field(
        None, description="the column that says whose a row is, for a horizontal federation; never a feature"
    )
    exclude: ColumnList = Field((), description="columns that no party has, wherever they are listed")
    parties: dict[str, Party] | None = Field(None, description="columns by party, or a file by party")
    split: SplitChoice | None = Field(
        None, description="share of the columns, in file order, of the passive side; 0.5; or {importance: share}"
    )
    passive_parties: int = Field(1, ge=1, description="number of passive parties that divide that share")
    metric: MetricChoice = Field("auto", description="utility metric; auto: AUC, accuracy, top-5 above 50 classes")

    @property
    def files(self) -> dict[str, PartyFile]:
        """The parties with a file of their own."""
        return {name: p for name, p in (self.parties or {}).items() if isinstance(p, PartyFile)}

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """The parties with listed columns."""
        return {name: p for name, p in (self.parties or {}).items() if not isinstance(p, PartyFile)}

    @model_validator(mode="after")
    def _one_shape(self) -> CsvOptions:
        if self.parties is not None and (self.split is not None or self.passive_parties != 1):
            raise ValueError("parties says who holds what; leave out split and passive_parties")
        if self.files and self.lists:
            raise ValueError("parties mixes files and lists of columns; give every party a file, or path and lists")
        if self.files and self.path is not None:
            raise ValueError("path is for one file, but the parties have files of their own; leave path out")
        if self.files and self.client is not None:
            raise ValueError("client is for one file of all rows, but the parties have files of their own")
        if self.client is not None and self.client in (self.label, self.id):
            raise ValueError(f"client is {self.client!r}, which is the label or the id; give a column of its own")
        if self.files and self.id is None:
            raise ValueError("id is missing: name the column that joins the parties' files")
        if not self.files and self.path is None:
            raise ValueError("path is missing: name the csv, or give every party a path of its own")
        return self


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
    frame = read_table(path)
    roles = {"the label": options.label, "the id": options.id, "the client": options.client}
    reserved = {column: role for role, column in roles.items() if column is not None}
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
            raise DataError(f"{path}: has no column beside {shown([repr(c) for c in left])}; a party needs columns")
        share = 0.5 if options.split is None else share_in_order(options.split)
        partition = by_share(features, share, options.passive_parties, str(path))
    used = {*partition.active, *(c for columns in partition.passive.values() for c in columns)}
    _check_declared(options, used, str(path))
    passive, active, notes = encode_parties(frame, partition, str(path), options)
    unused = [c for c in features if c not in used]
    notes += [f"excluded: {shown(options.exclude)}"] if options.exclude else []
    notes += [f"columns of no party, left out: {shown(unused)}"] if unused else []
    if options.parties is None and options.split is None and options.passive_parties == 1:
        notes.append(
            f"who holds which column is not said, so party 'passive' has the first half of them ({len(features)}, in "
            "the file's order); set dataset.parties to {passive: [...], active: [...]}"
        )
    notes = [*left_out(frame), *notes]
    return _dataset(
        (passive, active), frame[options.label], path, options, notes=notes, holders=_holders(frame, options)
    )


def _holders(frame: pd.DataFrame, options: CsvOptions) -> Holders | None:
    """Return the client of each row by the client column, in order of its values; None without such a column."""
    if options.client is None:
        return None
    where = f"{options.path}: client column {options.client!r}"
    return read_holders(frame[options.client], where, options.missing)


def _check_declared(options: CsvOptions, features: Collection[str], where: str) -> None:
    for kind in ("numeric", "categorical"):
        for column in getattr(options, kind):
            if column not in features and column not in options.exclude:
                near = did_you_mean(column, features)
                raise DataError(
                    f"{where}: column {column!r}, listed as {kind}, is no party's feature; take it off {kind}, or give "
                    f"it to a party.{near}"
                )


def _load_joined(options: CsvOptions, root: Path) -> Dataset:
    files = {name: (locate(f.path, root), f.columns) for name, f in options.files.items()}
    joined = join(
        files, id_column=options.id or "", label=options.label, exclude=options.exclude, missing=options.missing
    )
    notes = [*joined.notes, *([f"excluded: {shown(options.exclude)}"] if options.exclude else [])]
    columns: list[Note] = []
    places = ", ".join(str(table.path) for table in joined.tables.values())
    _check_declared(options, {c for table in joined.tables.values() for c in table.columns}, places)
    held: dict[str, Columns] = {}
    for name, table in joined.tables.items():
        if table.columns:
            held[name], found = encode_party(table.frame, name, table.columns, where=str(table.path), encoding=options)
            columns.extend(found)
    passive = tuple(held[name] for name in joined.tables if name != joined.label_party)
    own = joined.tables[joined.label_party]
    parties = (passive, held.get(joined.label_party))
    return _dataset(parties, own.frame[options.label], own.path, options, notes=[*notes, *grouped(columns)])


def _dataset(
    parties: tuple[tuple[Columns, ...], Columns | None],
    labels: pd.Series[Any],
    path: Path,
    options: CsvOptions,
    *,
    notes: Sequence[str],
    holders: Holders | None = None,
) -> Dataset:
    where = f"{path}: label column {options.label!r}"
    found = own_labels(labels, options, where)
    recipe = Recipe(model=Named(name="mlp"), training=Training(epochs=30, batch_size=_batch_size(found.y), lr=1e-3))
    return assemble(
        "csv",
        parties,
        found.y,
        found.class_names,
        metric=options.metric,
        recipe=recipe,
        notes=[*notes, *found.notes],
        where=where,
        hint=found.hint,
        holders=holders,
    )


def _batch_size(y: torch.Tensor) -> int:
    # A small table gets about twenty steps an epoch; from 5,000 rows on, batches have 256 rows.
    return next((size for size in (16, 32, 64, 128) if len(y) < 40 * size), 256)
