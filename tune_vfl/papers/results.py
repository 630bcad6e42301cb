"""Results of the evaluations behind a table: kept by seed in one JSON file a table, written after every seed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from tune_vfl.errors import TuneVflError, shortened
from tune_vfl.machine.files import written_whole
from tune_vfl.machine.places import home
from tune_vfl.outcome import OutcomeName, Score
from tune_vfl.papers.measured import measure, names_in
from tune_vfl.papers.reading import papers_folder
from tune_vfl.spec import Strict, explain
from tune_vfl.spec.cell import MEASURE, is_measured_as_today

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tune_vfl.papers.tables import Evaluation, Table


class Number(Strict):
    """A mean over seeds, with their sample deviation."""

    mean: float
    std: float
    seeds: int = Field(ge=1)

    @classmethod
    def of(cls, values: Iterable[float]) -> Number:
        """Summarize one value a seed."""
        score = Score.of("", list(values))
        return cls(mean=score.mean, std=score.std, seeds=len(score.values))


class SeedResult(Strict):
    """One seed of an evaluation: its scores by name, and the seconds it took; without scores where it failed."""

    outcome: OutcomeName = "ok"
    reason: str = ""
    scores: dict[str, float] = Field(default_factory=dict)
    seconds: float = 0.0

    def has(self, formulas: Iterable[str]) -> bool:
        """Whether every formula can be computed of it; of a failed one nothing is left to compute."""
        return self.outcome != "ok" or all(name in self.scores for f in formulas for name in names_in(f))


class Recorded(Strict):
    """Numbers of an earlier measurement whose single seeds were not kept.

    Attributes:
        measure: how studies measured then, see :data:`tune_vfl.spec.cell.MEASURE`.
        date: when it was recorded.
        command: what was run, where it was another command than the evaluation's today.
        columns: a number a column.
    """

    measure: int
    date: str
    command: str = ""
    columns: dict[str, Number]


class Results(Strict):
    """The stored results of one evaluation.

    Attributes:
        raw: the spec that was run, without seeds.
        command: what runs it.
        measure, version, date: how, with which version and when the last seed was measured.
        data, rows: fingerprint and number of the rows.
        seeds: by seed.
        recorded: an earlier measurement, shown where there is no seed.
    """

    raw: dict[str, Any] = Field(default_factory=dict)
    command: str = ""
    measure: int = MEASURE
    version: str = ""
    date: str = ""
    data: str = ""
    rows: int = 0
    seeds: dict[int, SeedResult] = Field(default_factory=dict)
    recorded: Recorded | None = None

    def stale(self, evaluation: Evaluation) -> bool:
        """Whether its seeds were measured by another recipe than today's, or before its scores changed."""
        if not self.seeds:
            return False
        attacks = [a if isinstance(a, str) else a["name"] for a in evaluation.raw["attacks"]]
        return self.raw != evaluation.raw or not is_measured_as_today(self.measure, attacks)

    def number(self, formula: str) -> Number | None:
        """Return a formula's number over the seeds that have one; None without any."""
        values = [measure(formula, s.scores) for s in self.seeds.values() if s.scores and s.has([formula])]
        return Number.of(values) if values else None


class TableResults(Strict):
    """The stored results of a table, by the label of an evaluation."""

    table: str
    evaluations: dict[str, Results] = Field(default_factory=dict)

    def with_kept(self, kept: Mapping[str, Results]) -> TableResults:
        """Return these results with some evaluations in place of their own."""
        return self.model_copy(update={"evaluations": {**self.evaluations, **kept}})


def kept_folder() -> Path:
    """Return the folder of the results that come with the package."""
    return papers_folder() / "results"


def read_results(folder: Path, table: str) -> TableResults:
    """Read a table's results; nothing where there is no file.

    Raises:
        TuneVflError: for a file that is broken.
    """
    path = folder / f"{table}.json"
    if not path.is_file():
        return TableResults(table=table)
    try:
        return TableResults.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problems = shortened(explain(error, TableResults), 3, "; ")
        raise TuneVflError(f"{path}: expected results as `reproduce` keeps them: {problems}; remove it") from error


def every_result(folder: Path) -> list[Results]:
    """Return all that a folder keeps of any evaluation of any table."""
    tables = [read_results(folder, path.stem) for path in sorted(folder.glob("*.json"))]
    return [kept for results in tables for kept in results.evaluations.values()]


def freshest(table: Table, results: TableResults, every: Iterable[Results]) -> TableResults:
    """Return a table's results with the best of each evaluation: today's, with the most seeds, of any table.

    Where none is today's, seeds of the same training are better than a record without any.

    Args:
        table: the table.
        results: what is kept of it.
        every: what is kept of all tables.
    """
    held, best = [one for one in every if one.seeds], {}
    for evaluation in table.evaluations:
        formulas = list(table.formulas(evaluation).values())
        same = [one for one in held if one.raw == evaluation.raw and not one.stale(evaluation)]
        if not same and not results.evaluations.get(evaluation.label, Results()).seeds:
            same = [one for one in held if {**one.raw, "attacks": ()} == {**evaluation.raw, "attacks": ()}]
        whole = [one for one in same if all(seed.has(formulas) for seed in one.seeds.values())]
        if whole and formulas:
            best[evaluation.label] = max(
                whole, key=lambda one: (len(one.seeds), len(one.seeds[min(one.seeds)].scores), one.measure)
            )
    return results.with_kept(best)


def write_results(folder: Path, results: TableResults) -> None:
    """Write a table's results whole or not at all, a line a seed, evaluations by label."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = [f"{_text(label)}: {_block(kept)}" for label, kept in sorted(results.evaluations.items())]
    text = f'{{"table": {_text(results.table)}, "evaluations": {{\n' + ",\n".join(blocks) + "\n}}\n"
    with written_whole(folder / f"{results.table}.json") as path:
        path.write_text(text, encoding="utf-8")


def _block(kept: Results) -> str:
    plain = kept.model_dump(mode="json", exclude_defaults=True)
    seeds = plain.pop("seeds", {})
    head = _text({**plain, "measure": kept.measure} if kept.seeds else plain)
    if not seeds:
        return head
    in_order = sorted(seeds.items(), key=lambda entry: int(entry[0]))
    lines = ",\n".join(f"  {_text(str(seed))}: {_text(result)}" for seed, result in in_order)
    return f'{head[:-1]}, "seeds": {{\n{lines}}}}}'


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def home_folder() -> Path:
    """Return the folder of the results of this home."""
    return home() / "reproduced"


def best_results(table: str, folder: Path | None = None) -> TableResults:
    """Return a table's results.

    Args:
        table: its name.
        folder: where they are kept; None takes those that come with the package, and this home's in place of those that
            have fewer seeds.
    """
    if folder is not None:
        return read_results(folder, table)
    kept, mine = read_results(kept_folder(), table), read_results(home_folder(), table)
    fewer = {label: Results() for label in mine.evaluations} | kept.evaluations
    return kept.with_kept({k: v for k, v in mine.evaluations.items() if len(v.seeds) > len(fewer[k].seeds)})
