"""False positives of ``default``, or of other attacks, on trainings with gradients that are noise.

Run: python -m benchmarks.false_positives [--seeds 60] [--tables 2] [--rows 300 1000 5000] [--in-a-study 3 10]
     [--attacks default my_attack]

The defense is ``gaussian`` with sigma 10: no label passes through it, and the true leakage is 0. A line is one balance
of classes and one number of rows, over tables of 20 columns that are drawn anew, half of them at each party. The seeds
of a table are cut into studies of 3 (or 10). Counted is how often the lower end of a study's 90% interval lies above 0,
of each attack alone and of all of them together: 5% are allowed, plus 1.645 standard errors of a share among as many
studies; what is more than that is marked. Beside it stand the floor and the mean advantage of the attack's candidates
over all seeds, with its standard error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field

from tune_vfl.confirmation.values import fresh, names_of
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.records.confirmations import SeedRecord, records_of
from tune_vfl.spec import Named, Strict, Training, parse
from tune_vfl.statistics import leakage_bounds

SIGMA = 10.0
ALLOWED = 0.05
ALL = "all"
LABELS = {"2 classes": (2, 0.5), "10 classes": (10, 0.1), "5% positives": (2, 0.05)}


class NoiseOptions(Strict):
    """A table."""

    rows: int = Field(1000, ge=100, description="rows, 30% of them for the test")
    classes: int = Field(2, ge=2, description="classes")
    share: float = Field(0.5, gt=0, lt=1, description="of the last class, where there are two")
    doubt: float = Field(1.0, ge=0, description="noise in the rule; the less, the more do features alone say of labels")
    table: int = Field(0, ge=0, description="which draw")


@dataset("noise_table")
class NoiseTable(Loader[NoiseOptions]):
    """Twenty columns at two parties and a linear rule with noise, so that features say something of labels."""

    summary = "20 normal columns at two parties, a noisy linear rule"
    reference = "this benchmark"
    Options = NoiseOptions

    def load(self, options: NoiseOptions, root: Path) -> Dataset:
        """Draw it; the data root is not needed."""
        g = torch.Generator().manual_seed(1 + options.table)
        x = torch.randn(options.rows, 20, generator=g)
        outputs = 1 if options.classes == 2 else options.classes
        rule = torch.randn(20, outputs, generator=g) / math.sqrt(20)
        scores = x @ rule + options.doubt * torch.randn(options.rows, outputs, generator=g)
        positive = scores[:, 0] > scores[:, 0].quantile(1 - options.share)
        return Dataset(
            name="noise_table",
            passive=(Columns("passive", x[:, :10].contiguous()),),
            active=Columns("active", x[:, 10:].contiguous()),
            y=positive.long() if outputs == 1 else scores.argmax(-1),
            class_names=tuple(str(k) for k in range(options.classes)),
            metric="auc" if outputs == 1 else "accuracy",
            recipe=Recipe(
                model=Named(name="mlp", bottom_hidden=(32,), top_hidden=(32,)),
                training=Training(epochs=10, batch_size=64, lr=1e-3),
            ),
            fingerprint=options.model_dump_json(),
        )


class Counted(NamedTuple):
    """One attack, or all of them, on noise.

    Attributes:
        above: share of the studies whose lower end lies above 0.
        studies: how many studies there were, each with its own seeds.
        floor: of the attack, a mean; NaN of all together.
        mean, se: of its candidates' advantage, over all studies.
    """

    above: float
    studies: int
    floor: float
    mean: float
    se: float

    @property
    def too_many(self) -> bool:
        """Whether that is more than 5% and its error."""
        return self.above > ALLOWED + 1.645 * math.sqrt(ALLOWED * (1 - ALLOWED) / self.studies)


Records = Sequence[SeedRecord]


def measured(
    kind: str, rows: int, table: int, seeds: int, doubt: float = 1.0, attacks: Sequence[str] = ("default",)
) -> Records:
    """Return the record of each seed."""
    classes, share = LABELS[kind]
    named = {"name": "noise_table", "rows": rows, "classes": classes, "share": share, "table": table, "doubt": doubt}
    raw = {"study": "noise", "dataset": named, "defense": "gaussian", "attacks": list(attacks)}
    cell = resolve(parse({**raw, "budget": {"seeds": seeds}}))
    references = measure_references(cell)
    (outcome,) = evaluate_pack(cell, [{"sigma": SIGMA}], references)
    return list(records_of(outcome, cell.seeds, references).values())


def studies_of(records: Records, size: int) -> Iterator[Records]:
    """Cut seeds into studies of ``size``."""
    return (records[start : start + size] for start in range(0, len(records) - size + 1, size))


def counts(tables: Sequence[Records], size: int) -> dict[str, Counted]:
    """Return what each attack, and ``all`` of them, come to over the records of several tables."""
    names = names_of([], [r for records in tables for r in records])
    attacks = [*dict.fromkeys(attack for attack, _ in names), ALL]
    studies = [study for records in tables for study in studies_of(records, size)]
    blocks = [fresh([study], names) for study in studies]
    found = {}
    for attack in attacks:
        own = [k for k, (a, _) in enumerate(names) if attack in (a, ALL)]
        above = [leakage_bounds(b.advantages[own], b.limits.of(own, [0]))[0].lower > 0 for b in blocks]
        means = [float(b.advantages[own].mean()) for b in blocks]
        floor = math.nan if attack == ALL else float(np.mean([_floor(s, attack) for s in studies]))
        se = float(np.std(means, ddof=1)) / math.sqrt(len(means))
        found[attack] = Counted(float(np.mean(above)), len(studies), floor, float(np.mean(means)), se)
    return found


def _floor(study: Records, attack: str) -> float:
    seen = [record.attacks[attack] for record in study]
    return max(float(np.mean([s.guess for s in seen])), float(np.mean([s.r_lower or 0.0 for s in seen])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 5000])
    parser.add_argument("--in-a-study", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--labels", nargs="+", choices=list(LABELS), default=list(LABELS))
    parser.add_argument("--doubt", type=float, default=1.0, help="noise in the rule: .1 brings floors near 1")
    parser.add_argument("--attacks", nargs="+", default=["default"])
    given = parser.parse_args()
    prepare_process()
    head = ["labels", "rows", "seeds", "studies", "attack", "floor", "lower end above 0", "mean advantage"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for kind in given.labels:
        for rows in given.rows:
            tables = [measured(kind, rows, n, given.seeds, given.doubt, given.attacks) for n in range(given.tables)]
            for size in given.in_a_study:
                for attack, c in counts(tables, size).items():
                    share = f"{c.above:.3f}{' **!**' if c.too_many else ''}"
                    cells = [
                        kind,
                        rows,
                        size,
                        c.studies,
                        attack,
                        f"{c.floor:.3f}",
                        share,
                        f"{c.mean:+.3f} ± {c.se:.3f}",
                    ]
                    print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
