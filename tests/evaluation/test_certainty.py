"""Intervals of settings that share their seeds, what the label party reaches alone, and what must hold of both."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.cells import cells
from tune_vfl.evaluation.alone import alone, guessed
from tune_vfl.evaluation.certainty import advantages_of, candidates_of, certainties, intervals_of, names_of
from tune_vfl.evaluation.checks import checks_of_setting, checks_of_undefended
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Strict


def attack(values, floor=0.5, **more):
    gains = [(v - floor) / (1 - floor) for v in values]
    score = Score.of("leak_auc", values).model_dump()
    known = {"advantages": gains, "floors": [floor] * len(values), "candidates": {"v": list(values)}, "floor": floor}
    return AttackScore(**score, variant="v", advantage=max(0.0, float(np.mean(gains))), **{**known, **more})


def outcome(utility, leaks, **more):
    attacks = {name: attack(values) for name, values in leaks.items()}
    worst = max(a.advantage for a in attacks.values())
    return Outcome(outcome="ok", utility=Score.of("auc", utility), attacks=attacks, leakage=worst, **more)


def test_an_attack_beside_the_worst_one_can_only_raise_the_upper_end():
    one = outcome([0.9, 0.91, 0.92], {"a": [0.7, 0.75, 0.8]})
    both = outcome([0.9, 0.91, 0.92], {"a": [0.7, 0.75, 0.8], "noisy": [0.5, 0.9, 0.6]})
    (first,), (second,) = certainties([one]), certainties([both])
    assert first.leakage_interval[1] < second.leakage_interval[1]
    assert second.leakage_worst_seed == pytest.approx(np.mean([0.4, 0.8, 0.6]))
    assert first.leakage_worst_seed == pytest.approx(0.5)


def test_a_wide_interval_is_undecided_and_a_high_floor_is_named():
    wide = outcome([0.9, 0.9, 0.9], {"a": [0.5, 0.7, 0.95]})
    (sure,) = certainties([wide])
    assert sure.undecided
    found = {c.name: c.ok for c in checks_of_setting(wide, sure)}
    assert found == {"seeds": True, "decided": False, "amplification": True}
    high = wide.model_copy(update={"attacks": {"pmc": attack([0.97, 0.98, 0.96], floor=0.95)}})
    assert certainties([high])[0].amplified == {"pmc": pytest.approx(20)}


def test_one_seed_has_no_interval():
    lone = outcome([0.9], {"a": [0.7]})
    (sure,) = certainties([lone])
    assert (sure.utility_interval, sure.leakage_interval, sure.leakage_upper_90) == (None, None, None)
    assert intervals_of(lone.attacks["a"]) == {"interval": None, "advantage_interval": None}
    assert not next(c for c in checks_of_setting(lone, sure) if c.name == "seeds").ok


def test_intervals_of_one_attack_are_student_s_and_end_at_zero_and_one():
    values, gains = [0.7, 0.75, 0.86], [0.4, 0.5, 0.72]
    found = intervals_of(attack(values))
    for numbers, (low, high) in ((values, found["interval"]), (gains, found["advantage_interval"])):
        half = 2.919986 * np.std(numbers, ddof=1) / np.sqrt(3)  # the 95% quantile of t with 2 degrees of freedom
        assert (low, high) == pytest.approx((np.mean(numbers) - half, min(1.0, np.mean(numbers) + half)), abs=1e-6)
    assert intervals_of(attack(values, advantages=[])) == {"interval": None, "advantage_interval": None}
    assert intervals_of(attack([0.6, 0.7]))["interval"][0] == pytest.approx(0.65 - 6.313752 * 0.05, abs=1e-6)


def test_a_candidate_that_is_not_defined_everywhere_is_stood_in_for_by_another_of_its_attack():
    one = outcome([0.9, 0.91], {"a": [0.7, 0.8]})
    two = one.model_copy(
        update={
            "attacks": {
                "a": attack([0.6, 0.7], candidates={"v": [0.6, 0.7], "w": [0.9, 0.95]}),
                "b": attack([0.5, 0.6]),
            }
        }
    )
    assert names_of([one, two]) == [("a", "v"), ("a", "w"), ("b", "v")]
    both = [one, two.model_copy(update={"attacks": {"a": two.attacks["a"]}})]
    gains = advantages_of(both, [("a", "v"), ("a", "w")])
    assert gains.shape == (2, 2, 2)
    np.testing.assert_allclose(gains[0], [[0.4, 0.6], [0.2, 0.4]])
    np.testing.assert_allclose(gains[1], [[0.4, 0.6], [0.8, 0.9]])
    # What was written before candidates were kept has its best variant, and before floors by seed one for all.
    old = attack([0.7, 0.8], candidates={}, floors=[])
    assert candidates_of(old) == {"v": [0.7, 0.8]}
    older = one.model_copy(update={"attacks": {"a": old}})
    np.testing.assert_allclose(advantages_of([older], [("a", "v")]), [[[0.4, 0.6]]])


def test_an_answer_carries_the_intervals_and_says_what_is_missing():
    (sure,) = certainties([outcome([0.9, 0.92, 0.94], {"a": [0.6, 0.62, 0.64]})])
    assert sure.numbers() == {
        "utility_interval": list(sure.utility_interval),
        "leakage_interval": list(sure.leakage_interval),
        "leakage_worst_seed": sure.leakage_worst_seed,
        "undecided": False,
    }
    low, high = sure.leakage_interval
    assert sure.leakage_worst_seed == pytest.approx(0.24)
    assert low < 0.24 < sure.leakage_upper_90 < high
    (alone,) = certainties([outcome([0.9], {"a": [0.6]})])
    assert alone.numbers() == {
        "utility_interval": None,
        "leakage_interval": None,
        "leakage_worst_seed": pytest.approx(0.2),
        "undecided": False,
    }
    (unattacked,) = certainties([Outcome(outcome="ok", utility=Score.of("auc", [0.9, 0.95]), attacks={}, leakage=0.0)])
    assert (unattacked.leakage_interval, unattacked.leakage_worst_seed, unattacked.undecided) == (None, 0.0, False)
    assert certainties([]) == []


@pytest.mark.parametrize(("floor", "named"), [(0.5, False), (0.89, False), (0.91, True), (1.0, False)])
def test_a_floor_that_leaves_less_than_a_tenth_is_named(floor, named):
    gains = {"advantages": [0.0, 0.0], "floors": [floor] * 2}
    found = Outcome(
        outcome="ok",
        utility=Score.of("auc", [0.9, 0.91]),
        attacks={
            "a": AttackScore(
                **Score.of("leak_auc", [0.9, 0.91]).model_dump(), variant="v", floor=floor, advantage=0.0, **gains
            )
        },
        leakage=0.0,
    )
    (sure,) = certainties([found])
    assert sure.amplified == ({"a": pytest.approx(1 / (1 - floor))} if named else {})


def test_other_rows_count_as_far_as_seeds_share_them():
    settings = outcome([0.9, 0.92, 0.94], {"a": [0.6, 0.62, 0.64]})
    plain = np.diff(certainties([settings])[0].utility_interval)[0] / 2
    for shared, variances in ((1.0, [1e-4, 2e-4, 3e-4]), (0.25, [1e-4, 2e-4, 3e-4]), (1.0, [1e-4, 2e-4])):
        tested = settings.model_copy(update={"utility_variance": variances, "rows_shared": shared})
        low, high = certainties([tested])[0].utility_interval
        more = shared * 2e-4 if len(variances) == 3 else 0.0
        assert min(1.0, 0.92 + np.hypot(plain, 1.644854 * np.sqrt(more))) == pytest.approx(high)
        assert 0.92 - low == pytest.approx(np.hypot(plain, 1.644854 * np.sqrt(more)))


def test_other_rows_widen_a_utility_and_more_undefended_seeds_narrow_all():
    rng = np.random.default_rng(0)
    shared, own = rng.normal(0, 0.02, 10), rng.normal(0, 0.002, (8, 10))
    rows = [0.9 + shared[:3] + o[:3] for o in own]
    settings = [outcome(list(u), {"a": [0.6, 0.61, 0.62]}) for u in rows]
    more = outcome(list(0.92 + shared + own[0]), {"a": [0.9] * 10})
    narrow, wide = certainties(settings, more)[0], certainties(settings)[0]
    width = [hi - lo for lo, hi in (narrow.utility_interval, wide.utility_interval)]
    assert width[0] < 0.7 * width[1]
    tested = [s.model_copy(update={"utility_variance": [4e-4] * 3, "rows_shared": 1.0}) for s in settings]
    low, high = certainties(tested, more)[0].utility_interval
    assert (high - low) ** 2 == pytest.approx(width[0] ** 2 + (2 * 1.645 * 0.02) ** 2, rel=1e-3)


def test_an_undefended_model_must_be_useful_trained_and_attacked():
    good = outcome([0.95, 0.94, 0.96], {"a": [0.9, 0.91, 0.89]}, utility_before_end=[0.949, 0.94, 0.96])
    assert all(c.ok for c in checks_of_undefended(good, certainties([good])[0], 0.5))
    early = good.model_copy(update={"utility_before_end": [0.92, 0.91, 0.93]})
    blind = outcome([0.95, 0.94, 0.96], {"a": [0.5, 0.51, 0.49]})
    useless = outcome([0.5, 0.48, 0.53], {"a": [0.9, 0.91, 0.89]})
    for model, name in ((early, "trained"), (blind, "effective_attacks"), (useless, "useful")):
        failing = [c.name for c in checks_of_undefended(model, certainties([model])[0], 0.5) if not c.ok]
        assert failing == [name]


def test_the_label_party_alone_is_a_federation_of_one():
    cell = cells("training.epochs=6", defense="none")("norm")
    task = Task.open(cell)
    reached, guess = alone(task), guessed(task)
    assert guess == [0.5, 0.5]
    assert all(0.8 < value < 1 for value in reached)
    without = Task.open(cells("training.epochs=6", "dataset.split=1.0", defense="none")("norm"))
    assert alone(without) == guessed(without)


def test_what_a_passive_party_holds_makes_no_difference_to_the_label_party_alone():
    cell = cells("training.epochs=3", defense="none")("norm")
    task = Task.open(cell)
    columns = task.dataset.passive[0]
    shuffled = columns.x[np.random.default_rng(0).permutation(len(columns.x))]
    from dataclasses import replace

    changed = replace(task, dataset=replace(task.dataset, passive=(replace(columns, x=shuffled),)))
    assert alone(task) == alone(changed)


def test_an_undefended_training_is_looked_at_before_its_end_and_goes_on_as_it_would():
    cell = cells("training.epochs=10", defense="none")("norm")
    defended = cells("training.epochs=10", defense="laplace")("norm")
    pack = Pack((0, 1), 1)
    looked = train_pack(Task.open(cell), [Strict()], pack).table
    shorter = train_pack(Task.open(cells("training.epochs=9", defense="none")("norm")), [Strict()], pack).table
    assert looked["before_end", "utility"] == pytest.approx(shorter["utility",])
    assert ("before_end", "utility") not in train_pack(
        Task.open(defended), [Task.open(defended).defense.Params()], pack
    ).table
