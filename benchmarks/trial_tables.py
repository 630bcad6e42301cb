"""Tables of trials that were really run, on which samplers are compared without a run.

    python -m benchmarks.trial_tables spambase --settings 24 --minutes 40

runs settings of all defenses that fit, and keeps what came back under ``benchmarks/tables``; it goes on where it
stopped. A table is a file of JSON lines, one a trial. Numbers have six digits. Each attack's advantages are those of
the variant that its score belongs to.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import SpecError
from tune_vfl.metrics.pareto import hypervolume
from tune_vfl.outcome import Outcome
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spaces.space import Space, point_key
from tune_vfl.spec import parse

FOLDER = Path(__file__).parent / "tables"
DATASETS: dict[str, dict[str, Any]] = {
    "spambase": {"name": "spambase", "split": 0.5},
    "digits": {"name": "digits"},
}
PACK, SEEDS = 6, 3
REFERENCES = {"spambase": (0.5, 1.0), "digits": (0.102, 1.0)}


class Row(NamedTuple):
    """One trial.

    Attributes:
        defense, params: what was tried; ``place``: in the order of its part, published settings first.
        published: whether it is a published setting.
        outcome: how it ended; without objectives unless ``ok``.
        utility: by seed; ``leakage``: the objective; ``advantages``: by attack, by seed, signed.
        seconds: wall seconds of its share of the pack.
    """

    defense: str
    place: int
    params: dict[str, Any]
    published: bool
    outcome: str
    utility: list[float]
    leakage: float | None
    advantages: dict[str, list[float]]
    seconds: float

    @property
    def objectives(self) -> tuple[float, float]:
        """``(utility, leakage)`` of an ok trial."""
        return sum(self.utility) / len(self.utility), self.leakage if self.leakage is not None else 1.0


class Table(NamedTuple):
    """A data set's table, defense by defense, and the worst point that counts."""

    dataset: str
    parts: Mapping[str, list[Row]]
    reference: tuple[float, float]

    @property
    def trials(self) -> int:
        return sum(map(len, self.parts.values()))

    @property
    def whole(self) -> float:
        """The hypervolume of all rows."""
        return hypervolume(
            [r.objectives for rows in self.parts.values() for r in rows if r.outcome == "ok"], self.reference
        )


class Part(NamedTuple):
    """One defense of a table.

    Attributes:
        study: planned, with its space.
        settings: all that the table is to hold of it, in order.
    """

    study: PlannedStudy
    settings: list[dict[str, Any]]


def table_of(dataset: str, folder: Path = FOLDER) -> Path:
    """Return where the table of a data set is kept."""
    return folder / f"trials-{dataset}.jsonl"


def read(path: Path) -> list[Row]:
    """Return a table's rows by defense and place; none where there is no table yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return sorted(rows, key=lambda r: (r.defense, r.place))


def opened(dataset: str, folder: Path = FOLDER) -> Table:
    """Read a table."""
    parts: dict[str, list[Row]] = {}
    for row in read(table_of(dataset, folder)):
        parts.setdefault(row.defense, []).append(row)
    return Table(dataset, parts, REFERENCES[dataset])


def settings_of(space: Space, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return published settings, then draws of the random sampler until there are ``count`` or the space is used up."""
    import optuna

    from tune_vfl.samplers.base import SAMPLERS

    found = {point_key(p.params): dict(p.params) for p in space.published}
    study = optuna.create_study(sampler=SAMPLERS["random"].build(seed, budget=count))
    drawn = 0
    while len(found) < min(count, space.size) and drawn < 100 * count:
        params = space.typed(study.ask(space.distributions()).params)
        found.setdefault(point_key(params), params)
        drawn += 1
    return list(found.values())[:count]


@cache
def part(dataset: str, defense: str, count: int) -> Part:
    """Plan the study of one defense.

    Raises:
        SpecError: where the defense does not fit the data.
    """
    import optuna

    from tune_vfl.driver.planning import plan_study

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    raw = {"study": f"table-{dataset}-{defense}", "dataset": DATASETS[dataset], "defense": defense}
    study = plan_study(parse({**raw, "attacks": ["default"], "budget": {"seeds": SEEDS}}))
    return Part(study, settings_of(study.space, count))


