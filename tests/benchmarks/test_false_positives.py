"""How often noise is called a leak, counted on records that are made up."""

import numpy as np
import pytest

from benchmarks.false_positives import ALL, Counted, counts, studies_of, with_own_floors
from benchmarks.seed_coverage import held
from tune_vfl.records.confirmations import AttackOfSeed, SeedRecord


def records(norm: list[float], noise: float | None = None) -> list[SeedRecord]:
    """Return a record a seed: ``norm`` over a guess, and ``pmc`` at its floor of .6 with every seed."""
    return [
        SeedRecord(
            outcome="ok",
            utility=0.9,
            attacks={
                "norm": AttackOfSeed(guess=0.5, noise=noise, candidates={"v": value}),
                "pmc": AttackOfSeed(guess=0.5, r_lower=0.6, candidates={"v": 0.6}),
            },
        )
        for value in norm
    ]


def test_seeds_are_cut_into_whole_studies() -> None:
    assert [len(study) for study in studies_of(records([0.5] * 8), 3)] == [3, 3]


def test_lower_ends_above_zero_are_counted_by_attack_and_over_all() -> None:
    close, apart = [0.52, 0.521, 0.522], [0.45, 0.5, 0.56]
    found = counts([records([*close, *apart]), records(apart)], 3)
    assert {attack: c.above for attack, c in found.items()} == pytest.approx({"norm": 1 / 3, "pmc": 0, ALL: 1 / 3})
    assert (found["norm"].studies, found["norm"].floor, found["pmc"].floor) == (3, 0.5, pytest.approx(0.6))
    assert found["norm"].mean == pytest.approx(2 * (np.mean([*close, *apart, *apart]) - 0.5))
    assert found["pmc"].mean == pytest.approx(0)
    known = counts([records([*close, *apart], noise=0.05)], 3)
    assert known["norm"].above == known[ALL].above == 0, "noise of that size explains it"


def test_of_the_same_trainings_it_is_counted_with_the_party_s_floor_and_with_each_attack_s_own() -> None:
    held = [
        record.model_copy(
            update={
                "attacks": {n: a.model_copy(update={"party": ""}) for n, a in record.attacks.items()},
                "floors": {"": {"own columns": 0.55}},
            }
        )
        for record in records([0.52, 0.521, 0.522] * 2)
    ]
    for of, floor, above in ((held, 0.55, 0), (with_own_floors(held), 0.5, 1)):
        found = counts([of], 3)
        assert (found["norm"].floor, found["norm"].above) == (pytest.approx(floor), above)
        assert found["pmc"].floor == pytest.approx(0.6), "its own is the better one"


def test_5_percent_and_the_error_of_a_share_are_allowed() -> None:
    assert [Counted(share, 40, 0.5, 0.0, 0.0).too_many for share in (0.1, 0.125)] == [False, True]


def test_what_few_seeds_say_is_laid_beside_what_all_say() -> None:
    settings = [records([0.7, 0.8, 0.75, 0.7, 0.8, 0.75]), records([0.9, 0.901, 0.902, 0.6, 0.601, 0.602])]
    found = held(settings, 3)
    assert found.truth == pytest.approx(np.mean([2 * 0.25, 2 * 0.251]))
    assert (found.held, found.above, found.below) == pytest.approx((0.5, 0.25, 0.25))
