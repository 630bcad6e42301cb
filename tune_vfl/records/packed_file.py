"""A packed study or campaign as a file, and as text that a log carries: a zip of JSON, read without running any of it.

Each table of the ledger is a file in it, a row a line; ``packed.json`` says which schema and program wrote them.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from tune_vfl.errors import ParcelError
from tune_vfl.machine.plain_json import load_plain
from tune_vfl.machine.version import VERSION
from tune_vfl.records.packed import PACKED_SCHEMA, Packed

HEAD = "packed.json"
TABLES = tuple(Packed.model_fields)
BEGIN, END = "-----BEGIN TUNE-VFL STUDY-----", "-----END TUNE-VFL STUDY-----"
MOST_BYTES = 2**26
"""How much a file may hold when it is unpacked, unless more is asked for: ten thousand trials, and no bomb."""
_MOST_HEAD = 2**16
_STEP = 2**20

_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same study gives the same bytes
_WIDTH = 76

# Errors of Python's zip on a file that is no zip, is cut short or changed, uses an unknown compression
# (NotImplementedError), or has a password (RuntimeError).
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def to_bytes(packed: Packed) -> bytes:
    """Return a packed study or campaign as the bytes of its file.

    Raises:
        ParcelError: when it holds a number that is not finite, which JSON cannot.
    """
    file = io.BytesIO()
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            head = {"schema": PACKED_SCHEMA, "program": VERSION}
            for name, rows in {HEAD: [head], **{f"{t}.jsonl": rows for t, rows in packed.plain().items()}}.items():
                text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
                archive.writestr(zipfile.ZipInfo(name, _NO_TIME), text, zipfile.ZIP_DEFLATED)
    except ValueError as error:
        raise ParcelError(f"{packed.name!r} cannot be packed: {error}") from error
    return file.getvalue()


def from_bytes(content: bytes, where: str, most: int = MOST_BYTES) -> Packed:
    """Read a file that :func:`to_bytes` or :func:`to_text` gave, its head first.

    Args:
        content: of the file.
        where: the file, for messages.
        most: the bytes that may be in it, unpacked.

    Raises:
        ParcelError: for everything that is not as expected.
    """
    if content.lstrip().startswith(BEGIN.encode()):
        content = from_text(content.decode("ascii", errors="replace"), where)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _refuse_others(archive, where, most)
            files = {name: _lines(archive, name, where) for name in archive.namelist() if name != HEAD}
    except _DAMAGED as error:
        raise ParcelError(f"{_is_none(where)}, or is damaged ({error}); pack or pull it again") from error
    return Packed.checked({name.removesuffix(".jsonl"): rows for name, rows in files.items()}, _is_none(where))


def to_text(content: bytes) -> str:
    """Return a file's bytes as text, between a line that begins it and one that ends it."""
    letters = base64.b64encode(content).decode("ascii")
    lines = [letters[i : i + _WIDTH] for i in range(0, len(letters), _WIDTH)]
    return "\n".join([BEGIN, *lines, END]) + "\n"


def from_text(text: str, where: str) -> bytes:
    """Find the first packed study or campaign in a text, such as a log.

    Raises:
        ParcelError: when there is none, or not a whole one.
    """
    _, begun, rest = text.partition(BEGIN)
    body, ended, _ = rest.partition(END)
    if not (begun and ended):
        raise ParcelError(f"{where}: holds no whole packed study, which is between {BEGIN!r} and {END!r}")
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ParcelError(f"{where}: the packed study in it is damaged ({error}); pack or pull it again") from error


def read_packed(path: Path, most: int = MOST_BYTES) -> Packed:
    """Read a file.

    Args:
        path: the file.
        most: the bytes that it may have, and those that may be in it, unpacked.

    Raises:
        ParcelError: when it cannot be read, or is not a packed study.
    """
    try:
        with path.open("rb") as file:
            content = bytearray()
            while len(content) <= most and (more := file.read(_STEP)):  # a device may have no end
                content += more
    except OSError as error:
        raise ParcelError(f"{path}: cannot be read ({error.strerror}); give a file that `study pack` wrote") from error
    if len(content) > most:
        raise ParcelError(f"{_is_none(str(path))}: it is larger than {_the_limit(most)}")
    return from_bytes(bytes(content), str(path), most)


def _the_limit(most: int) -> str:
    return f"{most} bytes; --max-mib reads a larger one"


def _refuse_others(archive: zipfile.ZipFile, where: str, most: int) -> None:
    """Refuse a file that is too large, that another version has written, or that holds anything else."""
    # Nothing longer is read than it says it is.
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sum(info.file_size for info in archive.infolist()) > most:
        raise ParcelError(f"{_is_none(where)}: what is in it is larger than {_the_limit(most)}")
    if sizes.get(HEAD, 0) > _MOST_HEAD:
        raise ParcelError(f"{_is_none(where)}: {HEAD} in it is larger than {_MOST_HEAD} bytes")
    lines = _lines(archive, HEAD, where) if HEAD in sizes else []
    head = lines[0] if len(lines) == 1 and isinstance(lines[0], dict) else {}
    if head.get("schema") != PACKED_SCHEMA:
        raise ParcelError(
            f"{where}: expected a packed study of schema {PACKED_SCHEMA}, got {head.get('schema')!r} (written by "
            f"tune-vfl {head.get('program', 'unknown')}; this is {VERSION}); a later one is read by a later tune-vfl"
        )
    names, expected = archive.namelist(), sorted([HEAD, *(f"{table}.jsonl" for table in TABLES)])
    if sorted(names) != expected:
        raise ParcelError(f"{_is_none(where)}: expected {', '.join(expected)} in it, got {', '.join(names)[:300]}")


def _is_none(where: str) -> str:
    """Begin the refusal of a file that holds no packed study."""
    return f"{where}: is not a packed study"


def _lines(archive: zipfile.ZipFile, name: str, where: str) -> list[Any]:
    try:
        text = archive.read(name).decode("utf-8")
        return [load_plain(line) for line in text.splitlines() if line]
    except ValueError as error:
        raise ParcelError(f"{_is_none(where)}: {name} is not JSON ({error})") from error
