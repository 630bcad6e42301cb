"""Options of a user's own tables: where they are, how they are written, which party holds which columns."""

from __future__ import annotations

import codecs
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from tune_vfl.data.encode import Encoding
from tune_vfl.data.label_options import LabelOptions, Threshold
from tune_vfl.data.options import ByImportance, Column, ColumnList, MetricChoice, SplitChoice
from tune_vfl.data.row_split import ByGroup, ByTime
from tune_vfl.spec import Strict


def _one_character(value: str) -> str:
    if len(value) != 1 or value in '\r\n"':
        raise ValueError("expected one character in quotes, such as '|' or \"\\t\"")
    return value


def _known_encoding(value: str) -> str:
    try:
        if codecs.lookup(value).name and "".encode(value) is not None:
            return value
    except LookupError as error:
        raise ValueError(
            f"unknown encoding {value!r}; usual ones are utf-8, cp1252, latin-1, utf-16, gb18030"
        ) from error
    return value


def _split_kind(value: Any) -> str:
    """Name the kind of a split: of columns by a share, or of rows by a column."""
    if isinstance(value, ByTime) or (isinstance(value, dict) and "time" in value):
        return "<time>"
    return "<group>" if isinstance(value, ByGroup) or (isinstance(value, dict) and "group" in value) else "<columns>"


def _label_kind(value: Any) -> str:
    return "<number>" if isinstance(value, (dict, Threshold)) else "<name>"


Split = Annotated[
    Annotated[SplitChoice, Tag("<columns>")] | Annotated[ByTime, Tag("<time>")] | Annotated[ByGroup, Tag("<group>")],
    Discriminator(_split_kind),
]
Label = Annotated[Annotated[Column, Tag("<name>")] | Annotated[Threshold, Tag("<number>")], Discriminator(_label_kind)]
Separator = Annotated[str, AfterValidator(_one_character)]
TextEncoding = Annotated[str, AfterValidator(_known_encoding)]


class TextFormat(Strict):
    """The format of a text table; for Parquet only the decimal sign of texts counts."""

    separator: Separator | None = Field(None, description="the character between fields; none: comma, semicolon or tab")
    encoding: TextEncoding | None = Field(None, description="the encoding of the text, such as cp1252; none: UTF-8")
    decimal: Literal[".", ","] | None = Field(None, description="the decimal sign: ',' reads 4,5 as 4.5; none: a point")


class PartyFile(TextFormat):
    """One party's own file."""

    path: str = Field(description="the party's csv, Parquet or Feather file")
    columns: ColumnList | None = Field(None, description="its features; by default all but the id and the label")


def _kind(value: Any) -> str:
    return "<file>" if isinstance(value, (dict, PartyFile)) else "<columns>"


Party = Annotated[Annotated[ColumnList, Tag("<columns>")] | Annotated[PartyFile, Tag("<file>")], Discriminator(_kind)]


class CsvOptions(Encoding, LabelOptions, TextFormat):
    """Where a user's table is and which party holds which columns."""

    label: Label = Field(description="the label column; or {column: NAME, above: NUMBER} for two classes")
    path: str | None = Field(
        None, description="the csv (packed too), Parquet or Feather file, from the working directory or the data root"
    )
    id: Column | None = Field(None, description="the column that joins the parties' files; never a feature")
    client: Column | None = Field(
        None, description="the column that says whose a row is, for a horizontal federation; never a feature"
    )
    exclude: ColumnList = Field((), description="columns that no party has, wherever they are listed")
    categories: dict[Column, dict[Column, Column]] | None = Field(
        None, description="values of columns that count as another: {COLUMN: {value in the file: category}}"
    )
    parties: dict[str, Party] | None = Field(None, description="columns by party, or a file by party")
    split: Split | None = Field(
        None,
        description="share of the columns, in file order, of the passive side; 0.5; or {importance: share}; or "
        "the test rows of every seed: {time: COLUMN}, the latest 30%, whose later half is the reserve, or "
        "{group: COLUMN}, so that no customer (any value of the column) is in two of training, test and reserve",
    )
    passive_parties: int = Field(1, ge=1, description="number of passive parties that divide that share")
    metric: MetricChoice = Field("auto", description="utility metric; auto: AUC, accuracy, top-5 above 50 classes")

    @property
    def label_column(self) -> str:
        """The name of the label column."""
        return self.label.column if isinstance(self.label, Threshold) else self.label

    @property
    def above(self) -> float | None:
        """The bound above which a number is the positive class; None where labels are classes."""
        return self.label.above if isinstance(self.label, Threshold) else None

    @property
    def row_split(self) -> ByTime | ByGroup | None:
        """The split of rows into training and test by a column; None for a random one."""
        return self.split if isinstance(self.split, (ByTime, ByGroup)) else None

    @property
    def column_split(self) -> float | ByImportance | None:
        """The split of columns between the parties if no list assigns them."""
        return None if isinstance(self.split, (ByTime, ByGroup)) else self.split

    @property
    def reserved(self) -> dict[str, str]:
        """Columns that are no features, with their roles."""
        by = self.row_split
        of_split = None if by is None else by.time if isinstance(by, ByTime) else by.group
        roles = {"the label": self.label_column, "the id": self.id, "the client": self.client}
        return {c: role for role, c in {**roles, "the column of split": of_split}.items() if c is not None}

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
        if self.parties is not None and (self.column_split is not None or self.passive_parties != 1):
            raise ValueError("parties says who holds what; leave out split and passive_parties")
        if self.files and self.lists:
            raise ValueError("parties mixes files and lists of columns; give every party a file, or path and lists")
        if self.files and self.path is not None:
            raise ValueError(
                "a table (path) is for a study of one file, but the parties have files of their own; leave it out"
            )
        if self.files and self.client is not None:
            raise ValueError("client is for one file of all rows, but the parties have files of their own")
        if self.client is not None and self.client in (self.label_column, self.id):
            raise ValueError(f"client is {self.client!r}, which is the label or the id; give a column of its own")
        if self.above is not None and (self.positive is not None or self.classes):
            raise ValueError(
                "label says above which number a row is positive; leave out positive, negative and classes"
            )
        if self.files and self.id is None:
            raise ValueError("id is missing: name the column that joins the parties' files")
        if not self.files and self.path is None:
            raise ValueError("path is missing: name the csv, or give every party a path of its own")
        return self
