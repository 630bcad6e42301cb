"""Evaluations of a table that are run here: which, in which order, and what each lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tune_vfl.errors import DataError, SpecError
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.machine.version import VERSION
from tune_vfl.papers.comparison import price_of
from tune_vfl.papers.measured import kept_of, scores_of
from tune_vfl.papers.results import Results, SeedResult, TableResults
from tune_vfl.spec import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_vfl.evaluation.task import Task
    from tune_vfl.outcome import Outcome
    from tune_vfl.papers.tables import Evaluation, Table
    from tune_vfl.spec.cell import Cell


@dataclass(frozen=True, eq=False)
class Owed:
    """An evaluation that can be run here.

    Attributes:
        evaluation: as its table has it.
        formulas: what is measured.
        cell: resolved, without seeds.
        kept: what there is of it; of another recipe, measure or data nothing.
        seeds: those that lack a column.
    """

    evaluation: Evaluation
    formulas: tuple[str, ...]
    cell: Cell
    kept: Results
    seeds: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """The CPU seconds of one seed, about."""
        return price_of(self.evaluation, self.kept)

    def result_of(self, outcome: Outcome) -> SeedResult:
        """Return what is kept of an outcome of one seed.

        Raises:
            SpecError: when a column's formula names a score that the evaluation does not have.
        """
        seconds = round(sum(outcome.seconds.values()), 2)
        if outcome.outcome != "ok":
            return SeedResult(outcome=outcome.outcome, reason=outcome.reason, seconds=seconds)
        return SeedResult(scores=kept_of(scores_of(outcome), self.formulas), seconds=seconds)


@dataclass
class TablePlan:
    """The evaluations of a table.

    Attributes:
        owed: those that can be run, cheapest first.
        refused: why others cannot be run here, by label.
    """

    owed: list[Owed] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def plan(
    table: Table,
    results: TableResults,
    seeds: Sequence[int],
    dataset: str | None = None,
    every: Sequence[Results] = (),
) -> TablePlan:
    """Resolve a table's evaluations.

    Args:
        table: the table.
        results: what is kept of it.
        seeds: the seeds that are wanted of each evaluation.
        dataset: only those on this data set.
        every: what is kept of all tables, of which an evaluation may be another one's.
    """
    found = TablePlan()
    for evaluation in table.evaluations:
        formulas = tuple(table.formulas(evaluation).values())
        if not formulas or (dataset is not None and evaluation.dataset != dataset):
            continue
        try:
            task = open_task(parse({**evaluation.raw, "budget": {"seeds": 1}}))
        except DataError as error:
            found.refused[evaluation.label] = str(error).partition("; ")[0]
            continue
        except SpecError as error:
            found.refused[evaluation.label] = "; ".join(error.problems)
            continue
        kept = _known(evaluation, formulas, task, results, every)
        lacking = tuple(s for s in seeds if s not in kept.seeds or not kept.seeds[s].has(formulas))
        found.owed.append(Owed(evaluation, formulas, task.cell.model_copy(update={"seeds": ()}), kept, lacking))
    found.owed.sort(key=lambda one: one.seconds * max(1, len(one.seeds)))
    return found


def _known(
    evaluation: Evaluation, formulas: Sequence[str], task: Task, results: TableResults, every: Sequence[Results]
) -> Results:
    """Return what there is of an evaluation today: of this recipe, measure and these rows, the most of any table."""
    own = results.evaluations.get(evaluation.label, Results())
    same = [one for one in (own, *every) if one.data == task.dataset.fingerprint and not one.stale(evaluation)]
    best = max(same, key=lambda one: sum(seed.has(formulas) for seed in one.seeds.values()), default=Results())
    command = f"tune-vfl reproduce {results.table} --dataset {evaluation.dataset}"
    how = {"raw": evaluation.raw, "command": command, "version": VERSION, "recorded": own.recorded}
    return best.model_copy(update={**how, "data": task.dataset.fingerprint, "rows": len(task.dataset.y)})
