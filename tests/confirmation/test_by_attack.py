"""What fresh seeds say of each attack: over its candidates and parties, tuned or not, met by the search or not."""

import numpy as np
import pytest

from tests.helpers.campaigns import outcome_of, part_of
from tune_vfl.confirmation.contest import Contest
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.confirmation.tuning import with_tuned
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.confirmations import UNDEFENDED, AttackOfSeed, ConfirmedPoint, SeedRecord

pytestmark = pytest.mark.usefixtures("home")
WOBBLE = (-0.01, 0.0, 0.01, 0.0)


def confirmed_point(attacks: dict[str, dict[str, float]]) -> ConfirmedPoint:
    """Return the only setting of a study, of which the search met ``norm`` alone, at an advantage of .1."""
    part = part_of("laplace", [outcome_of([0.9, 0.91, 0.92], {"norm": [0.1, 0.11, 0.09]})], attacks=["norm"])
    contest = Contest.of(part, 5)
    held = {}
    for number in (UNDEFENDED, 0):
        for k in range(20):
            seen = {
                name: AttackOfSeed(guess=0.5, candidates={c: 0.5 + v / 2 + WOBBLE[k % 4] for c, v in found.items()})
                for name, found in attacks.items()
            }
            held[part.name, number, 1000 + k] = SeedRecord(outcome="ok", utility=0.9, attacks=seen)
    (point,) = ContestTable(contest, held).points
    return point


def test_candidates_and_parties_are_one_attack() -> None:
    point = confirmed_point({"norm": {"v": 0.1, "w": 0.5}, "pmc/bank": {"a": 0.2}, "pmc/shop": {"a": 0.7}})
    assert set(point.attacks) == {"norm", "pmc"}
    for name, expected in (("norm", 0.5), ("pmc", 0.7)):
        found = point.attacks[name]
        assert found.advantage.value == pytest.approx(expected, abs=0.02)
        assert found.success.value == pytest.approx(0.5 + expected / 2, abs=0.01)
        assert found.advantage.interval[0] < expected < found.advantage.upper_90 < found.advantage.interval[1]


def test_an_attack_that_the_search_did_not_run_is_the_leakage_where_it_finds_most() -> None:
    point = confirmed_point({"norm": {"v": 0.1}, "pmc": {"a": 0.3}})
    assert point.leakage == pytest.approx(0.3, abs=0.01)
    assert point.attacks["norm"].advantage.value == pytest.approx(0.1, abs=0.01)


def test_a_tuned_attacker_raises_its_own_attack_alone() -> None:
    point = confirmed_point({"norm": {"v": 0.1}, "pmc": {"a": 0.3}})
    gains = (0.6, 0.62, 0.58, 0.61, 0.59)
    success = tuple(0.5 + g / 2 for g in gains)
    about = {"params": {}, "variant": "a", "success": success, "floors": (0.5,) * 5, "tried": 9, "minutes": 1.0}
    found = with_tuned(point, TunedAttack(attack="pmc", advantages=gains, **about))
    assert found.attacks["norm"] == point.attacks["norm"]
    assert found.attacks["pmc"].advantage.value == found.leakage == pytest.approx(0.6)
    assert found.attacks["pmc"].success.value == pytest.approx(np.mean(success))
    weak = with_tuned(point, TunedAttack(attack="pmc", advantages=(0.0, 0.01), **{**about, "success": (0.5, 0.505)}))
    assert weak.attacks["pmc"].advantage.value == point.attacks["pmc"].advantage.value
