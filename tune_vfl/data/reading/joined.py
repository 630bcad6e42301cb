"""One file a party, joined on an id. Rows may be in any order; a row whose id is not in every file is left out."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tune_vfl.data.partition import ACTIVE, check_excluded, check_listed, without
from tune_vfl.data.reading.marks import is_missing
from tune_vfl.data.reading.table import TextForm, left_out, read_table
from tune_vfl.data.spellings import differing_ids
from tune_vfl.errors import DataError, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

# From so many times the ids that all files have on, a file loses most of its rows.
_MOST = 2


@dataclass(frozen=True, eq=False)
class PartyTable:
    """One party's file.

    Attributes:
        path: where it is.
        frame: its rows as text, the index counting the file's rows from 0.
        columns: its features.
    """

    path: Path
    frame: pd.DataFrame
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """The parties' files, restricted to their common ids, in the order of the label party's file."""

    tables: dict[str, PartyTable]
    label_party: str
    notes: tuple[str, ...]


def require(frame: pd.DataFrame, column: str, role: str, path: Path, remedy: str = "") -> None:
    """Check that a file has a column.

    Args:
        frame: its rows.
        column: the name that it must have.
        role: what the column is, for the message.
        path: where the file is.
        remedy: the end of the message.

    Raises:
        DataError: naming the nearest column and those that the file has.
    """
    if column in frame.columns:
        return
    header = [str(c) for c in frame.columns]
    by_lower = {name.lower(): name for name in header}
    near = difflib.get_close_matches(column.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[near[0]]!r}?" if near else ";"
    alone = "; if these are several, separate columns by , ; or tab, or set `separator`" if len(header) == 1 else ""
    raise DataError(
        f"{path}: the header has no column {column!r}, {role}{hint} it has: {shortened(header)}{alone}{remedy}"
    )


def join(
    files: Mapping[str, tuple[Path, Sequence[str] | None]],
    *,
    id_column: str,
    label: str,
    exclude: Sequence[str] = (),
    missing: Sequence[str] = (),
    reserved: Mapping[str, str] = {},
    forms: Mapping[str, TextForm] = {},
) -> Joined:
    """Read and join one file a party.

    Args:
        files: path and listed columns by party; None takes all columns but the id and the label.
        id_column: the column that joins them; a row without an id is left out. Where all ids of a file end in ``.0``,
            as pandas writes whole numbers when some are missing, that ending is ignored.
        label: the label column; the party whose file has it is the label party.
        exclude: columns that no party has, in whichever file they are.
        missing: texts that mean a missing id, beside the usual ones.
        reserved: columns that are no features beside the id and the label, with their roles.
        forms: how the text files are written, by party.

    Raises:
        DataError: when no file or two files have the label, a file lacks the id or repeats one, a passive party is
            without columns, or no id is in all files.
    """
    frames = {name: read_table(path, form=forms.get(name, TextForm())) for name, (path, _) in files.items()}
    paths = {name: path for name, (path, _) in files.items()}
    label_party = _label_party(frames, paths, label)
    for name, frame in frames.items():
        require(frame, id_column, "the id", paths[name], "; it must have one name in all files: rename it in this one")
        frame[id_column] = _ids(frame[id_column], missing)
        _check_unique(frame[id_column], paths[name], id_column)
    ids = _known_ids(frames, paths, id_column, label_party)
    shared = set.intersection(*ids.values())
    spelled = differing_ids(ids, shared)
    if not shared:
        found = "; ".join(f"{paths[n].name} has {shortened(list(f[id_column]), 3)}" for n, f in frames.items())
        hint = f": {spelled}" if spelled else ""
        raise DataError(f"{paths[label_party]}: no id of column {id_column!r} is in every party's file ({found}){hint}")
    order = [i for i in frames[label_party][id_column] if i in shared]
    reserved = {**reserved, id_column: "the id", label: "the label"}
    everywhere = list(dict.fromkeys(c for frame in frames.values() for c in frame.columns))
    check_excluded(exclude, everywhere, reserved, ", ".join(str(path) for path in paths.values()))
    tables = {
        name: PartyTable(
            path=paths[name],
            frame=_in_order(frame, id_column, order),
            columns=without(
                _features(name, frame, files[name], reserved, may_be_empty=name == label_party),
                exclude,
                ACTIVE if name == label_party else name,
                str(paths[name]),
            ),
        )
        for name, frame in frames.items()
    }
    notes = [note for frame in frames.values() for note in left_out(frame)]
    notes += _dropped(frames, paths, id_column, len(order))
    return Joined(tables, label_party, (*notes, *([spelled] if spelled else _overlap(ids, shared))))


def _known_ids(
    frames: Mapping[str, pd.DataFrame], paths: Mapping[str, Path], id_column: str, label_party: str
) -> dict[str, set[str]]:
    """Return the known ids by file, the label party's last; files of one name are told apart by their parties."""
    names = sorted(frames, key=lambda name: name == label_party)
    return {f"{paths[name].name} ({name})": set(frames[name][id_column]) - {""} for name in names}


