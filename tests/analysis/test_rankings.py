"""Rankings of defenses below caps of leakage."""

import math

import pytest

from tests.helpers.campaigns import campaign_of, outcome_of, part_of
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.rankings import chances_to_be_best, rankings

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.18), (0.85, 0.09), (0.945, 0.8))
KDK = ((0.91, 0.17), (0.70, 0.05))


def phi(z: float) -> float:
    return (1 + math.erf(z / math.sqrt(2))) / 2


def test_the_chance_to_be_the_best_of_two_is_known() -> None:
    for gap, one, other in ((0.01, 1e-4, 4e-4), (0.0, 1e-4, 1e-6), (0.03, 2e-4, 1e-4), (0.01, 1e-4, 0.0)):
        first, second = chances_to_be_best([0.9 + gap, 0.9], [one, other])
        assert first == pytest.approx(phi(gap / math.sqrt(one + other)), abs=2e-3)
        assert first + second == pytest.approx(1)


def test_equal_ones_share_the_chance_and_certain_ones_have_all_of_it() -> None:
    assert chances_to_be_best([0.9] * 4, [1e-4] * 4) == pytest.approx([0.25] * 4)
    assert chances_to_be_best([0.9, 0.8, 0.9], [0.0] * 3) == [0.5, 0.0, 0.5]
    assert chances_to_be_best([0.9], [1e-3]) == [1.0]
    assert chances_to_be_best([], []) == []


def test_defenses_are_ranked_by_their_best_setting_below_a_cap() -> None:
    campaign = campaign_of(part_of("laplace", LAPLACE), part_of("marvell", MARVELL), part_of("kdk", KDK))
    low, middle, high = rankings(joint_of(campaign))
    assert [low.cap, middle.cap, high.cap] == [0.1, 0.2, 0.5]
    found = [[(r.defense, r.point and r.point.number) for r in ranking.rows] for ranking in (low, middle)]
    assert found[0] == [("marvell", 1), ("kdk", 1), ("laplace", None)]
    assert found[1] == [("marvell", 0), ("kdk", 0), ("laplace", None)]
    assert [r.defense for r in high.rows] == ["marvell", "kdk", "laplace"]
    assert middle.rows[2].least == pytest.approx(0.25, abs=2e-3)
    assert sum(r.best for r in middle.rows) == pytest.approx(1)
    assert middle.rows[0].best > 0.99
    assert all(
        r.leakage_upper is None or r.leakage_upper <= ranking.cap for ranking in (low, middle) for r in ranking.rows
    )


def test_noise_leaves_the_first_place_open() -> None:
    noisy = [outcome_of([u - d, u, u + d], {"norm": [0.05, 0.05, 0.05]}) for u, d in ((0.9, 0.01), (0.5, 0.002))]
    other = [outcome_of([u - d, u, u + d], {"norm": [0.05, 0.05, 0.05]}) for u, d in ((0.898, -0.01), (0.5, 0.004))]
    extra = [outcome_of([0.6, 0.603, 0.606], {"norm": [0.05, 0.05, 0.05]})]
    ranking = rankings(joint_of(campaign_of(part_of("laplace", noisy), part_of("kdk", other + extra))), caps=[0.2])[0]
    assert 0.5 < ranking.rows[0].best < 0.8
