"""Numbers of fresh seeds, in closed form: floors, headroom, what noise explains, and how points are ordered."""

import pytest

from tests.helpers.campaigns import outcome_of
from tests.helpers.confirmations import made_up_confirmation
from tune_vfl.confirmation.by_attack import attacks_of, within
from tune_vfl.confirmation.table import by_utility
from tune_vfl.confirmation.tuning import with_tuned
from tune_vfl.confirmation.values import fresh, steady
from tune_vfl.evaluation.certainty import NOT_MET
from tune_vfl.outcome import AttackScore, Outcome, Score, TunedAttack
from tune_vfl.records.confirmations import AttackOfSeed, SeedRecord
from tune_vfl.statistics import leakage_bounds
from tune_vfl.statistics.leakage import Bounds

NORM, PMC = ("norm", "v"), ("pmc", "v")


def seen(*success: float, **fields: float) -> AttackOfSeed:
    """Return an attack's candidates ``v`` and ``w`` with one seed, over a guess of one half."""
    return AttackOfSeed(guess=0.5, candidates=dict(zip("vw", success, strict=False)), **fields)


def of_seed(utility: float = 0.9, **attacks: AttackOfSeed) -> SeedRecord:
    return SeedRecord(outcome="ok", utility=utility, attacks=attacks)


def in_search(r_lower: float | None, floor: float) -> Outcome:
    score = AttackScore(**Score.of("leak_auc", [0.8, 0.8]).model_dump(), guess=0.5, r_lower=r_lower, floor=floor)
    return Outcome(outcome="ok", utility=Score.of("auc", [0.9, 0.9]), attacks={"norm": score}, leakage=0.6)


@pytest.mark.parametrize(
    ("r_lower", "floor", "gain"),
    [(None, 0.5, 0.6), (0.4, 0.5, 0.6), (0.5, 0.5, 0.6), (0.6, 0.6, 0.25), (1.0, 1.0, 0.0)],
    ids=["without untrained models", "below the guess", "at the guess", "above it", "nothing to gain"],
)
def test_a_plan_compares_a_seed_with_the_floor_that_the_search_chose(
    r_lower: float | None, floor: float, gain: float
) -> None:
    """This seed's own untrained model reaches .7 whatever the search's did: .8 is .1 more, of the search's headroom."""
    record = of_seed(norm=seen(0.8, r_lower=0.7))
    assert steady(record, in_search(r_lower, floor), [NORM]) == pytest.approx([gain])


def test_a_plan_puts_an_attack_that_the_search_did_not_run_below_one_that_it_ran() -> None:
    assert steady(of_seed(norm=seen(0.8)), in_search(None, 0.5), [NORM, PMC]) == pytest.approx([0.6, 0.6 - NOT_MET])


def test_untrained_models_are_a_floor_where_every_seed_has_one() -> None:
    both = [of_seed(norm=seen(0.8, r_lower=0.6)), of_seed(norm=seen(0.9, r_lower=0.7))]
    block = fresh([both], [NORM])
    assert block.utility.tolist() == [[0.9, 0.9]]
    assert block.advantages.mean() == pytest.approx(0.2 / 0.35)
    one = [both[0], of_seed(norm=seen(0.9))]
    assert fresh([one], [NORM]).advantages.mean() == pytest.approx(0.7), "else the guess is"


def test_all_attacks_on_labels_of_a_party_are_held_against_the_best_that_it_reaches_by_itself() -> None:
    """Of two ways the one that is better over all seeds; an attack on features has its own."""
    ways = ({"a": 0.7, "b": 0.5}, {"a": 0.6, "b": 0.7})
    records = [
        SeedRecord(
            outcome="ok",
            utility=0.9,
            attacks={
                "norm": seen(0.8).model_copy(update={"party": ""}),
                "pmc": seen(0.9, r_lower=0.6).model_copy(update={"party": ""}),
                "bmi": seen(0.8).model_copy(update={"guess": 0.0}),
            },
            floors={"": found, "bank": {"c": 0.99}},
        )
        for found in ways
    ]
    found = fresh([records], [NORM, PMC, ("bmi", "v")]).advantages.mean(2).ravel()
    assert found == pytest.approx([0.15 / 0.35, 0.25 / 0.35, 0.8])
    weak = [r.model_copy(update={"floors": {"": {"a": 0.55}}}) for r in records]
    assert fresh([weak], [PMC]).advantages.mean() == pytest.approx(0.3 / 0.4), "the attack's own counts in any case"


def test_a_plan_takes_the_way_that_the_search_chose() -> None:
    record = SeedRecord(
        outcome="ok",
        utility=0.9,
        attacks={"norm": seen(0.8).model_copy(update={"party": ""})},
        floors={"": {"a": 0.7, "b": 0.75}},
    )
    for way, floor in (("a", 0.7), ("b", 0.75), ("guess", 0.5), ("gone", 0.5)):
        outcome = in_search(None, 0.6)
        outcome.attacks["norm"].floor_by = way
        assert steady(record, outcome, [NORM]) == pytest.approx([(0.8 - floor) / 0.4])


