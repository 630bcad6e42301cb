"""Successive rejects: what is asked for next, what is settled, and that a restart comes to the same."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.errors import ShapeError, UsageError
from tune_vfl.statistics import Plan, plan, totals

SEEDS = 20


def drawn(seed: int, points: int = 9, attacks: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return points along a line, every third one dominated by far, with noise."""
    rng = np.random.default_rng(seed)
    along = np.linspace(0, 1, points)
    wasted = np.where(np.arange(points) % 3 == 2, 0.03, 0.0)
    u = (
        0.85
        + 0.05 * along
        - wasted
        + 0.005 * rng.normal(size=SEEDS)[:, None]
        + 0.002 * rng.normal(size=(SEEDS, points))
    )
    x = (
        (0.5 * along + 5 * wasted)[:, None]
        - np.arange(attacks)[:, None, None] / 10
        + 0.05 * rng.normal(size=(attacks, points, SEEDS))
    )
    return u.T, x


def shown(u, x, has) -> Plan:
    """Plan from the first seeds of each point."""
    there = np.arange(SEEDS) < np.asarray(has)[:, None]
    return plan(np.where(there, u, np.nan), np.where(there, x, np.nan))


def confirmed(u, x) -> tuple[Plan, list[Plan]]:
    """Run all that is asked for, until nothing more is."""
    has, steps = np.zeros(len(u), dtype=int), []
    for _ in range(10):
        steps.append(shown(u, x, has))
        if steps[-1].done:
            return steps[-1], steps
        assert (steps[-1].wanted > has).any()
        has = np.maximum(has, steps[-1].wanted)
    raise AssertionError("the plan never ends")


@pytest.mark.parametrize(("seeds", "expected"), [(10, [4, 8, 12, 20]), (5, [2, 4, 6, 10]), (3, [2, 3, 4, 6]), (1, [2])])
def test_the_totals(seeds, expected):
    assert totals(seeds) == expected


def test_a_clear_front_is_found_with_few_runs():
    u, x = drawn(0)
    last, steps = confirmed(u, x)
    assert last.settled.all()
    assert last.kept.tolist() == [p % 3 != 2 for p in range(9)]
    assert (last.wanted[last.kept] >= 10).all()
    assert last.wanted.sum() < SEEDS * 9
    assert [s.phase for s in steps] == sorted(s.phase for s in steps)


def test_the_first_phase_asks_for_the_same_of_all_and_settles_a_third():
    u, x = drawn(1)
    first = shown(u, x, np.zeros(9, dtype=int))
    assert first.wanted.tolist() == [4] * 9
    assert not first.settled.any()
    assert np.isnan(first.member).all()
    second = shown(u, x, np.full(9, 4))
    assert second.settled.sum() == 3
    clearest = np.abs(second.member - 0.5)
    assert clearest[second.settled].min() >= clearest[~second.settled].max()
    assert (second.wanted[~second.settled] == 8).all()
    assert set(second.wanted.tolist()) <= {4, 8}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.data())
def test_decisions_do_not_depend_on_what_came_in_early(seed, data):
    u, x = drawn(seed)
    last, steps = confirmed(u, x)
    has = np.zeros(9, dtype=int)
    for before in steps[:-1]:
        # Somebody stops in the middle, with any part of what was asked for, and starts again.
        some = [
            data.draw(st.integers(int(h), int(w))) for h, w in zip(has, np.maximum(has, before.wanted), strict=True)
        ]
        again = shown(u, x, some)
        if (np.asarray(some) < before.wanted).any():
            assert again.wanted.tolist() == before.wanted.tolist()
            assert again.settled.tolist() == before.settled.tolist()
        has = np.maximum(has, before.wanted)
    everything = shown(u, x, np.full(9, SEEDS))
    assert everything.kept.tolist() == last.kept.tolist()
    assert everything.wanted.tolist() == last.wanted.tolist()


def test_what_is_settled_stays_so():
    for seed in range(10):
        _, steps = confirmed(*drawn(seed))
        for before, after in pairwise(steps):
            assert (after.settled >= before.settled).all()
            assert (after.kept[before.settled] == before.kept[before.settled]).all()


def test_a_gap_waits_for_its_seed():
    u, x = drawn(2)
    u[4, 1] = np.nan
    assert plan(u, x).wanted.tolist() == [4] * 9
    assert plan(u, x).phase == 0


def test_a_point_that_failed_is_not_kept_and_stops_nobody():
    u, x = drawn(3)
    there = np.full(9, SEEDS)
    there[0] = 2
    lost = np.arange(9) == 0
    cut = np.arange(SEEDS) < there[:, None]
    found = plan(np.where(cut, u, np.nan), np.where(cut, x, np.nan), lost=lost)
    assert found.done
    assert not found.kept[0]
    assert found.settled.all()
    assert np.isnan(found.member[0])
    assert np.isfinite(found.member[1:]).all()
    assert found.kept.tolist() == [p % 3 != 2 and p != 0 for p in range(9)]  # the others are decided as ever
    waiting = plan(np.where(cut, u, np.nan), np.where(cut, x, np.nan))
    assert not waiting.done
    nobody = plan(np.full((3, 4), np.nan), np.full((1, 3, 4), np.nan), lost=np.ones(3, dtype=bool))
    assert nobody.done
    assert not nobody.kept.any()


@pytest.mark.parametrize("points", [1, 2, 3, 4])
def test_few_points(points):
    u, x = (v[..., :points, :] for v in drawn(4))
    last, _ = confirmed(u, x)
    assert last.settled.all()
    assert last.kept[:2].all()


def test_equal_points_are_all_kept():
    last, _ = confirmed(np.full((6, SEEDS), 0.9), np.full((2, 6, SEEDS), 0.1))
    assert last.kept.all()


def test_what_cannot_be_planned_is_refused():
    u, x = drawn(5)
    with pytest.raises(ShapeError, match="points, seeds"):
        plan(u, x[:, :4])
    with pytest.raises(ShapeError, match="none of them empty"):
        plan(np.zeros((0, 4)), np.zeros((2, 0, 4)))
    with pytest.raises(ShapeError, match="each of 9 points"):
        plan(u, x, lost=[True])
    with pytest.raises(UsageError, match="infinite"):
        plan(np.full_like(u, np.inf), x)
    with pytest.raises(UsageError, match="at least 1 seed"):
        plan(u, x, seeds=0)
