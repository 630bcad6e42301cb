"""Partition columns by their importance for the label, so that a public table resembles a real partnership.

The idea is VertiBench's (Wu, Hou, He 2024): a party contributes the importance of its columns, not their number.
Shares of importance are asked for, and columns are given to parties at random with these probabilities. There the
shares are drawn from a Dirichlet distribution; here they are given, and the draw is corrected towards them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from tune_vfl.data.assemble import fingerprint
from tune_vfl.data.base import Columns, Dataset
from tune_vfl.data.partition import ACTIVE, passive_names
from tune_vfl.data.predictive_columns import chance, file_columns, noise, scores_alone
from tune_vfl.data.split import training_rows
from tune_vfl.errors import DataError, SpecError
from tune_vfl.seeds import numpy_rng
from tune_vfl.statistics.arrays import Floats, Ints

STREAM = "partition/importance"
CLOSE = 0.001
"""Shares this near to the asked ones are left as they were drawn."""
FAR = 0.02
"""Distance from the requested shares beyond which a note gives the reason."""
_STEPS = 200
# One draw a data set, whatever the seed: the partition is a property of the partnership.
_SEED = 0


def by_importance(dataset: Dataset, share: float, parties: int) -> Dataset:
    """Repartition the columns of a table, so that the passive side has a given share of their importance.

    Several passive parties get equal parts of that share. Each party holds a column at least, in the file's order.

    Args:
        dataset: as loaded, with any partition of its columns.
        share: the passive side's share of the importance of all columns, in (0, 1).
        parties: the number of passive parties.

    Returns:
        The same rows and columns with another owner each; a note says what shares were reached.

    Raises:
        SpecError: when the data set is no table.
        DataError: when there are fewer columns than parties, or no column tells anything of the label.
    """
    if dataset.modality != "table":
        raise SpecError(
            f"dataset {dataset.name!r}: split by importance is for tables, and this one holds {dataset.modality}s; "
            "give split a number, the share of the columns that the passive side holds"
        )
    columns = _joined(dataset.parties)
    places = list(file_columns(columns))
    if len(places) <= parties:
        raise DataError(
            f"dataset {dataset.name!r}: {len(places)} columns cannot be shared out over {parties} passive parties and "
            "the label party; lower passive_parties"
        )
    weights = importances(dataset, columns)
    targets = [share / parties] * parties + [1 - share]
    owners = shared_out(weights, targets, numpy_rng(_SEED, STREAM))
    everyone = [*passive_names(parties), ACTIVE]
    held = [_taken(columns, name, np.flatnonzero(owners == k)) for k, name in enumerate(everyone)]
    split = (tuple(held[:-1]), held[-1])
    names = [name for name, *_ in places]
    return replace(
        dataset,
        passive=split[0],
        active=split[1],
        fingerprint=fingerprint(
            split, dataset.y, dataset.class_names, dataset.test_rows, dataset.test_share, holders=dataset.holders
        ),
        notes=(*dataset.notes, _told(_Reached(names, weights, owners, targets), held)),
    )


def importances(dataset: Dataset, columns: Columns) -> Floats:
    """Return the importance of each column of a table, at least 0 and not scaled.

    A column's importance is how far its score alone (:func:`tune_vfl.data.predictive_columns.scores_alone`) is above
    chance: 2 AUC - 1 for two classes, else (balanced accuracy - 1/K) / (1 - 1/K). Within two standard errors of chance
    it is 0. Only the training rows of seed 0 count, without the reserve. What columns tell together, or twice, does not
    count: that would take a model for each set of them.

    Args:
        dataset: as loaded; its labels and rows count.
        columns: all its columns.

    Raises:
        DataError: when rows are too few to score columns, or none is above chance.
    """
    rows = training_rows(dataset, _SEED, "selection")
    y = dataset.y[rows]
    scores = scores_alone(replace(columns, x=columns.x[rows]), y, dataset.num_classes)
    if any(score is None for score in scores):
        raise DataError(
            f"dataset {dataset.name!r}: too few rows to split by importance; at least two classes need 10 training "
            "rows or more. Add rows, or give split a number"
        )
    base, least = chance(dataset.num_classes), 2 * noise(y, dataset.num_classes)
    above = np.array([score or 0.0 for score in scores]) - base
    weights: Floats = np.where(above > least, above / (1 - base), 0.0)
    if not weights.any():
        raise DataError(
            f"dataset {dataset.name!r}: no column alone tells more of the label than chance, so importance cannot "
            "share them out; give split a number, the share of the columns that the passive side holds"
        )
    return weights


def shared_out(weights: Floats, targets: Sequence[float], rng: np.random.Generator) -> Ints:
    """Assign columns to parties at random, so that each party's share of the weights is near its target.

    The weightiest column is drawn first. A party's chance is the weight that it still lacks; columns without weight go
    by the targets. Then columns are moved or exchanged, best first, until all shares are within 0.001 or none helps.

    Args:
        weights: ``(n,)``, not all 0, n at least the number of parties.
        targets: a positive share for each party, 1 in sum.
        rng: the draws.

    Returns:
        ``(n,)`` the party of each column; every party has one at least.
    """
    w = weights / weights.sum()
    goals = np.array(targets)
    owners, lacks = np.zeros(len(w), dtype=np.int64), goals.copy()
    shuffled = rng.permutation(len(w))
    for column in shuffled[np.argsort(-w[shuffled], kind="stable")]:
        open_to = lacks.clip(min=0) if w[column] > 0 and lacks.max() > 0 else goals
        owners[column] = rng.choice(len(goals), p=open_to / open_to.sum())
        lacks[owners[column]] -= w[column]
    for party in range(len(goals)):
        if not (owners == party).any():
            # The column that fits best, of a party that has others.
            spare = np.flatnonzero(np.bincount(owners, minlength=len(goals))[owners] > 1)
            owners[spare[np.argmin(np.abs(w[spare] - goals[party]))]] = party
    for _ in range(_STEPS):
        if not _improved(w, goals, owners):
            break
    return owners


def _improved(w: Floats, goals: Floats, owners: Ints) -> bool:
    """Make the one move or exchange that brings the shares nearest to the goals; say whether there was one."""
    parties = len(goals)
    over = np.bincount(owners, w, minlength=parties) - goals
    if np.abs(over).max() <= CLOSE:
        return False

    def change(moved: Floats, giver: Ints, taker: Ints) -> Floats:
        # By how much the squared distances from the goals change.
        return 2 * moved * (over[taker] - over[giver]) + 2 * moved**2

    takers = np.arange(parties)[None, :]
    moves = change(w[:, None], owners[:, None], takers)
    moves[(owners[:, None] == takers) | (np.bincount(owners, minlength=parties)[owners] == 1)[:, None]] = np.inf
    swaps = change(w[:, None] - w[None, :], owners[:, None], owners[None, :])
    swaps[owners[:, None] == owners[None, :]] = np.inf
    if min(moves.min(), swaps.min()) >= -(CLOSE**2):
        return False
    if moves.min() <= swaps.min():
        column, taker = divmod(int(moves.argmin()), parties)
        owners[column] = taker
    else:
        one, other = divmod(int(swaps.argmin()), len(w))
        owners[one], owners[other] = owners[other], owners[one]
    return True


@dataclass(frozen=True)
class _Reached:
    names: list[str]
    weights: Floats
    owners: Ints
    targets: list[float]


def _told(reached: _Reached, held: Sequence[Columns]) -> str:
    """Return a note on each party's share of importance, with a reason if it is far from the target."""
    w = reached.weights / reached.weights.sum()
    shares = np.bincount(reached.owners, w, minlength=len(held))
    counts = np.bincount(reached.owners, minlength=len(held))
    parts = ", ".join(
        f"{party.party} holds {share:.3f} (asked {target:.3g}) with {count} of {len(w)} columns"
        for party, share, count, target in zip(held, shares, counts, reached.targets, strict=True)
    )
    if np.abs(shares - reached.targets).max() <= FAR:
        return f"shares of importance: {parts}"
    largest = int(w.argmax())
    return (
        f"shares of importance: {parts}; no column that is moved or exchanged brings them nearer; "
        f"{reached.names[largest]!r} alone has {w[largest]:.3f}"
    )


def _joined(parties: Sequence[Columns]) -> Columns:
    """Return the columns of all parties side by side."""
    scaled = [torch.zeros(p.x.shape[1], dtype=torch.bool) if p.scaled is None else p.scaled for p in parties]
    return Columns(
        party="all",
        x=torch.cat([p.x for p in parties], dim=1),
        names=tuple(name for p in parties for name in p.names),
        scaled=torch.cat(scaled),
        sources=tuple(source for p in parties for source in p.sources),
    )


def _taken(columns: Columns, party: str, chosen: Ints) -> Columns:
    """Return the chosen columns of the file as a party's."""
    places = list(file_columns(columns))
    at = [k for c in chosen for k in range(places[c][2], places[c][3])]
    return Columns(
        party=party,
        x=columns.x[:, at].contiguous(),
        names=tuple(columns.names[k] for k in at) if columns.names else (),
        scaled=None if columns.scaled is None else columns.scaled[at],
        sources=tuple(columns.sources[c] for c in chosen) if columns.sources else (),
    )
