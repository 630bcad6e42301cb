"""What is measured on the members of a pack: a table with a row a member and a column for everything measured.

Columns are lists, under keys of one or more words: ``("utility",)``, ``("lost",)``, ``("notes",)``, ``("seconds",
"train")``, ``("logged", "sum_kl")``, ``("attack", "pmc", "logreg", "success")``, with several passive parties
``("attack", "pmc/bank", "logreg", "success")``. One that stops being measured when a member is lost ends early; nobody
reads it then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Table = dict[tuple[str, ...], list[Any]]
Numbers = dict[str, list[float]]
"""Columns of numbers by name, a value a member."""


def joined(parts: Sequence[Table]) -> Table:
    """Return the rows of several tables below each other."""
    whole: Table = {}
    for part in parts:
        for key, values in part.items():
            whole.setdefault(key, []).extend(values)
    return whole


def taken(table: Table, members: Sequence[int]) -> Table:
    """Return the rows of some members, in this order."""
    last = max(members)
    return {key: [values[m] for m in members] for key, values in table.items() if len(values) > last}


def put(table: Table, prefix: tuple[str, ...], columns: Mapping[str, list[Any]]) -> None:
    """Add columns below a prefix."""
    table.update({(*prefix, name): values for name, values in columns.items()})


def below(table: Table, *prefix: str) -> dict[str, list[Any]]:
    """Return the columns below a prefix by the one word that follows it."""
    depth = len(prefix)
    return {key[depth]: values for key, values in table.items() if key[:depth] == prefix and len(key) == depth + 1}


def variants_of(table: Table, attacker: str) -> dict[str, Numbers]:
    """Return the columns of an attack by variant, of one party where several carry it out."""
    names = dict.fromkeys(key[2] for key in table if key[:2] == ("attack", attacker))
    return {variant: below(table, "attack", attacker, variant) for variant in names}
