"""Do leakage intervals of few seeds hold what many seeds say? Real trainings, cut into studies of a few seeds.

Run: python -m benchmarks.seed_coverage breast_cancer:laplace:scale=0.01 digits:mid:weight=0.01,0.1,1 [--seeds 60]

A defense at one value of a parameter, or at several as in a search, is trained and attacked by ``default`` with 60
seeds. The truth of a setting is what these say together: the largest mean advantage over all attacks and their
candidates. It has an error of its own, about a quarter of that of a study of three seeds. Counted are the studies of
3 (or 10) seeds, of all settings, whose interval holds it, lies above it or below it, those that are undecided, and half
of the mean width.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.false_positives import Records, studies_of
from tune_vfl.confirmation.values import fresh, names_of
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.records.confirmations import SeedRecord, records_of
from tune_vfl.spec import parse
from tune_vfl.statistics import leakage_bounds


class Held(NamedTuple):
    """Coverage of intervals: the truth (a mean over settings), shares of the studies, half of the mean width."""

    truth: float
    held: float
    above: float
    below: float
    undecided: float
    half_width: float


def measured(cell_name: str, seeds: int, most: int = 20) -> list[list[SeedRecord]]:
    """Return, by setting, the record of each seed of ``DATASET:DEFENSE:PARAMETER=VALUES``, so many seeds in a pack."""
    dataset, defense, setting = cell_name.split(":")
    name, _, values = setting.partition("=")
    params = [{name: float(value)} for value in values.split(",")]
    raw = {"study": "seeds", "dataset": dataset, "defense": defense, "attacks": ["default"]}
    whole = resolve(parse({**raw, "budget": {"seeds": seeds}}))
    found: list[list[SeedRecord]] = [[] for _ in params]
    for start in range(0, seeds, most):
        cell = whole.model_copy(update={"seeds": whole.seeds[start : start + most]})
        references = measure_references(cell)
        for place, outcome in enumerate(evaluate_pack(cell, params, references)):
            found[place] += records_of(outcome, cell.seeds, references).values()
    return found


def held(settings: Sequence[Records], size: int) -> Held:
    """Compare the intervals of studies of ``size`` seeds with what all seeds say."""
    names = names_of([], [record for records in settings for record in records])
    truth = np.clip(fresh(settings, names).advantages.mean(-1).max(0), 0, 1)
    blocks = [fresh(study, names) for study in zip(*(list(studies_of(r, size)) for r in settings), strict=True)]
    found = [leakage_bounds(block.advantages, block.limits) for block in blocks]
    low, high = (np.asarray([[getattr(b, end) for b in each] for each in found]) for end in ("lower", "upper"))
    above, below = float((low > truth).mean()), float((high < truth).mean())
    wide = float(np.mean([b.undecided for each in found for b in each]))
    return Held(float(truth.mean()), 1 - above - below, above, below, wide, float((high - low).mean() / 2))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="+", metavar="DATASET:DEFENSE:PARAMETER=VALUES")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--in-a-study", type=int, nargs="+", default=[3, 10])
    given = parser.parse_args()
    prepare_process()
    head = ["cells", "seeds", "truth", "held", "above", "below", "undecided", "half-width"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for cell in given.cells:
        settings = measured(cell, given.seeds)
        for size in given.in_a_study:
            print(f"| {cell} | {size} | {' | '.join(f'{v:.2f}' for v in held(settings, size))} |", flush=True)


if __name__ == "__main__":
    main()
