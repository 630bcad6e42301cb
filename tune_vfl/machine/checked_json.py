"""JSON texts that carry their own checksum, as the values of a ledger do.

Each text ends with its CRC-32, written as 32 spaces (0) and tabs (1): it stays JSON to every other reader.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

_BLANKS, _BITS = " \t", 32


class DamagedValueError(ValueError):
    """A stored value that is not what was written."""


def dump(value: Any) -> str:
    """Serialize a value with its checksum."""
    text = json.dumps(value)
    return text + _checksum(text)


def load(text: str) -> Any:
    """Parse a value.

    Raises:
        DamagedValueError: when it is not what was written.
    """
    try:
        return json.loads(verified(text))
    except ValueError as error:
        raise DamagedValueError(str(error)) from error


def verified(text: str) -> str:
    """Return the text of a value unchanged; one without a checksum, which others may have written, is not compared.

    Raises:
        DamagedValueError: when it differs from its checksum.
    """
    body = text.rstrip(_BLANKS)
    if body != text and text[len(body) :] != _checksum(body):
        raise DamagedValueError("it differs from its checksum")
    return text


def _checksum(text: str) -> str:
    bits = f"{zlib.crc32(text.encode()):0{_BITS}b}"
    return "".join(_BLANKS[int(bit)] for bit in bits)
