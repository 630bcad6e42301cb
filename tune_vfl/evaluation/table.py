"""The table of measurements of a pack: one row per member, one column per quantity.

Columns are lists, under keys of one or more words: ``("utility",)``, ``("lost",)``, ``("notes",)``, ``("seconds",
"train")``, ``("logged", "sum_kl")``, ``("attack", "pmc", "logreg", "success")``, with several passive parties
``("attack", "pmc/bank", "logreg", "success")``. One that stops being measured when a member is lost ends early, and
is not read then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tune_vfl.defenses.base import Defense

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


def write_training(
    table: Table,
    lost: Sequence[bool],
    utility: Sequence[float],
    variance: Sequence[float],
    defense: Defense,
    *,
    networks: int = 1,
) -> None:
    """Write the results of trainings, a value a member; a diverged one has no numbers.

    Args:
        table: of the trainings.
        lost: whether it diverged.
        utility: on the test rows.
        variance: of the utility over other test rows.
        defense: as it ended.
        networks: of a member, of which the defense's notes and values are those of the first.
    """
    table["lost",] = ["training" if g else "" for g in lost]
    table["utility",] = [math.nan if g else u for g, u in zip(lost, utility, strict=True)]
    table["utility_variance",] = [math.nan if g else v for g, v in zip(lost, variance, strict=True)]
    table["notes",] = [defense.notes(member * networks) for member in range(len(lost))]
    logged = {name: [float(v) for v in list(values)[::networks]] for name, values in defense.logged().items()}
    put(table, ("logged",), logged)


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
