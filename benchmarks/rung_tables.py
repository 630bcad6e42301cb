"""Tables of settings trained for a third of the epochs, beside those of whole trainings that were kept before.

A table is a file of JSON lines, a trial a line, that goes on where it stopped. CPU seconds are a trial's share of its
pack's; ``train`` and ``rest`` (attacks, scores) divide them as their wall seconds in the same process do.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.trial_tables import FOLDER, PACK, Row, add_lines, part, read, row_of, table_of
from tune_vfl.errors import SpecError
from tune_vfl.spaces.space import point_key

DEFENSES = (
    "laplace",
    "gradient_compression",
    "label_dp",
    "discorloss",
    "mid",
    "iso",
    "fedpass",
    "discrete_sgd",
    "sgsub",
    "kdk",
)
SETTINGS = 24
"""Settings of a defense that are drawn, as the tables of whole trainings have them; the first of these are used."""


class Trained(NamedTuple):
    """A trial of some epochs: what came of it, and the CPU seconds of its training and of the rest."""

    row: Row
    epochs: int
    train: float
    rest: float

    @property
    def setting(self) -> tuple[str, str]:
        return self.row.defense, point_key(self.row.params)


class Pair(NamedTuple):
    """One setting after a third of the epochs and after all."""

    third: Trained
    whole: Row


def rungs_of(dataset: str, folder: Path = FOLDER) -> Path:
    """Return where the table of a data set is kept."""
    return folder / f"rungs-{dataset}.jsonl"


def read_rungs(path: Path) -> list[Trained]:
    """Return a table's trials; none where there is no table yet."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        raw: dict[str, Any] = json.loads(line)
        took = {name: raw.pop(name) for name in ("epochs", "train", "rest")}
        found.append(Trained(Row(**raw), **took))
    return found


def pairs(dataset: str, folder: Path = FOLDER) -> list[Pair]:
    """Return the settings of which both are known, by defense and place.

    Those of a data set that has a table of whole trainings are read there, those of another in its own table.
    """
    trained = read_rungs(rungs_of(dataset, folder))
    most = max((t.epochs for t in trained), default=0)
    known = {(r.defense, point_key(r.params)): r for r in read(table_of(dataset, folder))}
    if not known:
        known = {t.setting: t.row for t in trained if t.epochs == most}
        trained = [t for t in trained if t.epochs < most]
    both = [Pair(t, known[t.setting]) for t in trained if t.setting in known]
    return sorted(both, key=lambda p: (p.third.row.defense, p.third.row.place))


def tabulate(dataset: str, path: Path, *, settings: int, whole: bool, minutes: float) -> None:
    """Run what a table lacks, one pack at a time, the first settings of all defenses first.

    Args:
        dataset: a key of ``WITH_RUNGS``.
        path: of the table.
        settings: how many of each defense.
        whole: train whole too, where there is no other table of that.
        minutes: nothing new begins after.
    """
    held = {(*t.setting, t.epochs) for t in read_rungs(path)}
    end = time.monotonic() + 60 * minutes
    for defense, places, epochs in list(_packs(dataset, settings, whole=whole)):
        known = part(dataset, defense, SETTINGS).settings
        missing = [i for i in places if (defense, point_key(known[i]), epochs) not in held]
        if missing and time.monotonic() < end:
            trained = run_pack(dataset, defense, missing, epochs)
            add_lines(path, [{**t.row._asdict(), **dict(zip(t._fields[1:], t[1:], strict=True))} for t in trained])
            one = trained[0]
            print(f"{time.strftime('%H:%M:%S')} {dataset} {defense} {epochs} epochs: {len(trained)}", flush=True)
            print(f"    CPU s a trial: {one.train:.2f} training, {one.rest:.2f} the rest", flush=True)


def _packs(dataset: str, settings: int, *, whole: bool) -> Iterator[tuple[str, list[int], int]]:
    for first in range(0, settings, PACK):
        for defense in DEFENSES:
            try:
                study, known = part(dataset, defense, SETTINGS)
            except SpecError:  # not here
                continue
            places = list(range(first, min(first + PACK, settings, len(known))))
            every = study.cell.training.epochs
            yield from ((defense, places, e) for e in (math.ceil(every / 3), *([every] if whole else [])))


def run_pack(dataset: str, defense: str, places: Sequence[int], epochs: int) -> list[Trained]:
    """Evaluate a pack of settings as a search would whose recipe has so many epochs."""
    from tune_vfl.evaluation.attempts import together_or_alone
    from tune_vfl.evaluation.measuring import references_once
    from tune_vfl.evaluation.packs import evaluate_task
    from tune_vfl.evaluation.task import Task
    from tune_vfl.machine.runtime import prepare_process

    prepare_process()
    study, settings = part(dataset, defense, SETTINGS)
    training = study.cell.training.model_copy(update={"epochs": epochs})
    task = Task.open(study.cell.model_copy(update={"training": training}))
    published = {point_key(p.params) for p in study.space.published}
    known = references_once(task)  # once a search, and no part of a trial
    begun = time.process_time()
    outcomes = together_or_alone(lambda some: evaluate_task(task, some, known), [settings[i] for i in places])
    cpu = (time.process_time() - begun) / len(places)
    trained = []
    for place, outcome in zip(places, outcomes, strict=True):
        params = settings[place]
        row = row_of(defense, place, params, outcome)._replace(
            published=point_key(params) in published, seconds=round(cpu, 2)
        )
        wall = outcome.seconds
        share = wall.get("attack", 0.0) / (sum(wall.values()) or 1.0)
        trained.append(Trained(row, epochs, round(cpu * (1 - share), 3), round(cpu * share, 3)))
    return trained
