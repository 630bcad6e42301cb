"""How many workers and how big a pack: everybody works, nothing is lost for the sake of size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.errors import SpecError
from tune_vfl.search.packs import LANES, pack_size, shortened, worker_count
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


def test_what_does_not_stack_runs_one_by_one():
    assert pack_size(AUTO, trials=40, seeds=3, workers=2, most=1) == 1


def test_a_size_that_was_asked_for_is_taken():
    assert pack_size(Resources(pack=9), trials=40, seeds=3, workers=2, most=64) == 9


def test_long_trials_make_small_packs():
    assert shortened(8, 1.0) == 8
    assert shortened(8, 200.0) == 3
    assert shortened(8, 4000.0) == 1
    assert shortened(8, 0.0) == 8


def test_workers_fit_the_machine_and_the_work():
    there = {"CPU": 4.0, "GPU": 1.0}
    assert worker_count(AUTO, there, most=100) == 4
    assert worker_count(AUTO, there, most=3) == 3
    assert worker_count(Resources(cpu=2), there, most=100) == 2
    assert worker_count(Resources(gpu=0.5), there, most=100) == 2
    assert worker_count(Resources(concurrency=8), there, most=100) == 4
    assert worker_count(Resources(concurrency=8), there, most=100, grows=True) == 8


def test_a_pack_that_fits_nowhere_is_refused():
    with pytest.raises(SpecError, match="16 CPU"):
        worker_count(Resources(cpu=16), {"CPU": 4.0}, most=10)
    assert worker_count(Resources(gpu=1), {"CPU": 4.0}, most=10, grows=True) == 1
