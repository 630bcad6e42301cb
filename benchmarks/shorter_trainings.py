"""Published numbers that differ from ours, beside ours after a fraction of the epochs that the paper prints.

Run: python -m benchmarks.shorter_trainings [--seeds 5] (with TUNE_VFL_DATA holding spambase and imdb)

The epochs were looked for by hand, one number a row: what is shown is that the others of the row, and its scatter, come
out with it. That a training was as short is not shown, only that a short one explains the number.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

from tune_vfl.evaluation.packs import evaluate_task
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.papers.measured import measure, scores_of
from tune_vfl.papers.reading import find_table
from tune_vfl.papers.results import Number
from tune_vfl.papers.tables import Evaluation
from tune_vfl.spec import References, parse
from tune_vfl.spec.raw import apply_settings


class ShorterTraining(NamedTuple):
    """An evaluation of a table, and the epochs after which it is looked at."""

    table: str
    label: str
    epochs: int


CASES = (
    ShorterTraining("gafm-table2", "spambase: marvell budget=1", 20),
    ShorterTraining("gafm-table4", "spambase: marvell budget=1", 45),
    ShorterTraining("gafm-table2", "imdb: marvell budget=1", 6),
    ShorterTraining("gafm-table2", "imdb: none", 30),
    ShorterTraining("gafm-table3", "imdb: gafm sigma=0.01 delta=0.1 gamma=0", 5),
    ShorterTraining("gafm-table3", "spambase: gafm sigma=0.01 delta=0.05 gamma=0", 150),
    ShorterTraining("gafm-table10-tenth", "imdb: gafm sigma=0.01 delta=0.05 gamma=1", 8),
)


def scores(evaluation: Evaluation, epochs: int, seed: int) -> dict[str, float]:
    """Return the scores of one seed of an evaluation whose training ends early."""
    raw = apply_settings(dict(evaluation.raw), [f"training.epochs={epochs}"])
    cell = open_task(parse({**raw, "budget": {"seeds": 1}})).cell.model_copy(update={"seeds": (seed,)})
    task = replace(Task.open(cell), asks_training_rows=cell.metric == "auc")
    return scores_of(evaluate_task(task, [{}], References())[0])


def main() -> None:
    """Print a row a number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    print("| table, evaluation | epochs | column | published | ours after these |\n|---|---|---|---|---|")
    for case in CASES:
        _, table = find_table(case.table)
        evaluation = next(one for one in table.evaluations if one.label == case.label)
        by_seed = [scores(evaluation, case.epochs, seed) for seed in range(seeds)]
        for heading, formula in table.formulas(evaluation).items():
            ours, published = (
                Number.of(measure(formula, one) for one in by_seed),
                table.published(evaluation.row, heading),
            )
            said = f"{ours.mean:.3f} ± {ours.std:.3f}"
            text = "-" if published is None else published.text
            print(f"| {case.table}, {case.label} | {case.epochs} | {heading} | {text} | {said} |", flush=True)


if __name__ == "__main__":
    main()
