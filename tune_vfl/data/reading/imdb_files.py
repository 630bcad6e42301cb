"""The film reviews of IMDB: the official folder or archive of one text file each, or all in one csv."""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tune_vfl.data.reading.files import find, find_one, holds, locate, readable
from tune_vfl.data.reading.pictures import visible
from tune_vfl.data.reading.table import read_table
from tune_vfl.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

_CSV = "imdb/imdb_reviews.csv.xz"
_FOLDERS = ("aclImdb", "imdb/aclImdb")
_ARCHIVES = ("aclImdb_v1.tar.gz", "imdb/aclImdb_v1.tar.gz")
_ADDRESS = (
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz (84,125,825 bytes, MD5 "
    "7c2ac02c03563afcf9b574c7e56c153a), unpacked or not"
)
_COLUMNS = ("split", "label", "review")
_PARTS, _LABELS = ("train", "test"), ("neg", "pos")
_MEMBER = re.compile(r"(?:.*/)?aclImdb/(train|test)/(neg|pos)/([^/]+\.txt)")
_OFFICIAL = 25_000


@dataclass(frozen=True)
class Reviews:
    """Texts and labels of the reviews.

    Attributes:
        path: the file or folder.
        texts: N reviews.
        y: ``(N,)`` 1 for a positive review.
        is_test: ``(N,)`` bool.
        notes: facts that limit the results.
        labels: where the labels are, for messages.
    """

    path: Path
    texts: list[str]
    y: np.ndarray[Any, np.dtype[np.int64]]
    is_test: np.ndarray[Any, np.dtype[np.bool_]]
    notes: tuple[str, ...] = ()
    labels: str = "its folders neg and pos"


def read_reviews(root: Path) -> Reviews:
    """Read ``imdb/imdb_reviews.csv.xz``, else the folder ``aclImdb``, else the archive ``aclImdb_v1.tar.gz``.

    Raises:
        DataError: when there is none of them, or one is broken.
    """
    if holds(root, _CSV):
        return _from_csv(find(root, _CSV))
    folder = next((root / place for place in _FOLDERS if holds(root, place)), None)
    if folder is not None:
        return _ordered(folder, _from_folder(folder, root))
    archive = find_one(root, _ARCHIVES, _ADDRESS)
    return _ordered(archive, _from_archive(archive))


def _ordered(path: Path, found: dict[tuple[str, str, str], str]) -> Reviews:
    """Sort reviews by part (training first), label and name, so that the order of the files does not matter."""
    keys = sorted(found, key=lambda key: (_PARTS.index(key[0]), _LABELS.index(key[1]), key[2]))
    counts = {(part, label): sum(key[:2] == (part, label) for key in keys) for part in _PARTS for label in _LABELS}
    for (part, label), count in counts.items():
        if not count:
            raise DataError(f"{path}: holds no reviews of {part}/{label}; fetch {_ADDRESS} again")
    sizes = tuple(sum(counts[part, label] for label in _LABELS) for part in _PARTS)
    notes = () if sizes == (_OFFICIAL, _OFFICIAL) else ("{:,} + {:,} of 25,000 + 25,000 reviews".format(*sizes),)
    return Reviews(
        path,
        [found[key] for key in keys],
        np.array([_LABELS.index(key[1]) for key in keys], dtype=np.int64),
        np.array([key[0] == "test" for key in keys]),
        notes,
    )


def _from_folder(folder: Path, root: Path) -> dict[tuple[str, str, str], str]:
    found = {}
    for part in _PARTS:
        for label in _LABELS:
            place = folder / part / label
            if not place.is_dir():
                raise DataError(f"{place}: no such folder; unpack aclImdb_v1.tar.gz again")
            for file in visible(locate(str(place), root, folder=True)):
                if file.suffix == ".txt":
                    with readable(file):
                        found[part, label, file.name] = file.read_text(encoding="utf-8")
    return found


def _from_archive(path: Path) -> dict[tuple[str, str, str], str]:
    found = {}
    try:
        with readable(path), tarfile.open(path) as archive:
            for member in archive:
                named = _MEMBER.fullmatch(member.name)
                content = archive.extractfile(member) if named and member.isfile() else None
                if named and content is not None:
                    found[named[1], named[2], named[3]] = content.read().decode("utf-8")
    except tarfile.TarError as error:
        raise DataError(f"{path}: is corrupt or cut off ({error}); fetch {_ADDRESS} again") from error
    return found


def _from_csv(path: Path) -> Reviews:
    frame = read_table(path)
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise DataError(f"{path}: has no column {missing[0]!r}; expected {', '.join(_COLUMNS)} among its columns")
    is_test = _one_of(frame, "split", _PARTS, path) == 1
    y = _one_of(frame, "label", ("0", "1"), path)
    if is_test.all() or not is_test.any():
        raise DataError(f"{path}: column 'split' is the same in all rows; expected both train and test")
    return Reviews(path, frame["review"].tolist(), y, is_test, labels="label column 'label'")


def _one_of(
    frame: pd.DataFrame, column: str, allowed: tuple[str, ...], path: Path
) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes = np.select([frame[column] == value for value in allowed], range(len(allowed)), default=-1)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise DataError(
            f"{path}: column {column!r} holds {frame[column].iloc[row]!r} in row {row + 1}, expected "
            f"{' or '.join(allowed)}; correct the row or fetch the file again"
        )
    return codes.astype(np.int64)
