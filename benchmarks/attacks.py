"""Five watching attacks together against one alone: what train once, attack many saves.

Run: python -m benchmarks.attacks (with TUNE_VFL_DATA holding spambase)
"""

from __future__ import annotations

from typing import Any

from benchmarks.problem import medians
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.spec import parse

ATTACKS: list[Any] = ["norm", "direction", "mean", "median", {"name": "pmc", "variants": ["head_only"]}]


def main() -> None:
    """Print the table, for the data sets' own recipes, 3 seeds, no defense."""
    prepare_process()
    print("| data set | norm alone, CPU s | all five, CPU s | ratio |\n|---|---|---|---|")
    for dataset in ("spambase", "bank", "breast_cancer"):
        works = []
        for attacks in ([*ATTACKS[:1]], ATTACKS):
            raw = {"study": "b", "dataset": dataset, "defense": "none", "attacks": attacks, "budget": {"seeds": 3}}
            cell = resolve(parse(raw))
            references = measure_references(cell)
            works.append(lambda c=cell, r=references: evaluate_pack(c, [{}], r))
        one, five = medians(works, repeats=5)
        print(f"| {dataset} | {one:.2f} | {five:.2f} | {five / one:.2f} |")


if __name__ == "__main__":
    main()
