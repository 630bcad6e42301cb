"""False positives of ``default``, or of other attacks, on trainings whose messages say nothing of labels.

Run: python -m benchmarks.false_positives [--seeds 60] [--tables 2] [--rows 300 1000 5000] [--in-a-study 3 10]
     [--specs board/breast_cancer.yaml] [--defense gaussian] [--param sigma=10] [--attacks default my_attack]

The defense is ``gaussian`` with sigma 10, or another that lets nothing through (``label_dp`` with epsilon .001 teaches
coins): the true leakage is 0. A line is one table of the specs; or, without any, one balance of classes and one number
of rows, over tables of 20 columns that are drawn anew, half of them at each party. The seeds of a table are cut into
studies of 3 (or 10). Counted is how often the lower end of a study's 90% interval lies above 0,
of each attack alone and of all of them together: 5% are allowed, plus 1.645 standard errors of a share among as many
studies; what is more than that is marked. Beside it stand the floor and the mean advantage of the attack's candidates
over all seeds, with its standard error. Of the same trainings it is counted twice: with each attack's own floor, and
with the one of its party.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from pydantic import Field

from tune_vfl.confirmation.values import fresh, names_of
from tune_vfl.data.base import Columns, Dataset, Loader, Recipe, dataset
from tune_vfl.evaluation import evaluate_pack, measure_references
from tune_vfl.evaluation.resolving import resolve
from tune_vfl.machine.runtime import prepare_process
from tune_vfl.records.confirmations import SeedRecord, records_of
from tune_vfl.spec import Named, Strict, Training, parse
from tune_vfl.statistics import chosen_floor, leakage_bounds

TOGETHER = 10
"""Seeds that are trained in one pass."""
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


def noise_spec(kind: str, rows: int, table: int, doubt: float = 1.0) -> dict[str, Any]:
    """Return the spec of a drawn table."""
    classes, share = LABELS[kind]
    named = {"name": "noise_table", "rows": rows, "classes": classes, "share": share, "table": table, "doubt": doubt}
    return {"study": "noise", "dataset": named}


def measured(
    spec: Mapping[str, Any], seeds: int, defense: str, params: Mapping[str, Any], attacks: Sequence[str]
) -> Records:
    """Return the record of each seed.

    Args:
        spec: data, model, training and threat.
        seeds: from 0 on; a few at a time are trained together.
        defense: for ``params``.
        params: a setting through which no label passes.
        attacks: names.
    """
    asked = {"defense": defense, "attacks": list(attacks), "budget": {"seeds": 1}}
    cell = resolve(parse({**spec, **asked}))
    found: list[SeedRecord] = []
    for first in range(0, seeds, TOGETHER):
        some = tuple(range(first, min(first + TOGETHER, seeds)))
        of_some = cell.model_copy(update={"seeds": some})
        references = measure_references(of_some)
        (outcome,) = evaluate_pack(of_some, [params], references)
        found += records_of(outcome, some, references).values()
    return found


def with_own_floors(records: Records) -> Records:
    """Return the records with each attack's own floor in the place of its party's."""
    return [record.model_copy(update={"floors": {}}) for record in records]


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
    held = [record.without_messages(attack) for record in study]
    without = {way: [of[way] for of in held] for way in held[0]}
    return float(chosen_floor([record.attacks[attack].guess for record in study], without).by_seed.mean())


def told(name: str, tables: Sequence[Records], sizes: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a table of data, or of several drawn ones."""
    for size in sizes:
        for floors, records in (("own", [with_own_floors(of) for of in tables]), ("party's", tables)):
            for attack, c in counts(records, size).items():
                share = f"{c.above:.3f}{' **!**' if c.too_many else ''}"
                row = [name, size, c.studies, floors, attack, f"{c.floor:.3f}", share, f"{c.mean:+.3f} ± {c.se:.3f}"]
                yield f"| {' | '.join(map(str, row))} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 5000])
    parser.add_argument("--in-a-study", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--labels", nargs="+", choices=list(LABELS), default=list(LABELS))
    parser.add_argument("--doubt", type=float, default=1.0, help="noise in the rule: .1 brings floors near 1")
    parser.add_argument(
        "--specs", type=Path, nargs="*", default=[], help="conditions of data sets, such as board/*.yaml"
    )
    parser.add_argument("--defense", default="gaussian")
    parser.add_argument("--param", nargs="+", default=["sigma=10"])
    parser.add_argument("--attacks", nargs="+", default=["default"])
    given = parser.parse_args()
    prepare_process()
    params = {name: yaml.safe_load(value) for name, value in (param.split("=", 1) for param in given.param)}
    asked = given.seeds, given.defense, params, given.attacks
    head = ["data", "seeds", "studies", "floor of", "attack", "floor", "lower end above 0", "mean advantage"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    drawn = [(kind, rows) for kind in given.labels for rows in given.rows]
    of_each: list[tuple[str, list[dict[str, Any]]]] = [
        (path.stem, [yaml.safe_load(path.read_text(encoding="utf-8"))]) for path in given.specs
    ] or [(f"{k}, {n} rows", [noise_spec(k, n, t, given.doubt) for t in range(given.tables)]) for k, n in drawn]
    for name, specs in of_each:
        for line in told(name, [measured(spec, *asked) for spec in specs], given.in_a_study):
            print(line, flush=True)


if __name__ == "__main__":
    main()
