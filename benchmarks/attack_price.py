"""CPU that each attack of ``default`` takes over the CPU of the trainings that it reads, at the board's settings.

    python -m benchmarks.attack_price breast_cancer spambase digits [--defenses gaussian iso label_dp]

Settings are those of the board's entries, trained and attacked in packs of four with three seeds in this process, as a
worker of a search does. Floors and other references are measured once, and count as spread over twenty trials.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from benchmarks.decision import DEFENSES
from tune_vfl.evaluation import evaluate_pack, measure_references, measuring
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.evaluation.training import train_pack
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.records.board import SUFFIX, Entry
from tune_vfl.spec import parse

BOARD = Path(__file__).parents[1] / "board"
TOGETHER, SPREAD, SEEDS = 4, 20, 3
TRAINING, FLOORS = "training", "floors and references"


@contextmanager
def counted(spent: dict[str, float]) -> Iterator[None]:
    """Add the CPU seconds of trainings and attacks in the block to ``spent``, by name."""

    def timed(work: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def run(*given: Any, **more: Any) -> Any:
            begun = time.process_time()
            try:
                return work(*given, **more)
            finally:
                spent[name(*given)] += time.process_time() - begun

        return run

    attacked = timed(measuring.score_attack, lambda attack, *_: attack.name)
    trained = timed(train_pack, lambda *_: TRAINING)
    with patch.object(measuring, "score_attack", attacked), patch.object(measuring, "train_pack", trained):
        yield


def price(table: str, defenses: list[str]) -> tuple[dict[str, float], int]:
    """Return CPU seconds by part over all settings of some defenses, and how many networks were trained."""
    spent: dict[str, float] = defaultdict(float)
    trainings, references = 0, None
    for defense in defenses:
        entry = BOARD / table / f"{defense}{SUFFIX}"
        if not entry.exists():  # such as one for two classes
            continue
        settings = [dict(trial.params) for trial in Entry.read(entry).packed.trials]
        asked = yaml.safe_load((BOARD / f"{table}.yaml").read_text(encoding="utf-8"))
        cell = resolve(parse({**asked, "defense": defense, "budget": {"seeds": SEEDS}}))
        if references is None:
            begun = time.process_time()
            references = measure_references(cell)
            spent[FLOORS] = time.process_time() - begun
        with counted(spent):
            for first in range(0, len(settings), TOGETHER):
                evaluate_pack(cell, settings[first : first + TOGETHER], references)
        trainings += SEEDS * len(settings)
    spent[FLOORS] *= trainings / (SPREAD * SEEDS)
    return spent, trainings


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--defenses", nargs="+", default=list(DEFENSES))
    given = parser.parse_args()
    prepare_process()
    for table in given.tables:
        spent, trainings = price(table, given.defenses)
        print(f"{table}, {trainings} trainings of {spent[TRAINING] / trainings:.4f} CPU s")
        for name, seconds in sorted(spent.items(), key=lambda part: -part[1]):
            print(f"    {name:24s}{seconds / spent[TRAINING]:7.2f}")
        print(
            f"    {'all but training':24s}{(sum(spent.values()) - spent[TRAINING]) / spent[TRAINING]:7.2f}", flush=True
        )


if __name__ == "__main__":
    main()
