"""Attacks by hand beside `attacks: default`, on all that a passive party sent and received.

Run: python -m benchmarks.strongest run OUT.jsonl [--seeds 0 1 2] [--tables bank] [--defenses laplace] [--beaten]
     python -m benchmarks.strongest floors OUT.jsonl [--seeds 0] [--tables bank]
     python -m benchmarks.strongest table OUT.jsonl
Cells that the file holds are left out; with --beaten so are those in which nothing there is better by .03. It needs
TUNE_VFL_DATA.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.by_hand import COST, ByHand, Everything
from benchmarks.strongest_tables import LABELS_ALONE, SETTINGS, TABLES, dataset_of
from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.grants.base import GRANTS
from tune_vfl.evaluation.measuring import guess_of, score_attack
from tune_vfl.evaluation.references import references_of
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.summarizing import summarize
from tune_vfl.evaluation.table import Table, variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import References, Strict, parse

FULL, WORTH = 0.95, 0.03
"""A leakage that nothing beats by much, where nothing is tried by hand; and what is worth more seeds."""
Row = dict[str, Any]
Key = tuple[str, str, str]


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


def measured(task: Task, table: str, setting: Mapping[str, Any], lower: References) -> Row:
    """Return what `default` and what is done by hand reach in a cell."""
    pack, hand = Pack(task.cell.seeds, 1), ByHand()
    params = defense_params(task.cell.defense, setting, num_classes=task.cell.num_classes)
    run = train_pack(task, [params], pack, [*task.watching, hand])
    found, start = {}, time.process_time()
    for attack in task.watching:
        columns = variants_of(score_attack(attack, run), attack.name)
        r_lower = lower.of(attack.name, len(task.cell.seeds))
        without = lower.of_party("", len(task.cell.seeds))
        score = summarize(attack, columns, num_classes=2, guess=guess_of(task), r_lower=r_lower, without=without)
        found[attack.name] = [score.advantage, score.floor, score.values] if score else [0.0, 0.5, []]
    leakage, spent = max(advantage for advantage, _, _ in found.values()), time.process_time() - start
    COST.clear()
    by_hand = successes(hand, score_attack(hand, run)) if leakage < FULL else {}
    return {
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
    """Return each way's success on untrained models with noise for gradients, a mean over starts."""
    hand, pack = ByHand(), Pack(task.cell.seeds, 1)
    found = [successes(hand, score_attack(hand, untrained(task, pack, [hand], start))) for start in range(hand.starts)]
    return {v: np.mean([of[v] for of in found], 0).tolist() for v in found[0]}


@dataclass(eq=False)
class CellScores:
    """All seeds of a cell.

    Attributes:
        default: each attack's successes.
        default_floors: and its floor, as often.
        hand: each way's successes.
    """

    default: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    default_floors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    hand: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seeds: int = 0

    def add(self, row: Row) -> None:
        """Take in the seeds of a row."""
        self.seeds += len(row["seeds"])
        for name, (_, floor, values) in row["default"].items():
            self.default[name] += values
            self.default_floors[name] += [floor] * len(values)
        for name, values in row["hand"].items():
            self.hand[name] += values

    def best(self, lower: Mapping[str, Sequence[float]]) -> tuple[tuple[float, str], tuple[float, str] | None]:
        """Return the largest advantage of `default` and of a way by hand, each with its name.

        Both are over the party's floor, the best that any attack of `default` finds on untrained models, or over the
        way's own where that is higher: a way that does worse than the columns alone finds no leak.
        """
        shipped = {name: _advantage(v, self.default_floors[name]) for name, v in self.default.items() if v}
        whole = {name: v for name, v in self.hand.items() if len(v) == max(map(len, self.hand.values()))}
        usual = lower.get("em3", [0.5])  # of ways that know a defense, where there was none
        party = max(float(np.mean(floors)) for floors in self.default_floors.values())
        mine = {name: _advantage(v, np.maximum(party, lower.get(name, usual))) for name, v in whole.items()}
        ranked = [max((a, name) for name, a in of.items()) if of else None for of in (shipped, mine)]
        return ranked[0] or (0.0, "-"), ranked[1]


