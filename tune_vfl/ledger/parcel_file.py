"""A packed study or campaign as a file, and as text that a log carries: a zip of JSON, read without running any of it.

A study is two files in it, a campaign one of its own and two for each of its studies, in folders numbered from 0.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

from tune_vfl.errors import ParcelError
from tune_vfl.ledger.campaign_parcel import CampaignParcel
from tune_vfl.ledger.parcel import Parcel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tune_vfl.ledger.campaign_parcel import Packed

HEAD, TRIALS, CAMPAIGN = "study.json", "trials.jsonl", "campaign.json"
BEGIN, END = "-----BEGIN TUNE-VFL STUDY-----", "-----END TUNE-VFL STUDY-----"
MOST_BYTES = 2**29
"""How much a file may hold when it is unpacked: a hundred thousand trials, and no bomb."""

_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same study gives the same bytes
_WIDTH = 76

# What Python's zip raises for a file that is none, is cut short or changed, is packed in a way that it does not know
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
            for name, rows in _members(packed):
                text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
                archive.writestr(zipfile.ZipInfo(name, _NO_TIME), text, zipfile.ZIP_DEFLATED)
    except ValueError as error:
        raise ParcelError(f"{packed.name!r} cannot be packed: {error}") from error
    return file.getvalue()


def from_bytes(content: bytes, where: str) -> Packed:
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
            folders = _folders(archive, where)
            files = {name: _lines(archive, name, where) for name in archive.namelist()}
    except _DAMAGED as error:
        raise ParcelError(f"{where}: is not a packed study, or is damaged ({error}); pack or pull it again") from error
    studies = [
        Parcel.read(_only(files, f"{folder}{HEAD}", where), files[f"{folder}{TRIALS}"], where) for folder in folders
    ]
    return CampaignParcel.read(_only(files, CAMPAIGN, where), studies, where) if CAMPAIGN in files else studies[0]


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


def read_parcel(path: Path) -> Packed:
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


def _members(packed: Packed) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the files of which the zip consists: the name of each, and its lines."""
    whole = isinstance(packed, CampaignParcel)
    if isinstance(packed, CampaignParcel):
        yield CAMPAIGN, [packed.plain()]
    for number, parcel in enumerate(packed.studies):
        head, trials = parcel.plain()
        yield f"{number}/{HEAD}" if whole else HEAD, [head]
        yield f"{number}/{TRIALS}" if whole else TRIALS, trials


def _folders(archive: zipfile.ZipFile, where: str) -> list[str]:
    """Return where the studies of a file stand in it; of a lone one at its top.

    Raises:
        ParcelError: when it is too large, or holds anything else.
    """
    names = archive.namelist()
    folders = [f"{number}/" for number in range(len(names) // 2)] if CAMPAIGN in names else [""]
    expected = [folder + name for folder in folders for name in (HEAD, TRIALS)]
    if sorted(names) != sorted([*expected, *([CAMPAIGN] if CAMPAIGN in names else [])]):
        raise ParcelError(f"{where}: is not a packed study: expected {HEAD} and {TRIALS} in it, or {CAMPAIGN}")
    if sum(info.file_size for info in archive.infolist()) > MOST_BYTES:  # nothing longer is read than it says it is
        raise ParcelError(f"{where}: is not a packed study: what is in it is larger than {MOST_BYTES} bytes")
    return folders


def _only(files: Mapping[str, list[Any]], name: str, where: str) -> Any:
    if len(files[name]) != 1:
        raise ParcelError(f"{where}: is not a packed study: expected one line in {name}, got {len(files[name])}")
    return files[name][0]


def _lines(archive: zipfile.ZipFile, name: str, where: str) -> list[Any]:
    try:
        text = archive.read(name).decode("utf-8")
        return [json.loads(line, parse_constant=_refuse) for line in text.splitlines() if line]
    except (ValueError, RecursionError) as error:
        raise ParcelError(f"{where}: is not a packed study: {name} is not JSON ({error})") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
