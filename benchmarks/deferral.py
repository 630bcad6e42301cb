"""What putting an attack off would be worth: how many trials could do without it, and what becomes of the intervals.

Run: python -m benchmarks.deferral spambase digits --attacks pmc gradient_completion

A trial is put off where one that was measured in full before it has at least its utility, and at most the leakage that
its other attacks find; ``near`` are those that the seeds cannot tell from any of these (both differences within their
90% half-widths). Trials are the rows of ``benchmarks/tables``, each study's in an order that a seed shuffles, three
seeds; of all studies together they come one study after the other's turn. Nothing is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.trial_tables import Row, opened, random_order
from tune_vfl.evaluation.certainty import stood_in
from tune_vfl.metrics import pareto
from tune_vfl.statistics import differences, leakage_bounds, leakage_differences
from tune_vfl.statistics.arrays import Bools, Floats

ORDERS = 3


class Block(NamedTuple):
    """Settings in the order in which they were tried: utilities ``(N, S)``, advantages ``(K, N, S)``, attacks."""

    utilities: Floats
    gains: Floats
    attacks: list[str]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Block:
        """Lay rows beside each other, by the attacks that all of them met."""
        attacks = sorted(set(rows[0].advantages).intersection(*(r.advantages for r in rows)))
        gains = np.asarray([[r.advantages[a] for r in rows] for a in attacks])
        return cls(np.asarray([r.utility for r in rows]), gains, attacks)


class PutOff(NamedTuple):
    """``(N,)`` each: dominated by the means, and of these those that are near nothing measured before them."""

    dominated: Bools
    far: Bools


def put_off(block: Block, attack: str) -> PutOff:
    """Say which settings could do without an attack, one after the other."""
    dear = block.attacks.index(attack)
    utility, means = block.utilities.mean(1), np.clip(block.gains.mean(2), 0, 1)
    found, cheaply = means.max(0), np.delete(means, dear, 0).max(0)
    u, leak = differences(block.utilities), leakage_differences(block.gains)
    near = (np.abs(u.mean) <= u.half_width()) & (np.abs(leak.mean) <= leak.half_width())
    verdicts = []
    for apart in (np.zeros_like(near), near):
        full, off = np.zeros(len(utility), dtype=bool), np.zeros(len(utility), dtype=bool)
        for i in range(len(utility)):
            beaten = bool((full & (utility >= utility[i]) & (found <= cheaply[i])).any())
            off[i] = beaten and not (full & apart[i]).any()
            full[i] = not off[i]
        verdicts.append(off)
    return PutOff(*verdicts)


def moved(block: Block, attack: str, off: Bools) -> float:
    """Return how far the ends of leakage intervals on the front move where these are no part of the attack's block."""
    found = np.clip(block.gains.mean(2), 0, 1).max(0)
    front = np.flatnonzero(pareto.front(np.stack([block.utilities.mean(1), found], 1).tolist()) & ~off)
    met = np.ones(block.gains.shape[:2], dtype=bool)
    met[block.attacks.index(attack)] = ~off
    before, after = leakage_bounds(block.gains), leakage_bounds(stood_in(block.gains, met))
    ends = [max(abs(before[i].lower - after[i].lower), abs(before[i].upper - after[i].upper)) for i in front]
    return max(ends, default=0.0)


def blocks_of(dataset: str, seed: int, *, joint: bool) -> list[Block]:
    """Return the settings of each study of a table, or of all of them in one, in the order of a seed."""
    studies = []
    for rows in opened(dataset).parts.values():
        ok = [r for r in rows if r.outcome == "ok"]
        if len(ok) >= 5:
            studies.append([ok[i] for i in random_order(ok, seed)])
    if not joint:
        return [Block.of(rows) for rows in studies]
    turns = [rows[k] for k in range(max(map(len, studies))) for rows in studies if k < len(rows)]
    return [Block.of(turns)]


def line(dataset: str, attack: str, *, joint: bool) -> list[str]:
    """Return a line of the table."""
    blocks = [b for seed in range(ORDERS) for b in blocks_of(dataset, seed, joint=joint) if attack in b.attacks]
    found = [put_off(block, attack) for block in blocks]
    shares = [float(np.concatenate([verdict[k] for verdict in found]).mean()) for k in range(2)]
    ends = [max(moved(b, attack, verdict[k]) for b, verdict in zip(blocks, found, strict=True)) for k in range(2)]
    where = "all studies together" if joint else "each study alone"
    return [dataset, attack, where, *(f"{s:.2f}, {e:.3f}" for s, e in zip(shares, ends, strict=True))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--attacks", nargs="+", default=["pmc", "gradient_completion"])
    given = parser.parse_args()
    head = ["data set", "put off", "compared", "dominated: share, intervals move by up to", "and not near: the same"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for dataset in given.datasets:
        for attack in given.attacks:
            for joint in (False, True):
                print(f"| {' | '.join(line(dataset, attack, joint=joint))} |", flush=True)


if __name__ == "__main__":
    main()