def _label_party(frames: Mapping[str, pd.DataFrame], paths: Mapping[str, Path], label: str) -> str:
    holders = [name for name, frame in frames.items() if label in frame.columns]
    listed = ", ".join(str(path) for path in paths.values())
    if not holders:
        raise DataError(f"{listed}: none of these headers has the label column {label!r}; correct label, or the files")
    if len(holders) > 1:
        raise DataError(
            f"{' and '.join(str(paths[h]) for h in holders)}: both hold the label column {label!r}, which only one "
            "party may know; remove it from all files but one"
        )
    if len(frames) == 1:
        raise DataError(f"{listed}: no passive party; give at least one party beside the label party a file of its own")
    return holders[0]


def _ids(column: pd.Series[str], missing: Sequence[str]) -> pd.Series[str]:
    ids = column.where(~is_missing(column, missing), "")
    known = ids[ids != ""]
    return ids.str.removesuffix(".0") if known.str.fullmatch(r"[0-9]+\.0").all() else ids


def _check_unique(ids: pd.Series[str], path: Path, id_column: str) -> None:
    repeated = ids[ids.duplicated() & (ids != "")]
    if len(repeated):
        raise DataError(
            f"{path}: column {id_column!r} repeats {repeated.nunique()} ids (such as {repeated.iloc[0]!r} in row "
            f"{repeated.index[0] + 1}); an id must name one row"
        )


def _features(
    name: str,
    frame: pd.DataFrame,
    file: tuple[Path, Sequence[str] | None],
    reserved: Mapping[str, str],
    *,
    may_be_empty: bool,
) -> tuple[str, ...]:
    path, listed = file
    header = [str(c) for c in frame.columns]
    columns = [c for c in header if c not in reserved] if listed is None else list(listed)
    check_listed(name, columns, header, reserved, str(path))
    if not columns and not may_be_empty:
        raise DataError(f"{path}: party {name!r} has no columns beside the id; a passive party needs at least one")
    return tuple(columns)


def _in_order(frame: pd.DataFrame, id_column: str, order: Sequence[str]) -> pd.DataFrame:
    place = {i: row for row, i in enumerate(frame[id_column])}
    return frame.iloc[[place[i] for i in order]]


def _dropped(
    frames: Mapping[str, pd.DataFrame], paths: Mapping[str, Path], id_column: str, kept: int
) -> tuple[str, ...]:
    def said(name: str, frame: pd.DataFrame) -> str:
        nameless = int((frame[id_column] == "").sum())
        why = f" ({nameless} of them without an id)" if nameless else ""
        dropped = f"{len(frame) - kept} of {len(frame)} rows"
        return f"{paths[name].name}: {dropped} have no partner in every file{why} and are left out"

    return tuple(said(name, frame) for name, frame in frames.items() if len(frame) > kept)


def _overlap(ids: Mapping[str, set[str]], shared: set[str]) -> Iterator[str]:
    """Yield sentences on files whose ids are a part of another's, and on files most of whose ids another one lacks.

    Args:
        ids: known ids by file.
        shared: those that all files have, with which a study trains.
    """
    for file, own in ids.items():
        larger = [other for other, known in ids.items() if own < known]
        if larger:
            beyond = shortened([f"{other}, which has {len(ids[other]) - len(own):,} more" for other in larger])
            yield f"{file}: its {len(own):,} ids are a part of those of {beyond}; training is on rows of all files"
    for file, own in ids.items():
        if len(own) > _MOST * len(shared):
            lacking = max((other for other in ids if other != file), key=lambda other: len(own - ids[other]))
            yield (
                f"most rows of {file} are lost, {len(own) - len(shared):,} of {len(own):,}: {lacking} lacks "
                f"{len(own - ids[lacking]):,} of their ids; is it a sample, a part or an export of another day?"
            )
