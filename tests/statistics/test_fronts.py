"""Fronts of noisy points: chances, groups, the knee on the fixed scale, the export, numbers of seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from tune_vfl.errors import ShapeError
from tune_vfl.metrics.pareto import front
from tune_vfl.statistics import (
    Scale,
    Tolerances,
    candidates,
    compromise,
    differences,
    dominance,
    knee,
    leakage_differences,
    membership,
    membership_of_many,
    merged,
    merged_of_many,
    own_levels,
    worst_levels,
    worst_means,
)
from tune_vfl.statistics.choosing import middle_of_the_best
from tune_vfl.statistics.intervals import Estimate, shrink

steps = st.integers(0, 40).map(lambda v: v / 40)
clouds = arrays(float, st.tuples(st.integers(2, 9), st.just(2)), elements=steps)


def certain(values: np.ndarray, se: float = 0.0) -> Estimate:
    """Differences of known means."""
    gaps = values[:, None] - values[None, :]
    return Estimate(gaps, np.full(gaps.shape, se), np.full(gaps.shape, 8.0))


def chances(points: np.ndarray, se_u: float, se_l: float, **tolerances: float) -> np.ndarray:
    return dominance(certain(points[:, 0], se_u), certain(points[:, 1], se_l), Tolerances(**tolerances))


def test_the_chance_of_two_points_in_closed_form():
    points = np.array([[0.90, 0.30], [0.91, 0.25]])
    found = chances(points, 0.01, 0.05)
    assert found[0, 1] == pytest.approx(norm.cdf((0.01 - 0.002) / 0.01) * norm.cdf((0.05 - 0.02) / 0.05))
    assert found[1, 0] == pytest.approx(norm.cdf((-0.01 - 0.002) / 0.01) * norm.cdf((-0.05 - 0.02) / 0.05))
    assert membership(found) == pytest.approx(1 - found.max(1))


def test_without_noise_a_gain_of_just_the_tolerance_is_as_good_as_none():
    points = np.array([[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]])
    found = chances(points, 0.0, 0.0, utility=0.0, leakage=0.0)
    assert found.tolist() == [[0.0, 0.25, 1.0], [0.25, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert chances(points, 0.0, 0.0, utility=0.25, leakage=0.0)[0].tolist() == [0.0, 0.0, 0.5]
    assert chances(points, 0.0, 0.0, utility=0.0, leakage=0.5)[0].tolist() == [0.0, 0.0, 0.0]


@settings(deadline=None)
@given(clouds)
def test_without_noise_and_tolerance_it_is_the_front_of_strict_dominance(points):
    member = membership(chances(points, 0.0, 0.0, utility=1e-9, leakage=1e-9))
    beaten = [any(q[0] > p[0] and q[1] < p[1] for q in points) for p in points]
    assert member.tolist() == [0.0 if b else 1.0 for b in beaten]
    assert (member[front(points)] == 1).all()


@settings(deadline=None)
@given(clouds, st.integers(1, 5))
def test_more_noise_brings_chances_nearer_to_each_other(points, noise):
    found = membership(chances(points, 0.01 * noise, 0.1 * noise))
    assert ((found >= 0) & (found <= 1)).all()
    # Nobody is beaten for sure, and a point that another one equals is safer than a coin.
    wide = membership(chances(points, 1e6, 1e6))
    assert wide == pytest.approx(np.full(len(points), 0.75), abs=1e-4)


def test_a_point_alone_is_the_front():
    assert membership(chances(np.array([[0.9, 0.2]]), 0.01, 0.01)).tolist() == [1.0]
    assert merged([0], certain(np.array([0.9])), certain(np.array([0.2]))) == [[0]]


def test_leakage_is_compared_between_the_worst_attacks():
    rng = np.random.default_rng(0)
    x = 0.05 * rng.normal(size=(3, 6, 4)) + rng.uniform(0, 0.5, (3, 6, 1))
    found, worst = leakage_differences(x), x.mean(-1).argmax(0)
    own = np.array([shrink(x[worst[i]]).own[i] for i in range(6)])
    for i in range(6):
        for j in range(6):
            assert found.mean[i, j] == pytest.approx(x[worst[i], i].mean() - x[worst[j], j].mean())
            assert found.se[i, j] == pytest.approx(np.sqrt((own[i] + own[j]) / 4))
    few = leakage_differences(x[:, :3])
    paired = x[worst[0], 0] - x[worst[1], 1]
    assert few.se[0, 1] == pytest.approx(paired.std(ddof=1) / 2)


def test_candidates_are_the_front_and_its_likeliest_neighbors():
    member = np.array([0.9, 0.1, 0.4, 0.3, 0.0, 0.35, 0.2, 0.05, 0.8])
    on_front = np.arange(9) % 8 == 0
    assert candidates(member, on_front, trials=24) == [0, 8, 2, 5, 3, 6, 1]
    assert candidates(member, on_front, trials=60) == [0, 8, 2, 5, 3, 6, 1, 7]
    with pytest.raises(ShapeError):
        candidates(member, on_front[:3], trials=24)


def test_groups_do_not_grow_by_small_steps():
    points = np.array([[0.90, 0.40], [0.895, 0.38], [0.89, 0.36], [0.80, 0.10]])
    half = certain(points[:, 0], 0.004), certain(points[:, 1], 0.02)
    # 90% half-widths are 1.86 standard errors: .0074 and .037. Two steps are one too many.
    assert merged([3, 2, 1, 0], *half) == [[0, 1], [2], [3]]
    pairs = np.array([[0.90, 0.40], [0.895, 0.38], [0.87, 0.30], [0.865, 0.28]])
    assert merged(range(4), certain(pairs[:, 0], 0.004), certain(pairs[:, 1], 0.02)) == [[0, 1], [2, 3]]
    # Equal utility does not merge what leaks differently.
    apart = np.array([[0.9, 0.4], [0.9, 0.1]])
    assert merged([0, 1], certain(apart[:, 0], 0.01), certain(apart[:, 1], 0.02)) == [[0], [1]]


def test_the_knee_weighs_on_the_fixed_scale():
    scale = Scale(utility_low=0.7, utility_high=0.9, leakage_high=0.5)
    u = np.array([[0.9, 0.9], [0.88, 0.88], [0.7, 0.7]])
    x = np.array([[[0.5, 0.5], [0.1, 0.1], [0.0, 0.0]], [[0.0, 0.6], [0.0, 0.0], [-0.1, 0.0]]])
    assert compromise(u, x, scale) == pytest.approx(np.array([[0.0, 0.0], [0.7, 0.7], [0.0, 0.0]]))
    assert compromise(u, x, Scale(0.9, 0.9, 0.0)) == pytest.approx(u - 0.9 - x[0])
    with pytest.raises(ShapeError, match=r"\(attacks, 3, 2\)"):
        compromise(u, x[:, :2], scale)


def test_of_what_cannot_be_told_apart_the_middle_leakage_is_taken():
    balance, leakage = np.array([0.70, 0.69, 0.68, 0.40]), np.array([0.30, 0.10, 0.20, 0.05])

    def middle(front, se):
        return middle_of_the_best(front, balance, np.array([se, 9.0, 9.0, 9.0]), leakage)

    assert middle([0, 1, 2, 3], 0.0) == 0
    assert middle([0, 1, 2, 3], 0.03) == 2
    assert middle([0, 1, 2, 3], 0.015) == 1
    assert middle([3], 0.03) == 3
    assert middle([], 0.03) is None


def test_the_knee_forgets_what_seeds_do_to_all_settings():
    scale, leaks = Scale(0.7, 0.9, 0.5), np.array([0.4, 0.25, 0.1, 0.05, 0.0])
    u, x = 0.7 + 0.2 * np.sqrt(leaks / 0.4)[:, None] + np.zeros(3), leaks[None, :, None] + np.zeros((1, 5, 3))
    exact = knee(range(5), u, x, scale)
    assert exact == (np.sqrt(leaks / 0.4) - leaks / 0.5).argmax()
    assert knee(range(5), u + np.array([0.3, -0.2, 0.0]), x, scale) == exact
    assert knee(range(5), u[:, :1], x[..., :1], scale) == exact
    assert knee([4], u, x, scale) == 4
    assert knee([], u, x, scale) is None
    assert worst_means(np.concatenate([x, x - 0.1])).tolist() == pytest.approx(leaks.tolist())


@pytest.mark.parametrize("seed", range(4))
def test_membership_of_many_is_that_of_every_pair_where_it_matters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 1, 300)
    utility = (0.95 - 0.45 * t**2 - rng.uniform(0, 0.05, 300))[:, None] + rng.normal(0, 0.006, (300, 3))
    x = np.stack([(1 - t) ** 2, 0.5 * (1 - t)])[..., None] + rng.normal(0, 0.05, (2, 300, 3))
    means = list(zip(utility.mean(1).tolist(), (-x.mean(-1).max(0)).tolist(), strict=True))
    front = [not any(v >= u and w >= y and (v, w) != (u, y) for v, w in means) for u, y in means]
    naive = membership(dominance(differences(utility), leakage_differences(x)))
    found = membership_of_many(front, own_levels(utility), worst_levels(x))
    assert (found >= naive - 1e-12).all(), "fewer rivals never lower a chance"
    np.testing.assert_allclose(found, naive, atol=0.03)
    assert (naive > 0.1).sum() > 10


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.02])
def test_groups_of_many_are_those_of_every_pair(noise: float) -> None:
    rng = np.random.default_rng(7)
    t = np.sort(rng.uniform(0, 1, 200))
    t[50:60] = t[50]  # equal settings
    utility = (0.95 - 0.45 * t**2)[:, None] + rng.normal(0, noise / 4, (200, 3))
    x = ((1 - t) ** 2)[None, :, None] + rng.normal(0, noise, (1, 200, 3))
    own = own_levels(utility), worst_levels(x)
    some = rng.permutation(200)[:150].tolist()
    pairs = (Estimate(*(column[np.ix_(some, some)] for column in o.pairs())) for o in own)
    naive = [[some[k] for k in group] for group in merged(range(len(some)), *pairs)]
    found = merged_of_many(some, *own)
    # Equal settings stand in either order.
    assert [sorted(group) for group in found] == [sorted(group) for group in naive]
    assert (len(found) < len(some)) == (max(map(len, found)) > 1)
    assert merged_of_many([], *own) == []


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.006])
def test_a_chance_on_a_crowded_front_is_that_of_every_pair(noise: float) -> None:
    """Nearly all settings are on the front, and few of the pairs are computed: none that counts is left out."""
    rng = np.random.default_rng(3)
    t = rng.uniform(0, 1, 400)
    utility = (0.95 - 0.45 * t**2)[:, None] + rng.normal(0, noise, (400, 3))
    x = ((1 - t) ** 2)[None, :, None] + rng.normal(0, 5 * noise, (1, 400, 3))
    means = np.column_stack([utility.mean(1), x.mean(-1).max(0)])
    own = own_levels(utility), worst_levels(x)
    naive = membership(dominance(*(o.pairs() for o in own)))
    found = membership_of_many(front(means), *own)
    sure = found >= 0.03
    np.testing.assert_allclose(found[sure], naive[sure], atol=1e-12)
    assert (naive[~sure] < 0.03 + 1e-12).all()
