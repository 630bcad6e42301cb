"""Odd files: other formats, encodings, separators, what is cut off, and parts of the rows that lack a class."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.helpers.odd_tables import Odd, Seen, judged
from tune_vfl.data import load
from tune_vfl.errors import TuneVflError
from tune_vfl.spec import Named

ROWS = [("t", "y"), *[("x\u00e9"[k % 2], str(k // 20)) for k in range(40)]]
TEXT = "\n".join(",".join(row) for row in ROWS) + "\n"
PLAIN = TEXT.encode()
FRAME = pd.DataFrame(ROWS[1:], columns=["t", "y"])


def _written(kind: str, **how: Any) -> bytes:
    """Return the table as pandas writes it in a format."""
    held = io.BytesIO()
    getattr(FRAME, f"to_{kind}")(held, **how)
    return held.getvalue()


def _zip(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in names:
            archive.writestr(name, PLAIN)
    return held.getvalue()


def _stata_of_2005() -> bytes:
    held = io.BytesIO()
    FRAME.assign(t="x").to_stata(held, write_index=False, version=114)
    return held.getvalue()


def _sqlite() -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE t (a)")
        return base.serialize()


PARQUET = _written("parquet", index=False)
FILES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "UTF-8": (PLAIN, ()),
    "a byte order mark": (TEXT.encode("utf-8-sig"), ()),
    "lines of Windows": (TEXT.replace("\n", "\r\n").encode(), ()),
    "lines of an old Mac": (TEXT.replace("\n", "\r").encode(), ()),
    "no line end at the end": (PLAIN.rstrip(), ()),
    "empty lines": (TEXT.replace("\n", "\n\n").encode(), ()),
    "all fields in quotes": (FRAME.to_csv(index=False, quoting=1).encode(), ()),
    "semicolons": (TEXT.replace(",", ";").encode(), ()),
    "tabs": (TEXT.replace(",", "\t").encode(), ()),
    "gz": (gzip.compress(PLAIN), ()),
    "xz": (lzma.compress(PLAIN), ()),
    "bz2": (bz2.compress(PLAIN), ()),
    "zip": (_zip("a.csv"), ()),
    "Parquet": (PARQUET, ()),
    "Feather": (_written("feather"), ()),
    "an index of pandas": (FRAME.to_csv().encode(), ()),
    "cp1252": (TEXT.encode("cp1252"), ("encoding", "line 3")),
    "UTF-16": (TEXT.encode("utf-16"), ("encoding",)),
    "one foreign byte": (PLAIN.replace(b"x,1", b"\xe9,1", 1), ("line 22", "encoding")),
    "pipes": (TEXT.replace(",", "|").encode(), ("separator",)),
    "a null byte": (PLAIN.replace(b"x,0", b"x\0,0", 1), ("null",)),
    "a line for Excel": (b"sep=,\n" + PLAIN, ("sep=",)),
    "a field too many": (PLAIN.replace(b"x,1", b"x,1,2", 1), ("line 22", "3 fields")),
    "an open quote": (PLAIN.replace(b"x,1", b'"x,1', 1), ("quotes",)),
    "a name twice": (PLAIN.replace(b"t,y", b"y,y", 1), ("2 times",)),
    "a column without a name": (PLAIN.replace(b"t,y", b"t,", 1), ("no name",)),
    "a header alone": (b"t,y\n", ("no rows",)),
    "nothing": (b"", ("is empty",)),
    "blanks alone": (b"\n \n", ("empty",)),
    "gz cut off": (gzip.compress(PLAIN)[:-20], ("cut off",)),
    "Parquet cut off": (PARQUET[:-20], ("cut off",)),
    "gz of Parquet": (gzip.compress(PARQUET), ("Parquet", "packed once more")),
    "a zip of two files": (_zip("a.csv", "b.csv"), ("zip of 2 files",)),
    "an empty zip": (_zip(), ("a.csv",)),
    "an Excel workbook": (_zip("[Content_Types].xml"), ("Excel workbook",)),
    "an old Excel workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ("Excel",)),
    "Stata": (_written("stata", write_index=False, version=118), ("Stata",)),
    "Stata of 2005": (_stata_of_2005(), ("Stata",)),
    "a pickle": (pickle.dumps(FRAME), ("pickle",)),
    "SQLite": (_sqlite(), ("SQLite",)),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(64), ("HDF5",)),
    "ORC": (b"ORC" + bytes(64), ("ORC",)),
    "a NumPy array": (b"\x93NUMPY\x01\x00" + bytes(64), ("NumPy",)),
    "JSON": (json.dumps(FRAME.to_dict("records")).encode(), ("a.csv",)),
    "a web page": (b"<!DOCTYPE html><html><body>sign in</body></html>", ("web page",)),
    "an address of Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", ("Git LFS",)),
}


def _file(folder: Path, content: bytes, words: Sequence[str]) -> str:
    """A file is read right, or refused by its name and the reason."""
    (folder / "a.csv").write_bytes(content)

    def judge(seen: Seen) -> str:
        right = seen.data.passive[0].names == ("t=x", "t=\u00e9") and len(seen.data.y) == 40
        return "right" if right and not words else f"wrong: {seen.data.passive[0].names}"

    options = {"path": str(folder / "a.csv"), "label": "y", "parties": {"p": ["t"]}}
    return judged(options, judge, ("a.csv", *words) if words else ())


LACKING = [("time", "training"), ("time", "test"), ("time", "reserve"), ("npz", "test")]


def _lacking(folder: Path, by: str, part: str) -> str:
    """A part of the rows that has no row of a class is refused or told by that class, before any training."""
    n = 2000
    late = {"training": range(1450, n), "test": range(1300), "reserve": range(1700)}[part]
    labels = ["rare" if k in late and k % 2 else "usual" for k in range(n)]
    frame = pd.DataFrame({"a": np.linspace(0, 1, n), "w": np.arange(n) // 10, "y": labels})
    if by == "npz":
        x, y = np.zeros((n, 4, 4)), frame["y"].to_numpy(dtype=str)
        np.savez(folder / "a.npz", x_train=x[:1400], y_train=y[:1400], x_test=x[1400:], y_test=y[1400:])
        where: dict[str, Any] = {"name": "npz", "path": str(folder / "a.npz")}
    else:
        frame.to_csv(folder / "t.csv", index=False)
        where = {"name": "csv", "path": str(folder / "t.csv"), "label": "y", "split": {by: "w"}}
        where["parties"] = {"p": ["a"]}
    try:
        notes = load(Named.model_validate(where)).notes
    except TuneVflError as error:
        return "refused" if "'rare'" in str(error) and part in str(error) else f"wrong: {error}"
    return "told" if any("'rare'" in note and part in note for note in notes) else f"wrong: {notes}"


TIMES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "days": ([f"2020-{k % 12 + 1:02}-{k % 28 + 1:02}" for k in range(240)], ()),
    "two-digit years": ([f"{k % 27 + 1}-Mar-{10 + k % 9:02}" for k in range(240)], ("two-digit years are read as",)),
    "two-digit years of a century": ([f"1-Mar-{k % 100:02}" for k in range(240)], ("two-digit years",)),
    "day or month first": ([f"{k % 12 + 1:02}/{k % 11 + 1:02}/2020" for k in range(240)], ("may be exchanged",)),
    "days before years": ([f"{k % 28 + 1:02}12{2010 + k % 9}" for k in range(240)], ("does not begin with its year",)),
    "a word among them": (["soon", *[f"2020-01-{k % 28 + 1:02}" for k in range(239)]], ("'soon' in row 1",)),
}


def _time(folder: Path, times: Sequence[str], words: Sequence[str]) -> str:
    """Times of a split rise, or what was guessed is said, or they are refused."""
    frame = pd.DataFrame(
        {"a": np.arange(240) % 41, "b": np.arange(240) % 37, "w": times, "y": np.arange(240) * 7 % 5 % 2}
    )
    frame.to_csv(folder / "t.csv", index=False)

    def judge(seen: Seen) -> str:
        return "told" if words and seen.has_note(words) else "wrong: not asked" if words else "right"

    return judged({"path": str(folder / "t.csv"), "label": "y", "split": {"time": "w"}}, judge, words)


def odd_files() -> Iterator[Odd]:
    """Yield all odd files."""
    for name, (content, words) in FILES.items():
        yield Odd("a file", name, partial(_file, content=content, words=words))
    for by, part in LACKING:
        yield Odd("a part without a class", f"{by}: {part}", partial(_lacking, by=by, part=part))
    for name, (times, words) in TIMES.items():
        yield Odd("a split by time", name, partial(_time, times=times, words=words))
