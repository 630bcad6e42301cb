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


def merging(groups: tuple[Spelt, ...], known: Mapping[str, str] = {}) -> dict[str, str]:
    """Return the mapping that makes each group one, by every other spelling the one that names are mapped to already.

    Without such a one it is the most frequent spelling.

    Args:
        groups: of names, as they are with ``known``.
        known: a mapping that the names went through already, which the answer takes the place of.
    """
    new: dict[str, str] = {}
    for group in groups:
        names = [name for name, _ in group]
        kept = next((name for name in names if name in known.values()), names[0])
        new |= {name: kept for name in names if name != kept}
    return {name: new.get(other, other) for name, other in known.items()} | new


def in_place(option: str, known: object) -> str:
    """Say where something that the option of a data set shall hold is pasted; ``known`` is what it holds so far."""
    return f"put this in the place of `{option}` in `dataset`" if known else "paste this into `dataset`"


def spelling_note(counts: Mapping[str, int], known: Mapping[str, str] = {}) -> str:
    """Return a note on classes that differ in spelling only, with an option that makes them one; empty without any.

    Args:
        counts: rows by class.
        known: what the option holds so far.
    """
    groups = alike(counts)
    if not groups:
        return ""
    said = "; ".join(map(spellings, groups))
    paste = json.dumps(merging(groups, known), ensure_ascii=False)
    return (
        f"classes that differ in spelling only: {said}; where they are one class, {in_place('classes', known)}: "
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
        # An id that these two files have alike, and a third one lacks, is spelled in one way.
        pairs = [
            (name, own_name)
            for name in ids[other]
            if name not in shared and (own_name := lost.get(key(name), name)) != name
        ]
        if pairs:
            said = " and ".join(f"{a!r} in {other} for {b!r} in {own}" for a, b in sorted(pairs)[:2])
            return (
                f"{len(pairs):,} ids differ in spelling only (leading zeros, case, blanks, punctuation, forms of "
                f"numbers), such as {said}; write them alike in both files"
            )
    return ""
