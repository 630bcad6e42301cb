"""Sentences on a text that is no YAML, in words of its author: the line, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml
from yaml.reader import ReaderError

_SHOWN = 100


def not_yaml(text: str, error: yaml.YAMLError) -> str:
    """Return a sentence on an error of the reader of YAML.

    Args:
        text: what was read.
        error: what PyYAML says of it.
    """
    if isinstance(error, ReaderError):
        line, at = text.count("\n", 0, error.position) + 1, f"U+{ord(text[error.position]):04X}"
        return f"line {line}: is not valid YAML: the character {at} may not stand in it; remove it"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"is not valid YAML: {error}"
    mark = error.problem_mark
    lines = [*re.split("\r\n|[\r\n\x85\u2028\u2029]", text), ""]
    written = lines[mark.line]
    told = _told(lines, mark, error.context_mark) or f"{error.context or ''} {error.problem}".strip()
    return f"line {mark.line + 1}: is not valid YAML: {told}. It has: {written.strip()[:_SHOWN]}"


def _told(lines: Sequence[str], mark: yaml.Mark, opened: yaml.Mark | None) -> str:
    """Return what is wrong at a place, where it is one of the usual slips, and how it is mended."""
    written, column = lines[mark.line], mark.column
    before, at = written[:column], written[column : column + 1]
    begun = lines[opened.line][opened.column :] if opened else ""
    line, sign, inside = opened.line + 1 if opened else 0, begun[:1], begun[1:].partition('"')[0]
    slips = {
        f"in double quotes a backslash begins an escape; write it in single quotes: '{inside}'": (
            sign == '"' and re.search(r"\\[xuU]?$", before)
        ),
        f"the quote {sign} that begins in line {line} does not end; close it": sign in ("'", '"') and not at,
        "a tab cannot stand before a value; indent with spaces": at == "\t",
        f"a value cannot begin with {at}; write it in quotes": at in ("@", "`", "%"),
        "a second document begins there, and one is expected; remove the line": before == ""
        and at == "-" == written[2:3],
        f"the {sign} of line {line} does not end before it; close it, or put a comma there": sign in ("{", "["),
        "a second ': ' in a line, or a line that is indented more than the one above; quote the value, or line it up": (
            at == ":"
        ),
    }
    return next((told for told, found in slips.items() if found), "")
