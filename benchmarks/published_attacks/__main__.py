"""Published attacks beside `attacks: default`, on the same trainings.

Run: python -m benchmarks.published_attacks OUT.jsonl [--attacks default lea] [--cells digits-kdk] [--seeds 0 1 2]
     python -m benchmarks.published_attacks OUT.jsonl --table
Cells that the file holds with these seeds and attacks are left out. It needs TUNE_VFL_DATA.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.published_attacks.cells import CELLS, task_of
from benchmarks.published_attacks.gramssat import Gramssat
from benchmarks.published_attacks.hassle import Hassle
from benchmarks.published_attacks.lea import Lea
from benchmarks.published_attacks.sdar import Sdar
from benchmarks.published_attacks.sim_lia import SimLia
from tune_vfl.attacks.base import Attack
from tune_vfl.defenses.base import defense_params
from tune_vfl.evaluation.measuring import guess_of, score_attack
from tune_vfl.evaluation.references import references_of
from tune_vfl.evaluation.summarizing import summarize
from tune_vfl.evaluation.table import variants_of
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import References, Strict

DEFAULT = "default"
ATTACKS = {attack.name: attack for attack in (Gramssat, Lea, Hassle, SimLia, Sdar)}
STARTS, WORTH = 3, 0.03
"""Untrained models whose mean success is a published attack's floor; and an advantage that is worth a place."""
Row = dict[str, Any]


def successes(attack: Attack[Strict], table: Any) -> dict[str, list[float]]:
    """Return each variant's success, seed by seed."""
    return {variant: list(columns["success"]) for variant, columns in variants_of(table, attack.name).items()}


def floor_of(task: Task, attack: Attack[Strict]) -> dict[str, float]:
    """Return each variant's mean success on untrained models with noise for gradients, at least the best guess."""
    pack, guess = Pack(task.cell.seeds, 1), guess_of(task)
    if "bottom" not in attack.sees():
        return defaultdict(lambda: guess)
    runs = [untrained(task, pack, [attack], start) for start in range(STARTS)]
    found = [successes(attack, score_attack(attack, run, [0])) for run in runs]
    return {variant: max(guess, float(np.mean([of[variant] for of in found]))) for variant in found[0]}


class Lower:
    """Floors by data set: they are the same for all defenses."""

    def __init__(self) -> None:
        self._default: dict[str, References] = {}
        self._published: dict[tuple[str, str], dict[str, float]] = {}

    def default(self, task: Task) -> References:
        """Return the floors of the attacks of `default`."""
        key = f"{task.dataset.name} {[a.name for a in task.attacks]}"
        if key not in self._default:
            self._default[key] = references_of(task)
        return self._default[key]

    def published(self, task: Task, attack: Attack[Strict]) -> dict[str, float]:
        """Return a published attack's floors, a variant each."""
        key = task.dataset.name, attack.name
        if key not in self._published:
            self._published[key] = floor_of(task, attack)
        return self._published[key]


def rows_of(cell: str, attacks: Sequence[str], seeds: Sequence[int], lower: Lower) -> Row:
    """Return what `default` and published attacks find in a cell: success by seed, floor, advantage, CPU seconds."""
    task, published = task_of(cell, seeds), [ATTACKS[name]() for name in attacks if name != DEFAULT]
    classes, pack = task.cell.num_classes, Pack(task.cell.seeds, 1)
    params = defense_params(task.cell.defense, CELLS[cell][2], num_classes=classes)
    shipped = task.watching if DEFAULT in attacks else ()
    run = train_pack(task, [params], pack, [*shipped, *published])
    default: dict[str, Any] = {}
    for attack in shipped:
        columns, lowest = variants_of(score_attack(attack, run), attack.name), lower.default(task)
        r_lower = lowest.of(attack.name, len(seeds))
        score = summarize(attack, columns, num_classes=classes, guess=guess_of(task), r_lower=r_lower)
        if score is not None:
            default[attack.name] = [list(score.values), score.floor, score.advantage]
    found: dict[str, Any] = {}
    for mine in published:
        start = time.process_time()
        said, spent = successes(mine, score_attack(mine, run)), time.process_time() - start
        floors = lower.published(task, mine)
        found[mine.name] = {
            "seconds": spent / len(seeds),
            "variants": {name: [v, floors[name], _advantage(v, floors[name])] for name, v in said.items()},
        }
    utility = list(run.table["utility",])
    done = {"cell": cell, "seeds": list(seeds), "attacks": list(attacks), "utility": utility}
    return {**done, "default": default, "found": found}


def _advantage(values: Sequence[float], floor: float) -> float:
    return max(0.0, (float(np.mean(values)) - floor) / (1 - floor))


Entries = Mapping[str, Sequence[Any]]


def _best(of_rows: Sequence[Entries]) -> tuple[float, float, str]:
    """Return the best mean success over all rows, the largest floor, and whose success it is.

    Args:
        of_rows: name -> [successes by seed, floor, ...]; a name that lacks seeds of another one does not count.
    """
    values: dict[str, list[float]] = defaultdict(list)
    floors: dict[str, list[float]] = defaultdict(list)
    for name, (of_seeds, floor, *_) in (entry for row in of_rows for entry in row.items()):
        values[name] += of_seeds
        floors[name] += [floor] * len(of_seeds)
    seeds = max(map(len, values.values()), default=0)
    success, name = max(((float(np.mean(v)), n) for n, v in values.items() if len(v) == seeds), default=(0.0, "-"))
    return success, max((float(np.mean(f)) for f in floors.values()), default=0.0), name


def table(out: Path) -> Iterator[str]:
    """Yield a line a cell: the largest success of `default` and of each published attack, and what the latter gains.

    A gain is the difference of the two in units of what the larger of all their floors leaves: advantages against one
    floor of the party.
    """
    cells: dict[str, list[Row]] = defaultdict(list)
    for line in out.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        cells[row["cell"]].append(row)
    yield f"| cell (seeds) | floor | default | {' | '.join(ATTACKS)} |"
    yield f"|---|---|{'---|' * (len(ATTACKS) + 1)}"
    for cell, rows in cells.items():
        success, floor, by = _best([row["default"] for row in rows])
        seeds = len({seed for row in rows for seed in row["seeds"]})
        shown = [f"{cell} ({seeds})", f"{floor:.3f}", f"{success:.3f} {by}"]
        for name in ATTACKS:
            of_rows = [row["found"][name]["variants"] for row in rows if name in row["found"]]
            if not of_rows:
                shown.append("-")
                continue
            mine, its_floor, variant = _best(of_rows)
            gain = (mine - success) / (1 - max(floor, its_floor))
            text = f"{mine:.3f} {variant}, {gain:+.2f}"
            shown.append(f"**{text}**" if gain > WORTH else text)
        yield f"| {' | '.join(shown)} |"


def main() -> None:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--attacks", nargs="+", choices=[DEFAULT, *ATTACKS], default=[DEFAULT, *ATTACKS])
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--table", action="store_true", help="print the table of a file in place of measuring")
    given = parser.parse_args()
    if given.table:
        print("\n".join(table(given.out)))
        return
    prepare_process()
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    held = {(row["cell"], tuple(row["seeds"]), *row["attacks"]) for row in map(json.loads, lines)}
    lower = Lower()
    for cell in given.cells:
        if (cell, tuple(given.seeds), *given.attacks) not in held:
            row = rows_of(cell, given.attacks, given.seeds, lower)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
