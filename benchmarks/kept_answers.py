"""Compare the answers of two versions: evaluations, a search and its confirmation, each number with every digit.

    python -m benchmarks.kept_answers FILE            # run the commands in an empty home, write their answers
    python -m benchmarks.kept_answers BEFORE AFTER    # name each answer that differs; exit 1 where there is one

Another version is run by its own copy, with ``PYTHONPATH`` naming its folder. Times, dates, costs and sentences
are left out. Reads public data (spambase).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tune_vfl import load_study

ON_GRADIENTS = [f"--attack={name}" for name in ("norm", "mean", "direction", "median", "pmc")]
SGD = ["--set=training.optimizer=sgd", "--set=training.lr=0.05", "--set=training.momentum=0.9"]
EVALUATIONS = {
    "spambase none": ["--dataset=spambase", "--defense=none", *ON_GRADIENTS],
    "spambase marvell": ["--dataset=spambase", "--defense=marvell", *ON_GRADIENTS],
    "spambase gafm": ["--dataset=spambase", "--defense=gafm", *ON_GRADIENTS],
    "digits kdk": ["--dataset=digits", "--defense=kdk", "--attack=direct", "--set=model.top=none"],
    "breast_cancer none": ["--dataset=breast_cancer", "--defense=none", "--attack=pmc"],
    "breast_cancer laplace": ["--dataset=breast_cancer", "--defense=laplace", "--attack=norm", *SGD],
}
# One worker and packs of one size: what the sampler has been told at each trial does not hang on the clock.
SPEC = """
study: answers
dataset: breast_cancer
defense: laplace
attacks: [norm, direction, mean]
training: {epochs: 5}
budget: {trials: 24, seeds: 2}
sampler: {name: tpe, seed: 0}
resources: {concurrency: 1, pack: 4}
"""
LEFT_OUT = {"seconds", "cost", "started", "finished", "minutes", "mlflow", "says", "why"}


def answer(*arguments: str) -> Any:
    """Run a verb and return its JSON."""
    done = subprocess.run([sys.executable, "-m", "tune_vfl", *arguments, "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def answers(folder: Path) -> dict[str, Any]:
    """Run all commands; return their answers by name."""
    found = {name: answer("evaluate", "--seeds=2", *options) for name, options in EVALUATIONS.items()}
    spec = folder / "spec.yaml"
    spec.write_text(SPEC)
    found["search"] = answer("search", str(spec))
    found["confirm"] = answer("confirm", "answers", "--seeds=3")
    found["trials"] = load_study("answers").trials().to_dict(orient="records")
    return found


def numbers(found: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf of an answer by its path, without those that differ from run to run."""
    if isinstance(found, dict):
        for key in sorted(found.keys() - LEFT_OUT):
            yield from numbers(found[key], f"{where}/{key}")
    elif isinstance(found, list):
        for at, one in enumerate(found):
            yield from numbers(one, f"{where}/{at}")
    else:
        yield where, found


def compare(before: Path, after: Path) -> int:
    """Name each answer that differs; return 1 where there is one."""
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    differing = [name for name in first | second if first.get(name, "missing") != second.get(name, "missing")]
    for name in differing:
        print(f"{name}: {first.get(name, 'missing')} -> {second.get(name, 'missing')}")
    print(f"{len(differing)} of {len(first | second)} answers differ")
    return int(bool(differing))


def main(arguments: list[str]) -> int:
    if len(arguments) == 2:
        return compare(*map(Path, arguments))
    (target,) = arguments
    with tempfile.TemporaryDirectory(prefix="answers-") as folder:
        os.environ |= {"TUNE_VFL_HOME": str(Path(folder) / "home"), "OMP_NUM_THREADS": "1"}
        os.environ.pop("TUNE_VFL_STORAGE", None)
        found = dict(numbers(answers(Path(folder))))
    Path(target).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
