"""The table of measurements of a pack: one row per member, one column per quantity.

Columns are lists, under keys of one or more words: ``("utility",)``, ``("lost",)``, ``("notes",)``, ``("seconds",
"train")``, ``("logged", "sum_kl")``, ``("attack", "pmc", "logreg", "success")``, with several passive parties
``("attack", "pmc/bank", "logreg", "success")``. One that stops being measured when a member is lost ends early, and
is not read then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Table = dict[tuple[str, ...], list[Any]]
Numbers = dict[str, list[float]]
"""Columns of numbers by name, a value a member."""


class Trained(NamedTuple):
    """Results of a pack's trainings, one value per member.

    Attributes:
        lost: whether it diverged.
        utility: on the test rows.
        variance: of the utility over other test rows.
        notes: the defense's notes on it.
        logged: columns of the defense's own numbers.
    """

    lost: list[bool]
    utility: list[float]
    variance: list[float]
    notes: list[list[str]]
    logged: Numbers


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


def write_training(table: Table, trained: Trained) -> None:
    """Write the results of trainings; a diverged one has no numbers."""
    gone = trained.lost
    table["lost",] = ["training" if g else "" for g in gone]
    table["utility",] = [math.nan if g else u for g, u in zip(gone, trained.utility, strict=True)]
    table["utility_variance",] = [math.nan if g else v for g, v in zip(gone, trained.variance, strict=True)]
    table["notes",] = trained.notes
    put(table, ("logged",), trained.logged)


def write_seconds(table: Table, spent: Mapping[str, float]) -> None:
    """Write the wall seconds of a whole pack by stage, of which each member gets an equal share."""
    members = len(table["lost",])
    put(table, ("seconds",), {stage: [seconds / members] * members for stage, seconds in spent.items()})


def below(table: Table, *prefix: str) -> dict[str, list[Any]]:
    """Return the columns below a prefix by the one word that follows it."""
    depth = len(prefix)
    return {key[depth]: values for key, values in table.items() if key[:depth] == prefix and len(key) == depth + 1}


def variants_of(table: Table, attacker: str) -> dict[str, Numbers]:
    """Return the columns of an attack by variant, of one party if several carry it out."""
    found: dict[str, Numbers] = {}
    for key, values in table.items():
        if key[:2] == ("attack", attacker):
            found.setdefault(key[2], {})[key[3]] = values
    return found
