"""Searching a table with rungs: what is promoted, what it costs, and what a perfect or a useless first rung gives."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rung_tables import Pair, Trained, pairs, rungs_of
from benchmarks.rungs import agreeing, anew, free_attacks, kept, order_of, searched, whole_of, with_rungs
from benchmarks.trial_tables import Row
from tune_vfl.metrics.pareto import hypervolume

REFERENCE = (0.5, 1.0)


def a_row(defense: str, place: int, utility: float, leakage: float) -> Row:
    utilities, advantages = [utility - 0.001, utility, utility + 0.001], [leakage - 0.01, leakage, leakage + 0.01]
    return Row(defense, place, {"a": place}, place < 2, "ok", utilities, leakage, {"pmc": advantages}, 1.0)


def table(agree: float = 1.0, seed: int = 0) -> list[Pair]:
    """Return 8 defenses of 12 settings; a third of the epochs shows the same, or the opposite (-1), 0.1 lower."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(8):
        for i, (u, x) in enumerate(rng.uniform(0.0, 0.2, size=(12, 2)).tolist()):
            whole = a_row(f"d{k}", i, 0.7 + u, 0.3 + x)
            third = a_row(f"d{k}", i, 0.6 + agree * u, 0.3 + agree * x)
            found.append(Pair(Trained(third, 10, train=2.0, rest=1.0), whole))
    return found


def test_an_order_has_every_setting_once_with_what_is_published_first() -> None:
    found = table()
    packs = order_of(found, 0)
    assert sorted(id(p) for pack in packs for p in pack) == sorted(map(id, found))
    assert all([p.whole.place for p in pack[:2]] == [0, 1] for pack in packs[:8])
    assert all(len({p.whole.defense for p in pack}) == 1 for pack in packs)


def test_without_rungs_everything_is_paid_and_found() -> None:
    found = table()
    spent, goal = searched(order_of(found, 0), REFERENCE, kept), whole_of(found, REFERENCE)
    assert spent.cpu[-1] == pytest.approx(7.0 * 96) == goal.cpu
    assert spent.volume[-1] == pytest.approx(goal.volume)
    assert goal.volume == pytest.approx(hypervolume([p.whole.objectives for p in found], REFERENCE))
    assert spent.reaches(goal.volume + 1) == np.inf


def test_a_first_rung_that_tells_all_keeps_the_front_for_less() -> None:
    found = table()
    all_at_once = [[p for pack in order_of(found, 0) for p in pack]]
    spent = with_rungs(all_at_once, REFERENCE, kept, 1 / 3)
    assert spent.volume[-1] == pytest.approx(whole_of(found, REFERENCE).volume)
    assert spent.cpu[-1] == pytest.approx(96 * 3.0 + 32 * 5.0)
    assert with_rungs(all_at_once, REFERENCE, anew, 1 / 3).cpu[-1] == pytest.approx(96 * 3.0 + 32 * 7.0)
    assert with_rungs(all_at_once, REFERENCE, free_attacks, 1 / 3).cpu[-1] == pytest.approx(96 * 2.0 + 32 * 5.0)


def test_a_first_rung_that_tells_the_opposite_loses_the_front() -> None:
    found = table(agree=-1.0)
    spent = with_rungs(order_of(found, 0), REFERENCE, kept, 1 / 3)
    assert spent.volume[-1] < whole_of(found, REFERENCE).volume


def test_agreement_is_told() -> None:
    cells = [cell.strip() for cell in agreeing("digits", table()).split("|")]
    assert cells[2:4] == ["1.00", "1.00"]
    assert cells[4:7] == ["+0.100", "+0.000", "0.00"]
    assert cells[8] == "0.43"
    assert [cell.strip() for cell in agreeing("digits", table(agree=-1.0)).split("|")][2:4] == ["-1.00", "-1.00"]


@pytest.mark.parametrize("dataset", ["spambase", "bank", "digits"])
def test_the_tables_that_were_kept_have_settings_at_both_ends(dataset: str) -> None:
    assert rungs_of(dataset).is_file()
    found = pairs(dataset)
    assert len(found) > 30
    assert all(p.third.row.params == p.whole.params and p.third.train > 0 for p in found)
