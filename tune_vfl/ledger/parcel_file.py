"""A packed study as a file, and as text that a log carries: a zip of JSON, read without running anything in it."""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

from tune_vfl.errors import ParcelError
from tune_vfl.ledger.parcel import Parcel

if TYPE_CHECKING:
    from pathlib import Path

HEAD, TRIALS = "study.json", "trials.jsonl"
BEGIN, END = "-----BEGIN TUNE-VFL STUDY-----", "-----END TUNE-VFL STUDY-----"
MOST_BYTES = 2**29
"""How much a packed study may hold when it is unpacked: a hundred thousand trials, and no bomb."""

_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same study gives the same bytes
_WIDTH = 76

# What Python's zip raises for a file that is none, is cut short or changed, is packed in a way that it does not know
# (NotImplementedError), or has a password (RuntimeError).
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def to_bytes(parcel: Parcel) -> bytes:
    """Return a packed study as the bytes of its file.

    Raises:
        ParcelError: when it holds a number that is not finite, which JSON cannot.
    """
    head, trials = parcel.plain()
    file = io.BytesIO()
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, rows in ((HEAD, [head]), (TRIALS, trials)):
                text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
                archive.writestr(zipfile.ZipInfo(name, _NO_TIME), text, zipfile.ZIP_DEFLATED)
    except ValueError as error:
        raise ParcelError(f"study {parcel.name!r} cannot be packed: {error}") from error
    return file.getvalue()


def from_bytes(content: bytes, where: str) -> Parcel:
    """Read a file that :func:`to_bytes` or :func:`to_text` gave.

    Args:
        content: of the file.
        where: the file, for messages.

    Raises:
        ParcelError: for everything that is not as expected.
    """
    if content.lstrip().startswith(BEGIN.encode()):
        content = from_text(content.decode("ascii", errors="replace"), where)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sorted(archive.namelist()) != [HEAD, TRIALS]:
                raise ParcelError(f"{where}: is not a packed study: expected {HEAD} and {TRIALS} in it")
            head, trials = (_lines(archive, name, where) for name in (HEAD, TRIALS))
    except _DAMAGED as error:
        raise ParcelError(f"{where}: is not a packed study, or is damaged ({error}); pack or pull it again") from error
    if len(head) != 1:
        raise ParcelError(f"{where}: is not a packed study: expected one line in {HEAD}, got {len(head)}")
    return Parcel.read(head[0], trials, where)


def to_text(content: bytes) -> str:
    """Return a file's bytes as text, between a line that begins it and one that ends it."""
    letters = base64.b64encode(content).decode("ascii")
    lines = [letters[i : i + _WIDTH] for i in range(0, len(letters), _WIDTH)]
    return "\n".join([BEGIN, *lines, END]) + "\n"


def from_text(text: str, where: str) -> bytes:
    """Find the first packed study in a text, such as a log.

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


def read_parcel(path: Path) -> Parcel:
    """Read a file.

    Raises:
        ParcelError: when it cannot be read, or is not a packed study.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)  # a device may have no end
    except OSError as error:
        raise ParcelError(f"{path}: cannot be read ({error.strerror}); give a file that `study pack` wrote") from error
    if len(content) > MOST_BYTES:
        raise ParcelError(f"{path}: is not a packed study: it is larger than {MOST_BYTES} bytes")
    return from_bytes(content, str(path))


def _lines(archive: zipfile.ZipFile, name: str, where: str) -> list[Any]:
    with archive.open(name) as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ParcelError(f"{where}: is not a packed study: {name} is larger than {MOST_BYTES} bytes")
    try:
        text = raw.decode("utf-8")
        return [json.loads(line, parse_constant=_refuse) for line in text.splitlines() if line]
    except (ValueError, RecursionError) as error:
        raise ParcelError(f"{where}: is not a packed study: {name} is not JSON ({error})") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
