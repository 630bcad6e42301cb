"""Cost of every registered defense: CPU seconds of a training over those of ``none`` in the same run.

Run: python -m benchmarks.defenses [--dims 16 128] [--classes 2] [--defenses laplace ppdl] [--repeats 7]
     python -m benchmarks.defenses --recipes spambase spambase:split=0.5 digits --repeats 3 (with TUNE_VFL_DATA)

Each defense is trained at its default parameters, a trial alone and the pack that a search with 3 seeds makes. Every
training under a defense is timed next to one under ``none``, on the same model, and the median of those ratios counts.
What is made once before the training (teachers, codecs, tables) is counted apart, on its first use. A defense that the
problem's network cannot serve is tried on the next one of ``NETWORKS``; one that none of them serves is listed with the
reason. The problem is made up, or that of data sets with their own recipes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from benchmarks.problem import ROWS, TRAINING
from tune_vfl.defenses.base import DEFENSES, defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation.federations.vertical import Vertical
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.evaluation.task import Task
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict, parse

SEEDS, TRIALS = (0, 1, 2), 6
ALONE, STACKED = Pack((0,), None), Pack(SEEDS, TRIALS)
WATCHES = "pmc"
"""The attack of every cell: it is for any number of classes, and has nothing recorded while a network is trained."""
NETWORKS: list[dict[str, Any]] = [{}, {"name": "gafm"}]
"""Models laid over the problem's own: perceptrons with a logit a class, else a sigmoid embedding and one logit."""


class Problem(NamedTuple):
    """A problem to train on.

    Attributes:
        label: what it is called.
        spec: what a spec says of it: data set, model, training.
    """

    label: str
    spec: Mapping[str, Any]

    @classmethod
    def made_up(cls, d: int, classes: int = 2, rows: int = ROWS, epochs: int | None = None) -> Problem:
        """Return the made-up one with embeddings of width d, in batches of 256."""
        data = {"name": "made_up", "rows": rows, "classes": classes}
        return cls(f"d = {d}", {"dataset": data, "model": {"embedding_dim": d}, **_training(epochs or TRAINING.epochs)})

    @classmethod
    def recipe(cls, dataset: str, epochs: int | None = None) -> Problem:
        """Return a data set, ``name`` or ``name:option=value``, with its own recipe, but for epochs that are given."""
        name, _, option = dataset.partition(":")
        key, _, value = option.partition("=")
        options = {key: yaml.safe_load(value)} if option else {}
        return cls(
            dataset, {"dataset": {"name": name, **options}, "model": {}, **(_training(epochs) if epochs else {})}
        )

    def task(self, defense: str, network: Mapping[str, Any]) -> Task:
        """Return the cell of a defense on one of the networks.

        Raises:
            SpecError: where the two do not go together.
        """
        spec = {**self.spec, "model": {**network, **self.spec["model"]}}
        return open_task(parse({"study": "b", **spec, "defense": {"name": defense}, "attacks": [WATCHES]}))


def _training(epochs: int) -> dict[str, Any]:
    return {"training": {"epochs": epochs}}


class Timing(NamedTuple):
    """CPU seconds of one training, and of everything that was made before it."""

    setup: float
    train: float


def timed(task: Task, pack: Pack) -> Timing:
    """Train a pack under the task's defense at its default parameters."""
    start = time.process_time()
    training = Vertical(task, [_default(task)] * (pack.trials or 1), pack)
    ready = time.process_time()
    for _ in training.steps():
        pass
    return Timing(ready - start, time.process_time() - ready)


def _default(task: Task) -> Strict:
    return defense_params(task.cell.defense, {}, num_classes=task.cell.num_classes)


class TimesOfDefense(NamedTuple):
    """One line of the table: median seconds under ``none``, the ratio over it, and the set-up's seconds."""

    none: float
    ratio: float
    setup: float


def measure(plain: Task, defended: Task, pack: Pack, repeats: int) -> TimesOfDefense:
    """Time ``none`` and a defense in turns."""
    setup = timed(defended, pack).setup - timed(plain, pack).setup
    times = [(timed(plain, pack).train, timed(defended, pack).train) for _ in range(repeats)]
    ratio = statistics.median(defense / none for none, defense in times)
    return TimesOfDefense(statistics.median(none for none, _ in times), ratio, max(setup, 0.0))


def tasks_of(name: str, problem: Problem) -> tuple[Task, Task]:
    """Return ``none`` and the defense on the first network that the defense can be used with.

    Raises:
        SpecError: why it cannot be used with the first one, where no network serves.
    """
    reasons = []
    for network in NETWORKS:
        try:
            return problem.task("none", network), problem.task(name, network)
        except SpecError as error:
            reasons.append(error)
    raise reasons[0]


def table(names: Sequence[str], problem: Problem, repeats: int) -> Iterator[str]:
    """Yield the lines of the table for one problem, each as soon as it is measured."""
    yield f"| defense, {problem.label} | alone | pack of {TRIALS * len(SEEDS)} | set-up, CPU s |"
    yield "|---|---|---|---|"
    seconds: list[tuple[float, float]] = []
    left_out = []
    for name in names:
        try:
            plain, defended = tasks_of(name, problem)
        except SpecError as error:
            left_out.append(f"{name}: not here: {error}")
            continue
        alone = measure(plain, defended, ALONE, repeats)
        together = measure(plain, defended, STACKED, repeats) if defended.stacks(_default(defended)) else None
        seconds += [(alone.none, together.none)] if together else []
        pack = f"{together.ratio:.2f}" if together else "does not stack"
        yield f"| {name} | {alone.ratio:.2f} | {pack} | {alone.setup:.2f} |"
    if seconds:
        medians = ", ".join(f"{statistics.median(column):.3f}" for column in zip(*seconds, strict=True))
        yield f"none: CPU s of a training, alone and in a pack: {medians}"
    yield from left_out


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", nargs="+", type=int, default=[16, 128])
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--defenses", "--only", nargs="+", default=[n for n in DEFENSES if n != "none"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--recipes", nargs="+", default=[], help="data sets in place of the made-up problem")
    parser.add_argument("--epochs", type=int, help="other epochs than the problem's own")
    given = parser.parse_args(arguments)
    prepare_process()
    made_up = [Problem.made_up(d, given.classes, given.rows, given.epochs) for d in given.dims]
    for problem in [Problem.recipe(name, given.epochs) for name in given.recipes] or made_up:
        for line in table(given.defenses, problem, given.repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
