"""How work is cut into jobs: every training once, whatever the sizes; and what attacks are compared with."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.helpers.contests import SCALES, searched
from tune_vfl.confirmation.jobs import Floors, cell_of, cut
from tune_vfl.execution.jobs import Job
from tune_vfl.execution.pack_sizes import LANES
from tune_vfl.records.confirmations import UNDEFENDED, AttackOfSeed, SeedRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.spec import Named, Training
from tune_vfl.spec.cell import References
from tune_vfl.spec.federation import Federation


@pytest.fixture
def record(home: None) -> StudyRecord:
    return searched(noise=0.0).record()


def numbers_of(job: Job) -> tuple[int, ...]:
    """Return the trials of a job."""
    return tuple(number for _, number in job.settings)


numbers = st.integers(UNDEFENDED, len(SCALES) - 1)
asked = st.dictionaries(numbers, st.lists(st.integers(1000, 1020), min_size=1, unique=True).map(sorted), min_size=1)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=asked, workers=st.integers(1, 6), stacks=st.booleans())
def test_every_training_is_in_exactly_one_job(
    record: StudyRecord, wanted: dict[int, list[int]], workers: int, stacks: bool
) -> None:
    places = [("study", number, seed) for number, seeds in wanted.items() for seed in seeds]
    jobs = cut([record], places, workers=workers, stacks=lambda _: stacks)
    assert Counter((*setting, s) for job in jobs for setting in job.settings for s in job.cell.seeds) == Counter(places)
    for job in jobs:
        assert len(job.settings) * len(job.cell.seeds) <= (
            min(LANES, math.ceil(len(places) / workers)) if stacks else 1
        )
        assert job.cell.rows == "report"
        assert (job.cell.defense == "none") == (list(job.settings) == [("study", UNDEFENDED)])
        for (_, number), params in job.settings.items():
            assert dict(params) == ({} if number == UNDEFENDED else record.trials[number].params)


def test_trainings_of_other_settings_share_a_pass_and_those_of_other_models_do_not(record: StudyRecord) -> None:
    places = [("study", number, seed) for number in range(4) for seed in (1000, 1001)]
    (together,) = cut([record], places, workers=1, stacks=bool)
    assert numbers_of(together) == (0, 1, 2, 3)
    assert len(cut([record], places, workers=4, stacks=bool)) == 4
    trial = record.trials[1]
    trial.params["training.lr"] = 0.5
    two = cut([record], places, workers=1, stacks=bool)
    assert {numbers_of(job): job.cell.training.lr for job in two} == {(0, 2, 3): 1e-3, (1,): 0.5}
    assert dict(two[1].settings["study", 1]) == {"scale": trial.params["scale"]}


def test_seeds_are_cut_into_equal_parts_and_what_does_not_stack_is_trained_one_by_one(record: StudyRecord) -> None:
    places = [("study", number, seed) for number in (UNDEFENDED, 0) for seed in range(1000, 1006)]
    jobs = cut([record], places, workers=3, stacks=lambda setting: setting[1] != UNDEFENDED)
    assert [(numbers_of(job), len(job.cell.seeds)) for job in jobs] == [((UNDEFENDED,), 1)] * 6 + [((0,), 3)] * 2


def test_what_attacks_are_compared_with_is_measured_once_a_model_and_seed(record: StudyRecord) -> None:
    cell, params = cell_of(record, 0)
    first = Job(cell.model_copy(update={"seeds": (1000, 1001)}), "", {("study", 0): params})
    later = Job(cell.model_copy(update={"seeds": (1001, 1002)}), "", {("study", 1): params})
    floors = Floors([record], {})
    (owed,) = floors.owed([first, later])
    assert owed.asks == "floors"
    assert owed.cell.seeds == (1000, 1001, 1002)
    floors.learn(owed.cell, References(r_lower={"pmc": [0.5, 0.6, 0.7]}))
    assert floors.owed([first, later]) == []
    assert floors.of(later) == References(r_lower={"pmc": [0.6, 0.7]})
    deviations = References(r_lower={"pmc": [0.5, 0.6], "bmi": [0.1, 0.2]}, noise={"pmc": [0.03, 0.04]})
    floors.learn(first.cell, deviations)
    assert floors.of(first) == deviations
    second = first.cell.model_copy(update={"seeds": (1001,)})
    floors.learn(second, References(r_lower={"pmc": [0.6], "bmi": [0.2]}))
    assert floors.of(first).noise == {}, "unless every seed has one"


def test_what_attacks_are_compared_with_is_read_from_the_records_of_an_earlier_run(record: StudyRecord) -> None:
    cell, params = cell_of(record, 0)
    seen = SeedRecord(
        outcome="ok",
        utility=0.9,
        attacks={
            "pmc": AttackOfSeed(guess=0.5, r_lower=0.6, noise=0.02, candidates={"a": 0.7}),
            "norm": AttackOfSeed(guess=0.5, candidates={"a": 0.7}),
        },
        floors={"": {"own": 0.7}},
    )
    lost = SeedRecord(outcome="diverged", reason="NaN")
    floors = Floors([record], {("study", 0, 1000): seen, ("study", 1, 1001): lost, ("study", UNDEFENDED, 1002): seen})
    job = Job(cell.model_copy(update={"seeds": (1000, 1001, 1002)}), "", {("study", 3): params})
    assert [owed.cell.seeds for owed in floors.owed([job])] == [(1001,)]
    known = References(r_lower={"pmc": [0.6, 0.6]}, noise={"pmc": [0.02, 0.02]}, floors={"": {"own": [0.7, 0.7]}})
    assert floors.of(replace(job, cell=cell.model_copy(update={"seeds": (1000, 1002)}))) == known


def test_settings_that_search_their_training_share_the_floors_of_the_study_s_own(record: StudyRecord) -> None:
    """One that trains longer or faster moves its models further; none looks better by what it is held against."""
    record.trials[1].params["training.lr"] = 0.5
    jobs = cut([record], [("study", 0, 1000), ("study", 1, 1000)], workers=2, stacks=bool)
    assert {job.cell.training.lr for job in jobs} == {1e-3, 0.5}
    (owed,) = Floors([record], {}).owed(jobs)
    assert owed.cell.training == record.cell.training
    spec = record.spec.model_copy(update={"study": "other"})
    other = replace(record, spec=spec, cell=record.cell.model_copy(update={"training": Training(epochs=7)}))
    longer = cut([other], [("other", 0, 1000)], workers=1, stacks=bool)
    both = Floors([record, other], {}).owed([*jobs, *longer])
    assert [owed.cell.training.epochs for owed in both] == [record.cell.training.epochs, 7]
    held = {("study", 1, 1000): SeedRecord(outcome="ok", utility=0.9)}
    assert Floors([record], held).owed(jobs) == [], "also where the only record is of another training"


def test_a_confirmation_adds_attacks_on_all_epochs_where_labels_are_attacked(record: StudyRecord) -> None:
    assert [a.name for a in record.cell.attacks] == ["norm"]
    cell, _ = cell_of(record, 0)
    assert [a.name for a in cell.attacks] == ["norm", "matched_filter"]
    again, _ = cell_of(replace(record, cell=cell), 0)
    assert again.attacks == cell.attacks, "where they are listed they run once"

    def attacks(*names: str, **fields: Any) -> list[str]:
        listed = record.cell.model_copy(update={"attacks": tuple(Named(name=n) for n in names), **fields})
        kept, _ = cell_of(replace(record, cell=listed), 0)
        return [a.name for a in kept.attacks]

    assert attacks("bmi") == ["bmi"], "labels are not what is attacked"
    assert attacks("bmi", "norm") == ["bmi", "norm", "matched_filter"], "some of them are"
    assert attacks("norm", federation=Federation(name="horizontal")) == ["norm"], "they read what vertical parties send"
