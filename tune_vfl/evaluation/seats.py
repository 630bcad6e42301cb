"""Attacking parties: the passive parties that carry out an attack, each by itself or several together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tune_vfl.outcome import TOGETHER, attacker_name

if TYPE_CHECKING:
    from tune_vfl.attacks.base import Attack
    from tune_vfl.evaluation.task import Task
    from tune_vfl.spec import Strict

Seats = Mapping[str, tuple[int, ...]]
"""Passive parties by position, by the attacker's name: a party's, ``together``, nothing where there is one."""


def seats_of(attack: Attack[Strict], task: Task) -> Seats:
    """Return the attacking parties of an attack, or the victim if the label party attacks.

    A single passive party needs no name. Each of several attacks by itself; acting attacks, attacks by the label party,
    and attacks that request it, involve the first party alone. All parties ``together`` are one more attacker, if the
    threat model says so and the attack can join their data.
    """
    names, can = [columns.party for columns in task.dataset.passive], attack.capabilities
    if len(names) == 1:
        return {"": (0,)}
    if can.acts or can.who == "active" or can.parties == "first":
        return {names[0]: (0,)}
    seats: dict[str, tuple[int, ...]] = {name: (k,) for k, name in enumerate(names)}
    if can.parties == "joined" and task.cell.threat.parties == TOGETHER:
        seats[TOGETHER] = tuple(range(len(names)))
    return seats


def named_seats(attack: Attack[Strict], task: Task) -> Seats:
    """Return :func:`seats_of` by the attacker's full name, the key of tables and reference scores."""
    return {attacker_name(attack.name, party): parties for party, parties in seats_of(attack, task).items()}