def _advantage(values: Sequence[float], floor: Any) -> float:
    at = float(np.mean(floor))
    return max(0.0, (float(np.mean(values)) - at) / (1 - at))


def read(out: Path) -> tuple[dict[Key, CellScores], dict[tuple[str, bool], dict[str, list[float]]], set[str]]:
    """Return the cells of a file, the floors by table, and which cells with which seeds there are."""
    cells: dict[Key, CellScores] = defaultdict(CellScores)
    lower: dict[tuple[str, bool], dict[str, list[float]]] = defaultdict(dict)
    held = set()
    for line in out.read_text().splitlines() if out.exists() else []:
        row = json.loads(line)
        if "floors" in row:
            lower[row["table"], row["alone"]] |= row["floors"]
            continue
        key = row["table"], row["defense"], json.dumps(row["setting"])
        held.add(json.dumps([*key, list(row["seeds"])]))
        cells[key].add(row)
    return cells, lower, held


def table(out: Path) -> Iterator[str]:
    """Yield the lines of the table: a line a setting, a column a table: `default` > by hand, how (seeds)."""
    cells, lower, _ = read(out)
    yield f"| defense, setting | {' | '.join(TABLES)} |"
    yield f"|---|{'---|' * len(TABLES)}"
    beaten = tried = 0
    for defense, settings in SETTINGS.items():
        for setting in settings:
            shown = []
            for name in TABLES:
                cell = cells.get((name, defense, json.dumps(setting)))
                if cell is None:
                    shown.append("-")
                    continue
                tried += 1
                (leakage, _), mine = cell.best(lower[name, defense in LABELS_ALONE])
                better = mine is not None and mine[0] > leakage + 0.05
                beaten += better
                said = f"{leakage:.2f}" if mine is None else f"{leakage:.2f} > {mine[0]:.2f} {mine[1]}"
                said += f" ({cell.seeds})" if cell.seeds > 1 else ""
                shown.append(f"**{said}**" if better else said)
            options = " ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in setting.items())
            yield f"| {defense} {options} | {' | '.join(shown)} |"
    yield f"beaten by more than .05: {beaten} of {tried}"


def _wanted(given: argparse.Namespace) -> Iterator[tuple[str, str, dict[str, Any]]]:
    cells, lower, held = read(given.out)
    for name in given.tables:
        for defense in given.defenses:
            for setting in SETTINGS[defense]:
                key = name, defense, json.dumps(setting)
                if json.dumps([*key, given.seeds]) in held:
                    continue
                if given.beaten:
                    (leakage, _), mine = cells[key].best(lower[name, defense in LABELS_ALONE])
                    if mine is None or mine[0] <= leakage + WORTH:
                        continue
                yield name, defense, setting


def rows(given: argparse.Namespace) -> Iterator[Row]:
    """Yield what the command line asks for, as soon as it is there."""
    folder = Path(tempfile.mkdtemp(prefix="strongest-"))
    if given.what == "floors":
        for name in given.tables:
            for defense in ("laplace", LABELS_ALONE[0]):
                found = floors(task_of(name, defense, given.seeds, folder))
                yield {"table": name, "alone": defense in LABELS_ALONE, "seeds": given.seeds, "floors": found}
        return
    lower: dict[tuple[object, ...], References] = {}
    for name, defense, setting in _wanted(given):
        task = task_of(name, defense, given.seeds, folder)
        at = name, defense in LABELS_ALONE, *(a.name for a in task.attacks)
        if at not in lower:
            lower[at] = references_of(task)
        yield measured(task, name, setting, lower[at])


def main() -> None:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "floors", "table"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--defenses", nargs="+", default=list(SETTINGS))
    parser.add_argument("--beaten", action="store_true")
    given = parser.parse_args()
    if given.what == "table":
        print("\n".join(table(given.out)))
        return
    prepare_process()
    GRANTS.register(Everything.name)(Everything)
    for row in rows(given):
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
