"""The partition of columns among parties: shares in file order, or the lists of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tune_vfl.data.base import Columns
from tune_vfl.errors import DataError, did_you_mean, shortened

ACTIVE = "active"
Parties = tuple[tuple[Columns, ...], Columns | None]
"""The passive parties' columns, and the label party's own; None when it has labels only."""


@dataclass(frozen=True)
class Partition:
    """Columns by party.

    Attributes:
        passive: the feature-only parties by name, in order.
        active: the label party's own columns; empty when it has labels only.
    """

    passive: dict[str, tuple[str, ...]]
    active: tuple[str, ...]


def passive_names(parties: int) -> list[str]:
    """Return ``["passive"]``, or ``["passive_0", "passive_1", ...]`` for several parties."""
    return ["passive"] if parties == 1 else [f"passive_{k}" for k in range(parties)]


def cut_points(n: int, share: float, parties: int, where: str) -> list[int]:
    """Return where to cut ``n`` columns: the ``parties + 1`` bounds of the passive parties' shares, from 0.

    Columns from the last bound on are the label party's.

    With a share below 1 at least one column stays with the label party. Passive parties differ by at most one column,
    earlier ones hold the more.

    Args:
        n: number of columns (or pixel columns).
        share: the share of the columns that the passive parties hold, in (0, 1].
        parties: number of passive parties.
        where: names the file and the kind of columns, for messages.

    Raises:
        DataError: when there are fewer columns than parties.
    """
    passive = n if share == 1 else min(int(n * share + 0.5), n - 1)
    if passive < parties:
        raise DataError(
            f"{where}: a passive share of {share:g} of {n} leaves {max(passive, 0)} for {parties} passive "
            f"part{'y' if parties == 1 else 'ies'}, so that a party would be without columns; raise split or lower "
            "passive_parties"
        )
    sizes = [len(part) for part in np.array_split(np.arange(passive), parties)]
    return [sum(sizes[:k]) for k in range(parties + 1)]


def by_share(columns: Sequence[str], share: float, parties: int, where: str) -> Partition:
    """Give the first share of the columns to the passive parties, the rest to the label party.

    Raises:
        DataError: when a party would be without columns.
    """
    cuts = cut_points(len(columns), share, parties, f"{where}: columns")
    names = passive_names(parties)
    held = {name: tuple(columns[cuts[k] : cuts[k + 1]]) for k, name in enumerate(names)}
    return Partition(passive=held, active=tuple(columns[cuts[-1] :]))


def by_list(
    parties: Mapping[str, Sequence[str]], header: Sequence[str], reserved: Mapping[str, str], where: str
) -> Partition:
    """Give each party the columns that a user lists; the party ``active`` is the label party, every other one passive.

    Args:
        parties: columns by party, in order.
        header: the file's columns.
        reserved: columns that are no features, with their roles, such as ``{"default": "the label"}``.
        where: the file, for messages.

    Raises:
        DataError: for a column that is missing, listed twice, given to two parties or reserved, and a party without
            columns.
    """
    owner: dict[str, str] = {}
    for party, columns in parties.items():
        if party != ACTIVE and party.strip().casefold() == ACTIVE:
            raise DataError(
                f"{where}: party {party!r} would be a passive one; write {ACTIVE!r} for the label party, or give it "
                "another name"
            )
        if not columns and party != ACTIVE:
            raise DataError(f"{where}: party {party!r} has no columns; list at least one, or leave the party out")
        check_listed(party, columns, header, reserved, where)
        for column in columns:
            if column in owner:
                raise DataError(
                    f"{where}: column {column!r} is given to two parties, {owner[column]!r} and {party!r}; give it to "
                    "one"
                )
            owner[column] = party
    passive = {name: tuple(columns) for name, columns in parties.items() if name != ACTIVE}
    if not passive:
        raise DataError(f"{where}: no passive party; list at least one beside {ACTIVE!r}, with columns of its own")
    return Partition(passive=passive, active=tuple(parties.get(ACTIVE, ())))


def check_listed(
    party: str, columns: Sequence[str], header: Sequence[str], reserved: Mapping[str, str], where: str
) -> None:
    """Check one party's list of columns.

    Raises:
        DataError: for a column that is no feature, is not in the header, or is listed twice.
    """
    for place, column in enumerate(columns):
        if column in reserved:
            raise DataError(
                f"{where}: column {column!r} is {reserved[column]} and no feature of party {party!r}; take it off the "
                "list"
            )
        if column not in header:
            near = did_you_mean(column, header) or f" It has: {shortened(header)}"
            raise DataError(f"{where}: the header has no column {column!r} of party {party!r}.{near}")
        if column in columns[:place]:
            raise DataError(f"{where}: party {party!r} lists column {column!r} twice; list it once")


def check_excluded(exclude: Sequence[str], header: Sequence[str], reserved: Mapping[str, str], where: str) -> None:
    """Check the columns that no party is to have.

    Raises:
        DataError: for a column that is not in the header, or is no feature anyway.
    """
    for column in exclude:
        if column in reserved:
            raise DataError(
                f"{where}: exclude lists {column!r}, which is {reserved[column]} and no feature; take it off the list"
            )
        if column not in header:
            near = did_you_mean(column, header) or f" It has: {shortened(header)}"
            raise DataError(f"{where}: exclude lists {column!r}, which is not in the header.{near}")


def without(columns: Sequence[str], exclude: Sequence[str], party: str, where: str) -> tuple[str, ...]:
    """Return a party's columns but the excluded ones.

    Raises:
        DataError: when a passive party had columns and has none left.
    """
    left = tuple(c for c in columns if c not in exclude)
    if columns and not left and party != ACTIVE:
        raise DataError(
            f"{where}: exclude leaves party {party!r} without columns; take one of {shortened(columns)} off exclude, "
            "or leave the party out"
        )
    return left


def cut_among(n: int, share: float, parties: int, where: str, part: Callable[[str, int, int], Columns]) -> Parties:
    """Cut ``n`` columns among the parties in order; ``part(party, a, b)`` returns a party's columns from a to b - 1."""
    cuts, names = [*cut_points(n, share, parties, where), n], [*passive_names(parties), ACTIVE]
    held = [part(party, a, b) for party, a, b in zip(names, cuts, cuts[1:], strict=False) if b > a]
    return tuple(held[:parties]), held[parties] if len(held) > parties else None


def map_columns(parties: Parties, change: Callable[[Columns], Columns]) -> Parties:
    """Return the columns of every party as ``change`` returns them."""
    passive, active = parties
    return tuple(change(columns) for columns in passive), None if active is None else change(active)


def matrix_parties(x: Tensor, names: Sequence[str], share: float, parties: int, where: str) -> Parties:
    """Share out the columns of a numeric ``(N, d)`` matrix in order; all are marked to be standardized."""

    def part(party: str, a: int, b: int) -> Columns:
        return Columns(party, x[:, a:b].contiguous(), tuple(names[a:b]), torch.ones(b - a, dtype=torch.bool))

    return cut_among(x.shape[1], share, parties, f"{where}: columns", part)


def image_parties(x: Tensor, share: float, parties: int, where: str) -> Parties:
    """Share out the pixel columns of images ``(N, C, H, W)``, from left to right."""

    def part(party: str, a: int, b: int) -> Columns:
        return Columns(party, x[..., a:b].contiguous())

    return cut_among(x.shape[3], share, parties, f"{where}: pixel columns", part)
