"""One-sided bounds on what may be constrained: closed forms, what is not known, and that they hold as often as said."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.campaigns import UNDEFENDED, campaign_of, confirmed, outcome_of, part_of
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.constraints import lacking, nearest, nearly
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord, Skipped
from tune_vfl.spec.constraints import impossible
from tune_vfl.statistics import differences, differences_from, leakage_bounds, levels
from tune_vfl.statistics.laws import t_quantile
from tune_vfl.statistics.leakage import upper_bounds

RNG = np.random.default_rng(3)
ROUGH = [
    outcome_of(u + RNG.normal(0, 0.006, 3), {"norm": x + RNG.normal(0, 0.05, 3), "pmc": x / 2 + RNG.normal(0, 0.05, 3)})
    for u, x in ((0.94, 0.5), (0.92, 0.3), (0.90, 0.2), (0.85, 0.1), (0.80, 0.05), (0.7, 0.02))
]


def bounds_of(campaign: CampaignRecord, confidence: float | None = None) -> UpperBounds:
    return UpperBounds(SettingsTable(campaign), confidence)


def test_a_leakage_is_bounded_over_all_attacks_with_the_confidence_asked_for() -> None:
    campaign = campaign_of(part_of("laplace", ROUGH))
    gains = np.asarray([[o.attacks[a].advantages for o in ROUGH] for a in ("norm", "pmc")])
    assert bounds_of(campaign).of("leakage").bound == pytest.approx([b.upper_90 for b in leakage_bounds(gains)])
    surer = bounds_of(campaign, 0.95).of("leakage").bound
    assert surer == pytest.approx([b.upper for b in leakage_bounds(gains)]), "that of one end of a 90% interval"
    assert bounds_of(replace(campaign, spec={"confidence": 0.95})).of("leakage").bound == pytest.approx(surer)
    each = np.stack([upper_bounds(gains[[k]], 0.9) for k in range(2)])
    assert upper_bounds(gains, 0.9) == pytest.approx(each.max(0)), "another attack never lowers it"


def test_a_loss_is_bounded_by_differences_seed_by_seed() -> None:
    campaign = campaign_of(part_of("laplace", ROUGH))
    utilities = np.asarray([o.utility.values for o in ROUGH if o.utility])
    model = campaign.studies[0].baseline
    assert model is not None
    assert model.utility is not None
    of_three = model.utility.values[:3]
    apart = differences(np.vstack([of_three, utilities]))
    found = bounds_of(campaign).of("utility_loss")
    assert found.value == pytest.approx(apart.mean[0, 1:])
    assert found.bound == pytest.approx((apart.mean + t_quantile(0.9, apart.df) * apart.se)[0, 1:])
    for few in (utilities, utilities[:3]):
        row, one = differences(np.vstack([of_three, few])), differences_from(of_three, few)
        for a, b in zip(row, one, strict=True):
            assert a[0, 1:] == pytest.approx(b)


def test_a_shift_of_a_seed_for_all_settings_moves_no_loss() -> None:
    shift = np.asarray([0.02, -0.03, 0.01])

    def shifted(part_seeds: int) -> list[float]:
        return [*shift, *([0.0] * (part_seeds - 3))]

    def moved(outcome: Outcome | None, seeds: int) -> Outcome:
        assert outcome is not None
        assert outcome.utility is not None
        values = [v + d for v, d in zip(outcome.utility.values, shifted(seeds), strict=True)]
        return outcome_of(values, {n: s.advantages for n, s in outcome.attacks.items()})

    plain = part_of("laplace", ROUGH)
    other = part_of("laplace", [moved(o, 3) for o in ROUGH], baseline=moved(plain.baseline, 10))
    before, after = (bounds_of(campaign_of(p)).of("utility_loss") for p in (plain, other))
    assert before.bound == pytest.approx(after.bound)


def test_utility_is_bounded_from_below() -> None:
    campaign = campaign_of(part_of("laplace", ROUGH, baseline=None, alone=()))
    utilities = np.asarray([o.utility.values for o in ROUGH if o.utility])
    level = levels(utilities)
    found = bounds_of(campaign).of("utility")
    assert found.bound == pytest.approx(level.mean - t_quantile(0.9, level.df) * level.se)
    assert (found.bound < found.value).all()
    assert np.isnan(bounds_of(campaign).of("utility_loss").bound).all()
    (missing,) = lacking(bounds_of(campaign), 0, {"utility_loss": 0.1})
    assert "no undefended model" in missing


def test_one_attack_is_bounded_by_itself() -> None:
    found = bounds_of(campaign_of(part_of("laplace", ROUGH)))
    pmc = np.asarray([[o.attacks["pmc"].advantages for o in ROUGH]])
    assert found.of("attacks.pmc.advantage").bound == pytest.approx(upper_bounds(pmc, 0.9))
    assert found.of("attacks.pmc.success").bound == pytest.approx(upper_bounds(0.5 + 0.5 * pmc, 0.9))
    assert found.of("attacks.pmc.advantage").value == pytest.approx([o.attacks["pmc"].advantage for o in ROUGH])


def test_what_is_not_known_does_not_qualify_and_says_so() -> None:
    few = part_of("kdk", [outcome_of([0.9, 0.91, 0.92], {"norm": [0.1, 0.12, 0.11]})], attacks=["norm"])
    campaign = campaign_of(part_of("laplace", ROUGH, cost=1.5), few)
    found = bounds_of(campaign)
    assert found.keeps("cost", 2.0).tolist() == [True] * 6 + [False]
    assert found.unknown(6, "cost") == "the cost of kdk was not measured"
    assert not found.keeps("attacks.pmc.advantage", 1.0)[6]
    assert found.unknown(6, "attacks.pmc.advantage") == "pmc was not run on it"
    cannot = Skipped(few.name, "pmc", ("it leaves nothing to read",))
    assert bounds_of(replace(campaign, skipped=(cannot,))).keeps("attacks.pmc.advantage", 0.1)[6]
    assert not found.keeps("attacks.nobody.advantage", 1.0).any()


def test_a_confirmed_setting_is_bounded_by_fresh_seeds() -> None:
    part = confirmed(part_of("laplace", ROUGH), {1: (0.91, 0.25, True)})
    found = bounds_of(campaign_of(part))
    assert found.of("leakage").bound[1] == pytest.approx(0.25 + 0.015), "the bound that the confirmation says"
    assert bounds_of(campaign_of(part), 0.95).of("leakage").bound[1] == pytest.approx(0.25 + 0.02)
    assert 0.25 < bounds_of(campaign_of(part), 0.8).of("leakage").bound[1] < 0.265
    assert bounds_of(campaign_of(part), 0.95).of("utility").bound[1] == pytest.approx(0.91 - 0.004)
    searched = bounds_of(campaign_of(part_of("laplace", ROUGH))).of("utility_loss")
    loss = found.of("utility_loss")
    assert loss.value[1] == pytest.approx(UNDEFENDED[0] - 0.91)
    wide, narrow = (b.bound[1] - b.value[1] for b in (searched, loss))
    assert narrow == pytest.approx(wide * np.sqrt(3 / 10)), "the same spread between seeds, over more of them"


def test_a_single_seed_is_taken_at_its_word() -> None:
    one = [outcome_of([0.9], {"norm": [0.2]}), outcome_of([0.8], {"norm": [0.1]})]
    found = bounds_of(campaign_of(part_of("laplace", one)))
    for name in ("leakage", "utility", "utility_loss", "attacks.norm.advantage"):
        assert found.of(name).bound == pytest.approx(found.of(name).value)


def test_the_nearest_misses_least() -> None:
    found = bounds_of(campaign_of(part_of("laplace", [(0.94, 0.5), (0.90, 0.25), (0.70, 0.21), (0.69, 0.21)])))
    everyone = np.ones(4, dtype=bool)
    assert nearest(found, {"leakage": 0.2}, everyone) == 2
    # The loss of the undefended model's gain over the label party alone (.2): by .3 in 1, and only by .04 in leakage.
    assert nearest(found, {"leakage": 0.21, "utility_loss": 0.04}, everyone) == 1
    assert nearest(found, {"leakage": 0.2}, np.asarray([True, True, False, False])) == 1
    assert nearest(found, {"leakage": 0.2}, np.zeros(4, dtype=bool)) is None


def test_more_seeds_may_decide_what_only_the_bound_misses() -> None:
    found = bounds_of(campaign_of(part_of("laplace", ROUGH)))
    value, bound = found.of("leakage")
    assert value[2] < bound[2]
    cap = float(value[2] + bound[2]) / 2
    assert nearly(found, {"leakage": cap})[2]
    assert not nearly(found, {"leakage": float(bound[2])})[2]


def simulated(rng: np.random.Generator, settings: int = 24) -> tuple[CampaignRecord, np.ndarray, np.ndarray]:
    """Return two studies of noisy settings, with their true leakages: three seeds, one seed's share .3, two attacks."""
    t = rng.uniform(0, 1, settings)
    true = np.stack([(1 - t) ** 2, 0.8 * (1 - t) ** 2])
    own = 0.06 * np.sqrt(6 / rng.chisquare(6, settings))
    noise = np.sqrt(0.7) * own[:, None] * rng.normal(size=(2, settings, 3)) + np.sqrt(0.3) * 0.06 * rng.normal(
        size=(2, 1, 3)
    )
    utility = 0.95 - 0.1 * t**2
    shared, each = rng.normal(size=3), rng.normal(size=(settings, 3))
    seen = utility[:, None] + 0.006 * (np.sqrt(0.9) * shared + np.sqrt(0.1) * each)
    x = true[..., None] + noise
    outcomes = [outcome_of(u, {"norm": x[0, i], "pmc": x[1, i]}) for i, u in enumerate(seen)]
    parts = part_of("laplace", outcomes[: settings // 2]), part_of("kdk", outcomes[settings // 2 :])
    return campaign_of(*parts, constraints={"leakage": 0.2}), true.max(0), utility


def test_leakage_at_most_point_2_holds_as_often_as_it_is_said() -> None:
    rng, held, by_bound, by_mean = np.random.default_rng(11), [], [], []
    for _ in range(120):
        campaign, true, _ = simulated(rng)
        joint = joint_of(campaign)
        found = UpperBounds(joint.settings).of("leakage")
        held += (true <= found.bound).tolist()
        chosen = decide(joint).setting
        if chosen is not None:
            by_bound.append(true[joint.settings.place[chosen.study, chosen.number]] > 0.2)
        below = np.flatnonzero(found.value <= 0.2)
        if len(below):
            by_mean.append(true[below[joint.settings.known[below, 0].argmax()]] > 0.2)
    assert 0.88 <= np.mean(held) <= 0.97, "of any setting, one-sided at 90%; shrinking makes three seeds a bit surer"
    assert len(by_bound) > 60
    assert np.mean(by_bound) <= 0.1, "of the setting that is chosen for it"
    assert np.mean(by_mean) > 0.1, "which the means alone would not keep"


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ({"leakage": 20}, "leakage: expected a number from 0 to 1, got 20; 20% is 0.2"),
        ({"utility": 95}, "utility: expected a number from 0 to 1, got 95; 95% is 0.95"),
        ({"utility_loss": 5}, "utility_loss: expected a number from -1 to 1, got 5; 5% is 0.05"),
        ({"attacks.norm.advantage": 30}, "attacks.norm.advantage: expected a number from 0 to 1, got 30; 30% is 0.3"),
        ({"attacks.norm.success": -0.2}, "attacks.norm.success: expected a number from 0 to 1, got -0.2"),
        ({"leakage": -0.1}, "leakage: expected a number from 0 to 1, got -0.1"),
        ({"leakage": 1000}, "leakage: expected a number from 0 to 1, got 1000"),
        ({"cost": -1}, "cost: expected a number of 0 or more, got -1"),
    ],
)
def test_a_bound_that_all_settings_keep_or_none_is_refused(constraints: dict[str, float], words: str) -> None:
    assert list(impossible(constraints)) == [f"constraints.{words}"]


def test_bounds_that_some_settings_may_keep_are_taken() -> None:
    limits = {"leakage": 0.2, "utility": 0.95, "utility_loss": -0.01, "cost": 3.0, "attacks.norm.success": 1.0}
    assert list(impossible(limits)) == []