def test_noise_of_a_mean_is_in_the_unit_of_its_headroom_where_every_seed_has_it() -> None:
    records = [of_seed(norm=seen(0.8, r_lower=0.6, noise=0.03)), of_seed(norm=seen(0.9, r_lower=0.6, noise=0.04))]
    assert fresh([records], [NORM]).limits.noise == pytest.approx(0.05 / 2 / 0.4)
    half = [records[0], of_seed(norm=seen(0.9, r_lower=0.6))]
    assert fresh([half], [NORM]).limits.noise == pytest.approx(0.0)


def test_settings_are_laid_side_by_side_though_one_lacks_an_attack() -> None:
    with_both = [of_seed(0.8, norm=seen(0.7), pmc=seen(0.96, r_lower=0.95)) for _ in range(3)]
    block = fresh([with_both, [of_seed(0.7, norm=seen(0.6))] * 3], [NORM, PMC])
    assert block.advantages.shape == (2, 2, 3)
    assert block.advantages.mean(2).ravel() == pytest.approx([0.4, 0.2, 0.2, 0.2 - NOT_MET])
    assert block.limits.narrow.tolist() == [[False, False], [True, False]]


def test_a_number_is_shown_within_its_interval() -> None:
    bounds = Bounds(0.2, 0.4, 0.35, None)  # type: ignore[arg-type]
    assert [within(v, bounds) for v in (0.1, 0.3, 0.5)] == [0.2, 0.3, 0.4]


def test_the_search_s_seeds_choose_among_an_attack_s_candidates_where_it_ran_there() -> None:
    """With fresh seeds two candidates are alike; the search found more with the second, and an attacker takes that."""
    up, down = (0.55, 0.45, 0.55, 0.45), (0.52, 0.58, 0.52, 0.58)
    records = [of_seed(norm=seen(a, b), pmc=seen(a, b)) for a, b in zip(up, down, strict=True)]
    names = [NORM, ("norm", "w"), PMC, ("pmc", "w")]
    searched = outcome_of([0.9, 0.9], {"norm": [0.4, 0.4]})
    searched.attacks["norm"].candidates["w"] = [0.5, 0.5]
    found = attacks_of([records], fresh([records], names), names, 0, searched)
    assert list(found) == ["norm", "pmc"]
    assert found["norm"].success.value == pytest.approx(sum(up) / 4), "its first is what the search liked"
    assert found["pmc"].success.value == pytest.approx(sum(down) / 4), "of what it did not run other fresh seeds say"


def test_an_attack_is_bounded_by_the_settings_that_met_it_whichever_party_carried_it_out() -> None:
    """Three settings: the last did not meet the attack, and of the first two each was attacked by another party."""
    wobble = (-0.02, 0.02, 0.01, -0.01)
    bank, shop = (
        [of_seed(**{"norm": seen(0.9 + w), f"pmc/{party}": seen(0.6 + more + w, noise=0.01)}) for w in wobble]
        for party, more in (("bank", 0.0), ("shop", 0.1))
    )
    neither = [of_seed(norm=seen(0.55 + w)) for w in wobble]
    settings = [neither, bank, shop]
    names = [NORM, ("pmc/bank", "v"), ("pmc/shop", "v")]
    block, outcome = fresh(settings, names), in_search(None, 0.5)
    assert "pmc" not in attacks_of(settings, block, names, 0, outcome)
    gains = block.advantages[1:, 1:]
    for row in (1, 2):
        found = attacks_of(settings, block, names, row, outcome)
        bounds = leakage_bounds(gains, block.limits.of([1, 2], [1, 2]))[row - 1]
        assert found["pmc"].advantage.interval == pytest.approx((bounds.lower, bounds.upper))
        assert found["pmc"].advantage.upper_90 == pytest.approx(bounds.upper_90)
        assert found["pmc"].advantage.value == pytest.approx(0.2 * row)
        assert found["pmc"].success.value == pytest.approx(0.5 + 0.1 * row)
        low, high = found["pmc"].success.interval
        assert low < 0.5 + 0.1 * row < found["pmc"].success.upper_90 < high


def test_a_tuned_attacker_with_little_left_above_its_floor_says_nothing_of_how_small_a_leakage_is() -> None:
    point, gains = made_up_confirmation().points[0], (0.10, 0.11, 0.09)
    about = {"attack": "pmc", "params": {}, "variant": "v", "tried": 3, "minutes": 1.0, "success": (0.9,) * 3}
    wide = with_tuned(point, TunedAttack(**about, floors=(0.95, 0.96, 0.97), advantages=gains))  # type: ignore[arg-type]
    assert wide.leakage == 0.3
    assert wide.leakage_interval == (0.2, 1.0)
    usual = with_tuned(point, TunedAttack(**about, floors=(0.5,) * 3, advantages=gains))  # type: ignore[arg-type]
    assert usual.leakage_interval == (0.2, 0.4)


def test_points_are_ordered_by_falling_utility_also_where_that_is_zero_or_less() -> None:
    """A utility of a regression may be below 0; those without numbers come last, and equals by number."""
    point = made_up_confirmation().points[0]
    utilities = {1: None, 2: -0.5, 3: 0.0, 4: 0.9, 5: 0.0, 6: None}
    points = [point.model_copy(update={"number": n, "utility": u}) for n, u in utilities.items()]
    for given in (points, points[::-1]):
        assert [p.number for p in by_utility(given)] == [4, 3, 5, 2, 1, 6]
