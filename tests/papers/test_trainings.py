"""A table's run without workers: what is owed, kept and skipped, by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.papers.test_tables import FILE
from trainables.cell import CellTrainable
from tune_vfl.evaluation.resolving import open_task
from tune_vfl.execution.jobs import Flight, Job
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.papers.comparison import compared
from tune_vfl.papers.owed import plan
from tune_vfl.papers.reading import read_paper
from tune_vfl.papers.results import (
    Results,
    SeedResult,
    TableResults,
    every_result,
    freshest,
    read_results,
    write_results,
)
from tune_vfl.papers.source import TableJobs
from tune_vfl.papers.tables import Table
from tune_vfl.papers.tally import tally
from tune_vfl.spec import References, parse

NAME = "test-table1"
TWO = FILE.replace("rows:", "rows:\n      - {dataset: breast_cancer, defense: kdk, published: '.8 | .5'}")


def table_of(text: str = FILE) -> Table:
    return read_paper(text, "test.yaml").tables[NAME]


def run(table: Table, folder: Path, seeds: int = 3, minutes: float | None = None) -> TableJobs:
    results = read_results(folder, NAME)
    seconds = None if minutes is None else minutes * 60
    owed = plan(table, results, range(seeds), None, every_result(folder)).owed
    return TableJobs(results, owed, write=lambda now: write_results(folder, now), seconds=seconds, say=lambda _: None)


class Asked(NamedTuple):
    """A seed that a worker has."""

    source: TableJobs
    job: Job

    @property
    def seed(self) -> int:
        (seed,) = self.job.cell.seeds
        return seed

    def end(self, answers: list[Any]) -> None:
        self.source.store(self.job, answers)


def asked(source: TableJobs) -> list[Asked]:
    """Start all seeds that can start, as where one runs at once."""
    running: list[Job] = []
    while (job := source.next_job("", Flight(running))) is not None:
        running.append(job)
    return [Asked(source, job) for job in running]


def answer(utility: float = 0.9, norm: float = 0.55) -> dict[str, Any]:
    attacks = {"norm": AttackScore.model_validate(Score.of("leak_auc", [norm]).model_dump())}
    found = Outcome(outcome="ok", utility=Score.of("auc", [utility]), attacks=attacks, leakage=0.1, leakage_std=0.0)
    return found.model_copy(update={"seconds": {"train": 2.0}}).model_dump(mode="json")


def test_a_killed_run_goes_on_with_the_seeds_that_it_lacks(tmp_path: Path) -> None:
    first, second, _ = asked(run(table_of(), tmp_path))
    first.end([answer(0.9)])
    second.end([answer(0.92)])
    (last,) = asked(run(table_of(), tmp_path))  # the third seed was in flight when the run was killed
    assert last.seed == 2
    last.end([answer(0.91)])
    assert asked(run(table_of(), tmp_path)) == []
    number = read_results(tmp_path, NAME).evaluations["breast_cancer: none"].number("utility")
    assert number is not None
    assert (round(number.mean, 4), number.seeds) == (0.91, 3)


def test_a_seed_is_asked_of_a_worker_as_an_ordinary_training(tmp_path: Path) -> None:
    message = asked(run(table_of(), tmp_path))[1].job.message()
    assert '"seeds":[1]' in message["cell"]
    assert message["params"] == [{}]
    assert len(message["data"]) > 8


def test_the_same_evaluation_of_another_table_is_not_trained_again(tmp_path: Path) -> None:
    for one in asked(run(table_of(), tmp_path)):
        one.end([answer()])
    (tmp_path / f"{NAME}.json").rename(tmp_path / "test-table2.json")
    moved = (tmp_path / "test-table2.json").read_text(encoding="utf-8").replace(NAME, "test-table2")
    (tmp_path / "test-table2.json").write_text(moved, encoding="utf-8")
    assert asked(run(table_of(FILE.replace("norm: norm}", "ratio: utility / norm}")), tmp_path)) == []
    changed = table_of(FILE.replace("place: table 1", "place: table 1\n    settings: [training.epochs=7]"))
    assert len(asked(run(changed, tmp_path))) == 3


def test_the_best_result_of_any_table_is_shown_and_seeds_before_a_record() -> None:
    (evaluation,) = table_of().evaluations
    number = {"mean": 0.9, "std": 0.01, "seeds": 10}
    record = Results.model_validate({"recorded": {"measure": 1, "date": "2026-11-21", "columns": {"accuracy": number}}})
    own = TableResults(table=NAME, evaluations={evaluation.label: record})

    def seeds(count: int, raw: dict[str, Any]) -> Results:
        return Results(raw=raw, seeds={i: SeedResult(scores={"utility": 0.8, "norm": 0.6}) for i in range(count)})

    def shown(*every: Results) -> Results:
        return freshest(table_of(), own, [record, *every]).evaluations[evaluation.label]

    today, more, other_attack = (
        seeds(3, evaluation.raw),
        seeds(5, evaluation.raw),
        {**evaluation.raw, "attacks": ["mean"]},
    )
    assert shown() == record
    assert shown(today, more, seeds(9, other_attack)) == more
    assert shown(seeds(9, other_attack)) == seeds(9, other_attack)
    assert shown(seeds(9, other_attack)).stale(evaluation), "and it is shown as what it is"
    assert shown(seeds(9, {**evaluation.raw, "training": {"epochs": 7}})) == record


def test_a_failure_of_the_machine_is_not_kept_and_a_divergence_is(tmp_path: Path) -> None:
    trainings = run(table_of(), tmp_path)
    first, second, third = asked(trainings)
    first.end([Outcome.failed("oom", "out of memory").model_dump(mode="json")])
    second.end([Outcome.failed("diverged", "loss became non-finite").model_dump(mode="json")])
    third.end([answer()])
    assert trainings.failed == {"breast_cancer: none": "seed 0: out of memory"}
    assert [one.seed for one in asked(run(table_of(), tmp_path))] == [0]


@pytest.mark.parametrize(
    ("cause", "times", "reason"),
    [("crash", 3, "its worker process died 3 times"), ("node", 10, "the machine that it ran on went away 10 times")],
)
def test_a_lost_seed_is_tried_again_and_then_given_up(tmp_path: Path, cause: Any, times: int, reason: str) -> None:
    trainings = run(table_of(), tmp_path, seeds=1)
    for _ in range(times):
        (one,) = asked(trainings)
        trainings.lose(one.job, cause)
    assert asked(trainings) == []
    assert trainings.failed == {"breast_cancer: none": f"seed 0: {reason}"}


def test_the_budget_stops_before_an_evaluation_that_would_not_fit(tmp_path: Path) -> None:
    dear = TWO.replace("seconds: 1", "seconds: 100")
    trainings = run(table_of(dear), tmp_path, minutes=6)  # three seeds of 100 s fit, six do not
    assert len(asked(trainings)) == 3
    assert list(trainings.refused) == ["breast_cancer: none"]
    (cells,) = [c for c in compared(table_of(dear), trainings.results, trainings.refused) if c.heading == "norm"][1:]
    assert "not run here: about 2 CPU min a seed; 3 seeds do not fit the budget" in cells.says


def test_a_changed_recipe_or_measure_makes_results_stale_and_owed(tmp_path: Path) -> None:
    for one in asked(run(table_of(), tmp_path)):
        one.end([answer()])
    changed = table_of(FILE.replace("place: table 1", "place: table 1\n    settings: [training.epochs=7]"))
    kept = read_results(tmp_path, NAME)
    assert [cell.stale for cell in compared(changed, kept)] == [True, True]
    assert tally(compared(changed, kept)).notes["stale"] == 2
    assert len(plan(changed, kept, range(3)).owed[0].seeds) == 3
    older = kept.evaluations["breast_cancer: none"]
    assert older.model_copy(update={"measure": 1}).stale(table_of().evaluations[0])
    assert not older.model_copy(update={"measure": 3}).stale(table_of().evaluations[0])  # 4 changed other attacks


def test_a_difference_has_the_reason_of_the_file_or_is_unexplained(tmp_path: Path) -> None:
    for one in asked(run(table_of(), tmp_path)):
        one.end([answer(utility=0.5, norm=0.55)])
    accuracy, norm = compared(table_of(), read_results(tmp_path, NAME))
    assert (accuracy.verdict, accuracy.says, norm.verdict) == ("lower", "unexplained", "undecided")
    explained = table_of(FILE.replace('.1"}', '.1", why: {accuracy: fewer rows}}'))
    assert compared(explained, read_results(tmp_path, NAME))[0].says == "fewer rows"


def test_recorded_numbers_are_shown_as_such_until_seeds_are_measured(tmp_path: Path) -> None:
    number = {"mean": 0.9, "std": 0.01, "seeds": 5}
    recorded = {"measure": 1, "date": "2026-11-21", "columns": {"accuracy": number}}
    kept = TableResults(table=NAME, evaluations={"breast_cancer: none": Results.model_validate({"recorded": recorded})})
    write_results(tmp_path, kept)
    accuracy, norm = compared(table_of(), read_results(tmp_path, NAME))
    assert (accuracy.source, accuracy.verdict) == ("recorded", "reproduced")
    assert accuracy.remarks == ("recorded before, not re-run (measure 1, 2026-11-21)",)
    assert norm.verdict is None
    asked(run(table_of(), tmp_path))[0].end([answer()])
    assert compared(table_of(), read_results(tmp_path, NAME))[0].source == "measured"


def test_a_score_that_the_evaluation_does_not_have_is_said_with_those_it_has(tmp_path: Path) -> None:
    table = table_of(FILE.replace("norm: norm}", "norm: norm.top5}"))
    with pytest.raises(Exception, match=r"has no score 'norm\.top5'; it has norm"):
        asked(run(table, tmp_path))[0].end([answer()])


@pytest.mark.parametrize("metric", ["auc", "accuracy"])
def test_a_row_is_measured_on_its_training_rows_too_whatever_its_metric(metric: str) -> None:
    """Whether a recipe learns is told by both: a net may know the rows that it was shown and no others."""
    raw = {"study": "t", "dataset": {"name": "breast_cancer", "metric": metric}, "defense": "none", "attacks": ["norm"]}
    cell = open_task(parse({**raw, "training": {"epochs": 2}, "budget": {"seeds": 1}})).cell
    (outcome,) = CellTrainable.evaluate(cell, [{}], References(), {"training_rows": True})
    assert len(outcome.training_utility) == 1
    assert 0.5 < outcome.training_utility[0] <= 1
