"""What a trial may bring the joint front, against the plain way: the hypervolume with it less the one without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_vfl.campaign.gains import Shown, draws, hypervolume_gains, on_the_front
from tune_vfl.metrics.pareto import hypervolume
from tune_vfl.statistics import differences, dominance, leakage_differences, membership
from tune_vfl.statistics.intervals import shrink

REFERENCE = (0.5, 1.0)
tenths = st.integers(0, 12).map(lambda n: n / 10)
points = st.lists(st.tuples(tenths, tenths), max_size=8)


@given(points, st.lists(st.tuples(tenths, tenths), min_size=1, max_size=5))
def test_gains_are_differences_of_hypervolumes(
    held: list[tuple[float, float]], added: list[tuple[float, float]]
) -> None:
    found = hypervolume_gains(np.asarray(held).reshape(-1, 2), np.asarray(added), REFERENCE)
    naive = [hypervolume([*held, new], REFERENCE) - hypervolume(held, REFERENCE) for new in added]
    np.testing.assert_allclose(found, naive, atol=1e-12)


def shown(parts: list[np.ndarray], variance: float = 0.0) -> Shown:
    rows = np.concatenate(parts)
    return Shown(rows, np.full(rows.shape, variance), np.repeat(np.arange(len(parts)), [len(p) for p in parts]))


def made_up(seed: int, sizes: tuple[int, ...] = (7, 5, 9)) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    strengths = [rng.uniform(size=n) for n in sizes]
    return [
        np.column_stack([0.95 - 0.1 * (k + 1) * s, (0.9 * (1 - s) ** (k + 1)).clip(0)])
        + rng.normal(0, 0.01, (len(s), 2))
        for k, s in enumerate(strengths)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_study_is_worth_what_its_moved_settings_add_where_they_are_left_out(seed: int) -> None:
    parts = made_up(seed)
    whole = shown(parts)
    for k, (prospect, moved) in enumerate(zip(on_the_front(whole, REFERENCE), draws(whole, 0), strict=True)):
        naive = []
        for row, some in zip(whole.of(k), moved, strict=True):
            rest = np.delete(whole.points, row, axis=0)
            before = hypervolume(rest, REFERENCE)
            naive += [hypervolume(np.vstack([rest, (u, max(0.0, x))]), REFERENCE) - before for u, x in some.tolist()]
        assert prospect.gain == pytest.approx(np.mean(naive) * len(parts[k]) / (len(parts[k]) + 1), abs=1e-12)


def test_no_chance_is_below_the_largest_membership() -> None:
    rng = np.random.default_rng(3)
    parts = made_up(3)
    rows = np.concatenate(parts)
    utility, leakage = (rows[:, [c]] + sd * rng.normal(size=(len(rows), 3)) for c, sd in ((0, 0.01), (1, 0.05)))
    means = np.column_stack([utility.mean(1), leakage.mean(1)])
    variance = np.column_stack([shrink(utility).own, shrink(leakage).own]) / 3
    whole = Shown(means, variance, np.repeat(np.arange(3), [len(p) for p in parts]))
    member = membership(dominance(differences(utility), leakage_differences(leakage[None])))
    for k, prospect in enumerate(on_the_front(whole, REFERENCE)):
        # Only settings of the front are held against it here, which says a little more.
        assert prospect.chance >= member[whole.of(k)].max() - 1e-9


def test_next_settings_spread_as_the_study_does() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(50, 2)) * [0.1, 0.3]
    moved = draws(shown([wide, wide / 10]), 0)
    spread = [(m - p[:, None, :]).std((0, 1)) for m, p in zip(moved, (wide, wide / 10), strict=True)]
    assert (spread[0] > 3 * spread[1]).all()
    np.testing.assert_array_equal(moved[0], draws(shown([wide, wide / 10]), 0)[0])
