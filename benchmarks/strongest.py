"""What beats `attacks: default`: the best of many attacks by hand on everything that a passive party sent and received.

Run: python -m benchmarks.strongest run OUT.jsonl [--seeds 0 1 2] [--tables bank] [--defenses laplace] (with TUNE_VFL_DATA)
     python -m benchmarks.strongest floors OUT.jsonl [--seeds 0 1 2] [--tables bank]
     python -m benchmarks.strongest table OUT.jsonl
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.by_hand import COST, ByHand
from benchmarks.strongest_tables import LABELS_ALONE, SETTINGS, TABLES, dataset_of
from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.measuring import STARTS, guess_of, references_of, score_attack
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.summarizing import summarize
from tune_vfl.evaluation.table import Table, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict, parse

FULL = 0.95
"""A leakage that nothing can beat by enough to matter; there is nothing to do by hand."""


def task_of(table: str, defense: str, seeds: Sequence[int], folder: Path) -> Task:
    """Return the cell of a table and a defense, with the attacks of `default`."""
    raw = {
        "study": "strongest",
        "dataset": dataset_of(table, folder, whole=defense in LABELS_ALONE),
        "model": {"name": "mlp"},
        "training": {"epochs": 30, "batch_size": 128, "lr": 1e-3},
        "defense": defense,
        "attacks": ["default"],
        "threat": {"labels_per_class": 10},
        "budget": {"seeds": len(seeds)},
    }
    task = open_task(parse(raw))
    return replace(task, cell=task.cell.model_copy(update={"seeds": tuple(seeds)}))


def successes(attack: Attack[Strict], table: Table) -> dict[str, list[float]]:
    """Return each variant's success, seed by seed."""
    return {v: list(columns["success"]) for v, columns in variants_of(table, attack.name).items()}


def done_in(out: Path) -> set[str]:
    """Return the cells that a file holds."""
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return {_key(row["table"], row["defense"], row["setting"], row["seeds"]) for row in rows if "setting" in row}


def _key(*of_cell: Any) -> str:
    return json.dumps(of_cell)


def cells(task: Task, table: str, lower: Any, done: set[str]) -> Iterator[dict[str, Any]]:
    """Yield what `default` and what is done by hand reach at each setting of the task's defense."""
    pack, hand = Pack(task.cell.seeds, 1), ByHand()
    for setting in SETTINGS[task.cell.defense]:
        if _key(table, task.cell.defense, setting, task.cell.seeds) in done:
            continue
        params = defense_params(task.cell.defense, setting, num_classes=task.cell.num_classes)
        run = train_pack(task, [params], pack, [*task.watching, hand])
        found = {}
        start = time.process_time()
        for attack in task.watching:
            columns = variants_of(score_attack(attack, run), attack.name)
            r_lower = lower.of(attack.name, len(task.cell.seeds))
            score = summarize(attack, columns, num_classes=2, guess=guess_of(task), r_lower=r_lower)
            found[attack.name] = [score.advantage, score.floor, score.values] if score else [0.0, 0.5, []]
        leakage = max(advantage for advantage, _, _ in found.values())
        spent = time.process_time() - start
        COST.clear()
        by_hand = successes(hand, score_attack(hand, run)) if leakage < FULL else {}
        yield {
            "table": table,
            "defense": task.cell.defense,
            "setting": setting,
            "seeds": task.cell.seeds,
            "utility": list(run.table["utility",]),
            "leakage": leakage,
            "default": found,
            "default_seconds": spent,
            "hand": by_hand,
            "seconds": {name: round(seconds / len(task.cell.seeds), 3) for name, seconds in COST.items()},
        }


def floors(task: Task) -> dict[str, list[float]]:
    """Return each variant's success on models that nobody trained, with noise for gradients: a mean over starts."""
    hand, pack = ByHand(), Pack(task.cell.seeds, 1)
    found = [successes(hand, score_attack(hand, untrained(task, pack, [hand], start))) for start in range(STARTS)]
    return {v: np.mean([of[v] for of in found], 0).tolist() for v in found[0]}


def main() -> None:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "floors"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--defenses", nargs="+", default=list(SETTINGS))
    given = parser.parse_args()
    prepare_process()
    folder = Path(tempfile.mkdtemp(prefix="strongest-"))
    done = done_in(given.out)
    for table in given.tables:
        lower: dict[bool, Any] = {}
        for defense in ["laplace", "gafm"] if given.what == "floors" else given.defenses:
            task, alone = task_of(table, defense, given.seeds, folder), defense in LABELS_ALONE
            if given.what == "floors":
                rows = iter([{"table": table, "alone": alone, "seeds": given.seeds, "floors": floors(task)}])
            else:
                if alone not in lower or {a.name for a in task.attacks} - set(lower[alone].r_lower):
                    lower[alone] = references_of(task)
                rows = cells(task, table, lower[alone], done)
            for row in rows:
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
