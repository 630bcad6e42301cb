"""Names that differ in spelling only: case, blanks, ``_`` or a full stop between words, zeros, ``1`` and ``True``."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping

from tune_vfl.errors import shortened

Spelt = tuple[tuple[str, int], ...]
"""Spellings of one name, each with its rows, the most frequent first."""
_INVISIBLE = re.compile(r"[\s\u200b-\u200f\u2060\ufeff]+")
_JOINTS = re.compile(r"(?<=[^\W\d_])[_-]+(?=[^\W\d_])")
# After a letter, at the end, and quotes around a name: ``>50K.``, ``U.S.A``, ``"yes"``. ``1.5`` and ``.5`` stay.
_POINTS = ".,;:!\"'`\u00b4\u2018\u2019\u201c\u201d"
_PUNCTUATION = re.compile(rf"(?<=[^\W\d_])[{_POINTS}]+|(?<=.)[{_POINTS}]+$|^[{_POINTS[5:]}]+(?=.)")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,3})?")
_WORDS = {"true": "1", "false": "0"}


def key(name: str) -> str:
    """Return a key that is the same for all spellings of a name."""
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name)).casefold()
    bare = _JOINTS.sub("", plain if _NUMBER.fullmatch(plain) else _PUNCTUATION.sub("", plain))
    if not _NUMBER.fullmatch(bare):
        return _WORDS.get(bare, bare)
    digits = bare.lstrip("+").lstrip("0") if "e" not in bare else f"{float(bare):.0f}"
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) or "0"


def alike(counts: Mapping[str, int]) -> tuple[Spelt, ...]:
    """Return groups of names that differ in spelling only.

    Args:
        counts: rows by name.
    """
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, count in counts.items():
        groups.setdefault(key(name), []).append((name, count))
    found = [tuple(sorted(group, key=lambda one: (-one[1], one[0]))) for group in groups.values() if len(group) > 1]
    return tuple(sorted(found))


def spellings(group: Spelt) -> str:
    """Return the spellings of one name, with their rows, as a sentence shows them."""
    return shortened([f"{name!r} ({count:,} rows)" for name, count in group])


def merging(groups: tuple[Spelt, ...]) -> dict[str, str]:
    """Return the mapping that makes each group one: its most frequent spelling by every other one."""
    return {name: group[0][0] for group in groups for name, _ in group[1:]}


def spelling_note(counts: Mapping[str, int]) -> str:
    """Return a note on classes that differ in spelling only, with an option that makes them one; empty without any.

    Args:
        counts: rows by class.
    """
    groups = alike(counts)
    if not groups:
        return ""
    said = "; ".join(map(spellings, groups))
    paste = json.dumps(merging(groups), ensure_ascii=False)
    return (
        f"classes that differ in spelling only: {said}; where they are one class, paste this into `dataset`: "
        f"classes: {paste}"
    )


def differing_ids(ids: Mapping[str, Collection[str]], shared: Collection[str]) -> str:
    """Return a sentence on ids that two files spell in different ways; empty where no id found a partner so.

    Args:
        ids: known ids by file, the label party's file last.
        shared: the ids that all files have.
    """
    *others, own = ids
    lost = {key(name): name for name in ids[own] if name not in shared}
    for other in others:
        pairs = [(name, lost[key(name)]) for name in ids[other] if name not in shared and key(name) in lost]
        if pairs:
            said = " and ".join(f"{a!r} in {other} for {b!r} in {own}" for a, b in sorted(pairs)[:2])
            return (
                f"{len(pairs):,} ids differ in spelling only (leading zeros, case, blanks, punctuation, forms of "
                f"numbers), such as {said}; write them alike in both files"
            )
    return ""
