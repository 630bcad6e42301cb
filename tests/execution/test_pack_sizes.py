"""How many workers and how big a pack: everybody works, nothing is lost for the sake of size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.packing import planned
from tests.helpers.simulated import simulated_cell, simulated_spec
from tune_vfl.driver.study_run import StudyRun
from tune_vfl.execution.jobs import Job
from tune_vfl.execution.pack_sizes import BLIND_LANES, LANES, pack_size, shortened
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.ledger.storage import storage_at
from tune_vfl.records.campaigns import PlannedCampaign
from tune_vfl.spec import Resources

AUTO = Resources()


@given(trials=st.integers(1, 500), seeds=st.integers(1, 30), workers=st.integers(1, 16), most=st.integers(1, 100))
def test_a_pack_is_neither_too_big_nor_starves_a_worker(trials, seeds, workers, most):
    size = pack_size(AUTO, trials=trials, seeds=seeds, workers=workers, most=most)
    assert 1 <= size <= most
    assert size == 1 or (size - 1) * seeds < LANES
    if trials >= workers:
        assert size <= -(-trials // workers)


def test_the_quickstart_gives_two_workers_two_packs_each():
    assert pack_size(AUTO, trials=24, seeds=3, workers=2, most=64) == 6


def test_while_nobody_looks_a_pack_holds_more_and_nobody_starves():
    assert pack_size(AUTO, trials=20, seeds=3, workers=1, most=64, lanes=BLIND_LANES) == 20
    assert pack_size(AUTO, trials=100, seeds=3, workers=1, most=64, lanes=BLIND_LANES) == 20
    assert pack_size(AUTO, trials=20, seeds=3, workers=2, most=64, lanes=BLIND_LANES) == 10
    assert pack_size(AUTO, trials=20, seeds=3, workers=1, most=7, lanes=BLIND_LANES) == 7


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("sampler", "sizes"), [("random", [24, 24]), ("tpe", [10, 6, 6]), ("nsga2", [6, 6]), ("grid", [24, 24])]
)
def test_a_part_asks_much_at_once_until_its_sampler_looks(sampler, sizes):
    plan = planned(("laplace",), trials=100, sampler=sampler).studies[0]
    with storage_at(None).lease(plan.name) as lease:
        part = StudyRun(Ledger.of_campaign(PlannedCampaign.of(plan), storage_at(None), lease)[0], 6, (), 24)
        assert [len(part.next_job(f"pack{i}").settings) for i in range(len(sizes))] == sizes


@pytest.mark.usefixtures("home")
def test_packs_that_do_not_fit_become_smaller_for_good():
    plan = planned(("laplace",), trials=100, sampler="random").studies[0]
    with storage_at(None).lease(plan.name) as lease:
        part = StudyRun(Ledger.of_campaign(PlannedCampaign.of(plan), storage_at(None), lease)[0], 6, (), 24)
        part.lose(part.next_job("first"), "memory")
        assert [len(part.next_job(f"again{i}").settings) for i in range(3)] == [12, 12, 12]


def test_a_pack_has_the_time_of_its_trials_together_and_then_one_by_one():
    job = Job(simulated_cell(simulated_spec("study")), "", {4: {}, 7: {}}, minutes=0.5)
    assert job.seconds_allowed == 120.0
    assert [part.seconds_allowed for part in job.parts([4, 7], 1)] == [30.0, 30.0]


def test_what_does_not_stack_runs_one_by_one():
    assert pack_size(AUTO, trials=40, seeds=3, workers=2, most=1) == 1


def test_a_size_that_was_asked_for_is_taken():
    assert pack_size(Resources(pack=9), trials=40, seeds=3, workers=2, most=64) == 9


def test_long_trials_make_small_packs():
    assert shortened(8, 1.0) == 8
    assert shortened(8, 200.0) == 3
    assert shortened(8, 4000.0) == 1
    assert shortened(8, 0.0) == 8