def tabulate(dataset: str, path: Path, *, settings: int, minutes: float, workers: int, last: Sequence[str]) -> None:
    """Run what a table lacks, and add it line by line.

    Args:
        dataset: one of :data:`DATASETS`.
        path: of the table.
        settings: how many of each defense.
        minutes: nothing new begins after.
        workers: processes.
        last: defenses that come after all others.
    """
    held = {(r.defense, point_key(r.params)) for r in read(path)}
    packs = sorted(_packs(dataset, settings, held), key=lambda p: (p[0] in last, p[1][0], p[0]))
    trials, end = sum(len(places) for _, places in packs), time.monotonic() + 60 * minutes
    print(f"{dataset}: {len(held)} trials in the table, {trials} to run in {len(packs)} packs", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[list[Row]]] = set()
        while packs or running:
            while packs and len(running) < workers and time.monotonic() < end:
                defense, places = packs.pop(0)
                running.add(pool.submit(run_pack, dataset, defense, places, settings))
            if not running:
                print(f"time is over, {sum(len(p) for _, p in packs)} trials are left", flush=True)
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                add_lines(path, [row._asdict() for row in future.result()])
                print(_progress(future.result(), packs), flush=True)


def _packs(dataset: str, count: int, held: set[tuple[str, str]]) -> Iterator[tuple[str, list[int]]]:
    for defense in DEFENSES.names():
        try:
            known = part(dataset, defense, count).settings
        except SpecError as error:
            print(f"{defense}: not here: {error}", flush=True)
            continue
        missing = [i for i, params in enumerate(known) if (defense, point_key(params)) not in held]
        yield from ((defense, missing[i : i + PACK]) for i in range(0, len(missing), PACK))


def run_pack(dataset: str, defense: str, places: Sequence[int], count: int) -> list[Row]:
    """Evaluate a pack of settings as a search would."""
    from tune_vfl.evaluation.attempts import together_or_alone
    from tune_vfl.evaluation.packs import evaluate_task
    from tune_vfl.evaluation.task import Task
    from tune_vfl.machine.runtime import prepare_process

    prepare_process()
    study, settings = part(dataset, defense, count)
    task, published = Task.open(study.cell), {point_key(p.params) for p in study.space.published}
    start = time.monotonic()
    outcomes = together_or_alone(lambda some: evaluate_task(task, some), [settings[i] for i in places])
    each = (time.monotonic() - start) / len(places)
    rows = [row_of(defense, i, settings[i], o) for i, o in zip(places, outcomes, strict=True)]
    return [r._replace(published=point_key(r.params) in published, seconds=round(each, 2)) for r in rows]


def row_of(defense: str, place: int, params: dict[str, Any], outcome: Outcome) -> Row:
    """Return a trial's row; whether it is published, and how long it took, is the caller's to say."""
    return Row(
        defense=defense,
        place=place,
        params=params,
        published=False,
        outcome=outcome.outcome,
        utility=[round(v, 6) for v in outcome.utility.values] if outcome.utility else [],
        leakage=None if outcome.leakage is None else round(outcome.leakage, 6),
        advantages={name: [round(v, 6) for v in score.advantages] for name, score in outcome.attackers.items()},
        seconds=0.0,
    )


def add_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows to a table, and see to it that they are on the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())


def _progress(rows: Sequence[Row], left: Sequence[tuple[str, list[int]]]) -> str:
    ended = ", ".join(sorted({r.outcome for r in rows}))
    waiting = sum(len(places) for _, places in left)
    begun = f"{time.strftime('%H:%M:%S')} {rows[0].defense}: {len(rows)} {ended}"
    return f"{begun}, {rows[0].seconds:.1f} s each; {waiting} wait"


def main() -> None:
    """Make a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=DATASETS)
    parser.add_argument("--settings", type=int, default=24)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--last", nargs="*", default=["discorloss"], metavar="DEFENSE", help="after all others")
    given = parser.parse_args()
    wanted = {"settings": given.settings, "minutes": given.minutes, "workers": given.workers}
    tabulate(given.dataset, table_of(given.dataset), **wanted, last=given.last)


if __name__ == "__main__":
    main()
