"""Names of studies and campaigns, which are names of folders and of URLs too."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

_PATTERN, _LONGEST = r"^[A-Za-z0-9][A-Za-z0-9._-]*$", 120


def _checked(name: str) -> str:
    if re.fullmatch(_PATTERN, name) and len(name) <= _LONGEST:
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    nearest = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-._")[:_LONGEST]
    raise ValueError(
        f"expected a name of at most {_LONGEST} letters (a-z), digits, '.', '_' and '-' that begins with a letter or a "
        f"digit; write {nearest or 'study-1'}"
    )


StudyName = Annotated[
    str,
    AfterValidator(_checked),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST, "pattern": _PATTERN}),
]
"""A name of a study or a campaign; what is none is refused with one that may stand in its place."""
