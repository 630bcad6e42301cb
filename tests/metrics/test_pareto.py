"""The front, its ranks, its knee and its hypervolume: closed forms, a naive twin, and what must always hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.metrics import pareto

# A coarse grid makes ties and duplicates common.
grid = st.integers(0, 12).map(lambda v: v / 12)
clouds = st.lists(st.tuples(grid, grid), min_size=1, max_size=30).map(np.array)


def dominates(a, b):
    return a[0] >= b[0] and a[1] <= b[1] and tuple(a) != tuple(b)


def naive_ranks(points):
    """Peel fronts one by one, straight from the definition."""
    left, found, rank = set(range(len(points))), [0] * len(points), 0
    while left:
        peel = {i for i in left if not any(dominates(points[j], points[i]) for j in left)}
        for i in peel:
            found[i] = rank
        left -= peel
        rank += 1
    return found


def naive_area(points, reference):
    """Sum the rectangles of a staircase, straight from the definition."""
    area, best = 0.0, reference[1]
    for utility, leakage in sorted(points.tolist(), key=lambda p: (-p[0], p[1])):
        if utility > reference[0] and leakage < best:
            area += (utility - reference[0]) * (best - leakage)
            best = leakage
    return area


def test_a_front_that_can_be_read_off():
    points = [(0.9, 0.5), (0.8, 0.2), (0.8, 0.3), (0.7, 0.2), (0.95, 0.9), (0.8, 0.2)]
    assert pareto.front(points).tolist() == [True, True, False, False, True, True]
    assert pareto.ranks(points).tolist() == [0, 0, 1, 1, 0, 0]


def test_the_knee_of_a_right_angle_is_its_corner():
    assert pareto.knee([(0.0, 0.0), (1.0, 1.0), (0.9, 0.1), (0.5, 0.05)]) == 2


def test_a_point_behind_the_chord_is_no_knee():
    assert pareto.knee([(0.5, 0.9), (0.0, 0.0), (1.0, 1.0), (0.9, 0.92)]) == 1


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(0.3, 0.3)], 0),
        ([(0.3, 0.3), (0.3, 0.3)], 0),
        ([(0.9, 0.9), (0.1, 0.1)], 0),
        ([(0.1 * k, 0.3 * k) for k in range(5)], 0),
        ([(0.2, 0.9), (0.9, 0.2)], 1),
    ],
)
def test_ties_of_the_knee_go_to_the_lowest_number(points, expected):
    assert pareto.knee(points) == expected


def test_nothing_gives_nothing():
    assert pareto.knee([]) is None
    assert pareto.front([]).shape == (0,)
    assert pareto.ranks([]).shape == (0,)
    assert pareto.hypervolume([], (0.5, 1.0)) == 0


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([(0.9, 0.2)], 0.4 * 0.8),
        ([(0.9, 0.2), (0.7, 0.1)], 0.4 * 0.8 + 0.2 * 0.1),
        ([(0.5, 0.2), (0.9, 1.0), (0.4, 0.1)], 0.0),
        ([(1.0, 0.0)], 0.5),
    ],
)
def test_areas_in_closed_form(points, area):
    assert pareto.hypervolume(points, (0.5, 1.0)) == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", [pareto.front, pareto.ranks, pareto.knee, lambda p: pareto.hypervolume(p, (0, 1))])
def test_a_row_that_is_not_finite_is_named(which, bad):
    with pytest.raises(ValueError, match=r"row 1 is .*not ok"):
        which([(0.5, 0.5), (0.5, bad)])


def test_a_reference_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        pareto.hypervolume([(0.5, 0.5)], (math.nan, 1.0))


def test_a_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"\(n, 2\).*got shape \(1, 3\)"):
        pareto.front([(1, 2, 3)])


@given(clouds)
def test_ranks_agree_with_peeling(points):
    assert pareto.ranks(points).tolist() == naive_ranks(points)


@given(clouds)
def test_the_area_agrees_with_the_staircase(points):
    assert pareto.hypervolume(points, (0.25, 0.75)) == pytest.approx(naive_area(points, (0.25, 0.75)), abs=1e-12)


@given(clouds)
def test_the_front_dominates_the_rest_and_not_itself(points):
    mask = pareto.front(points)
    assert mask.any()
    for i, point in enumerate(points):
        assert any(dominates(q, point) for q in points[mask]) == (not mask[i])


@given(clouds, st.randoms(use_true_random=False))
def test_order_does_not_matter(points, random):
    order = list(range(len(points)))
    random.shuffle(order)
    assert pareto.ranks(points)[order].tolist() == pareto.ranks(points[order]).tolist()
    assert pareto.hypervolume(points, (0, 1)) == pytest.approx(pareto.hypervolume(points[order], (0, 1)), abs=1e-12)


@given(clouds)
def test_the_knee_is_on_the_front_and_ignores_what_is_not(points):
    mask, found = pareto.front(points), pareto.knee(points)
    assert mask[found]
    assert tuple(points[mask][pareto.knee(points[mask])]) == tuple(points[found])


@given(clouds)
def test_the_knee_does_not_depend_on_units(points):
    assert pareto.knee(points) == pareto.knee(points * [64.0, 0.5] + [2.0, -1.0])


@settings(max_examples=30)
@given(clouds)
def test_the_history_never_falls_and_ends_at_the_area(points):
    growing, history = pareto.GrowingFront((0.25, 0.75)), []
    for point in points.tolist():
        growing.add(*point)
        history.append(growing.area)
    assert (np.diff(history) >= 0).all()
    prefixes = [pareto.hypervolume(points[: n + 1], (0.25, 0.75)) for n in range(len(points))]
    assert history == pytest.approx(prefixes, abs=1e-12)


@settings(max_examples=60)
@given(clouds)
def test_a_growing_front_is_the_front_of_all_points_digit_by_digit(points):
    reference = (0.25, 0.75)
    growing = pareto.GrowingFront(reference)
    largest = 0.0
    for count, point in enumerate(points.tolist(), start=1):
        growing.add(*point)
        seen = points[:count]
        largest = max(largest, pareto.hypervolume(seen, reference))
        assert growing.size == pareto.front(seen).sum()
        assert growing.area == largest


def test_a_growing_front_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match="finite"):
        pareto.GrowingFront((0, 1)).add(0.5, math.nan)
