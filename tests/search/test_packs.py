"""How many workers and how big a pack: everybody works, nothing is lost for the sake of size."""

from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.search.packs import LANES, pack_size, shortened
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
