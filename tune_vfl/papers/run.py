"""Run the evaluations of a published table that are owed, and keep each seed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tune_vfl.errors import StudyError, UnknownNameError
from tune_vfl.execution.runner import Runner, leased
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.ledger.lease import LeaseLostError
from tune_vfl.ledger.storage import storage_at
from tune_vfl.papers.owed import TablePlan, plan
from tune_vfl.papers.reading import find_table
from tune_vfl.papers.results import Results, TableResults, every_result, read_results, write_results
from tune_vfl.papers.source import TableJobs
from tune_vfl.spec import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tune_vfl.ledger.lease import Lease


@dataclass(frozen=True)
class Reproduced:
    """The end of a run.

    Attributes:
        results: all that is kept of the table.
        refused: why evaluations were not run, by label: their files, or the budget.
        failed: evaluations with a seed that could not be measured, with the reason.
        stopped: Ctrl-C ended it early.
    """

    results: TableResults
    refused: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False


def reproduce(
    name: str,
    folder: Path,
    *,
    seeds: int = 10,
    dataset: str | None = None,
    minutes: float | None = None,
    gpu: float = 0,
    say: Callable[[str], None] = lambda text: None,
    work: TrainableSpec | None = None,
) -> Reproduced:
    """Run what is owed of a published table, cheapest evaluation first.

    Args:
        name: the table.
        folder: where results are kept, a file a table; seeds that are there are not run again.
        seeds: how many of each evaluation, from 0.
        dataset: only evaluations on this data set.
        minutes: an evaluation that would not end within them is not begun; with 0 nothing is run.
        gpu: GPUs of one training.
        say: gets messages.
        work: a replacement for the default trainable.

    Raises:
        UnknownNameError: for a table or a data set that there is not.
        StudyError: while another process reproduces this table.
        KeyboardInterrupt: after a second Ctrl-C, and after SIGTERM; finished seeds are kept.
    """
    _, table = find_table(name)
    if dataset is not None and dataset not in (known := [e.dataset for e in table.evaluations]):
        raise UnknownNameError(f"data set of table {name}", dataset, dict.fromkeys(known))
    results = read_results(folder, name)
    found = plan(table, results, range(seeds), dataset, every_result(folder))
    if borrowed := _borrowed(found, results):
        results = results.with_kept(borrowed)
        write_results(folder, results)
    if minutes == 0 or not any(one.seeds for one in found.owed):
        return Reproduced(results, found.refused)
    seconds = None if minutes is None else minutes * 60
    source = TableJobs(results, found.owed, write=lambda now: write_results(folder, now), seconds=seconds, say=say)
    resources, datasets = Resources(gpu=gpu), [one.cell.dataset for one in found.owed]
    with _only_one(name, resources) as lease:
        work = work or replace(TrainableSpec.real(), options={"training_rows": True})  # utility on those rows, too
        runner = Runner(name, lease, resources, work, datasets, partial(_left, name), say)
        stopped = runner.run(source)
    return Reproduced(source.results, {**found.refused, **source.refused}, source.failed, stopped)


def _borrowed(found: TablePlan, results: TableResults) -> dict[str, Results]:
    """Return the evaluations of which another table has seeds that this one lacks, or holds by another recipe."""
    today = {one.evaluation.label: one.kept for one in found.owed if one.kept.seeds}
    own = {label: results.evaluations.get(label, Results()) for label in today}
    return {label: one for label, one in today.items() if (one.raw, one.seeds) != (own[label].raw, own[label].seeds)}


@contextmanager
def _only_one(name: str, resources: Resources) -> Iterator[Lease]:
    """Hold the table in this home, as a search holds its study.

    Raises:
        StudyError: while another process does.
    """
    try:
        with leased(f"reproduce {name}", storage_at(None), resources, partial(_left, name)) as lease:
            yield lease
    except LeaseLostError:
        raise
    except StudyError as error:
        raise StudyError(
            f"table {name!r} is being reproduced by another process; wait for it or stop it, and start again: {error}"
        ) from error


def _left(name: str) -> str:
    return f"reproduce {name}: left; what was finished is kept, and the same command goes on"
