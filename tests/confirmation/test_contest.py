"""Who takes part in a confirmation, who gets more seeds, and what is computed from the records."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.contests import SCALES, answered, campaign_of, measure, played, played_by, searched
from tests.helpers.simulated import closed_form
from tune_vfl.confirmation.contest import Contest, contests_of
from tune_vfl.confirmation.tuning import with_attackers
from tune_vfl.confirmation.values import fresh, names_of, steady
from tune_vfl.confirmation.values import searched as search_block
from tune_vfl.errors import StudyError, UsageError
from tune_vfl.outcome import AttackScore, Outcome, Score, TunedAttack
from tune_vfl.records.answers import Confirmation
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.confirmations import UNDEFENDED, AttackOfSeed, SeedRecord, records_of
from tune_vfl.records.studies import TrialRecord
from tune_vfl.spec.cell import References
from tune_vfl.statistics import advantage

pytestmark = pytest.mark.usefixtures("home")


def contest_of(seeds: int = 5, **fields: Any) -> Contest:
    ledger = searched(**fields)
    ledger.close()
    return Contest.of(ledger.record(), seeds)


def test_the_front_takes_part_and_its_likeliest_neighbors_do() -> None:
    # A second parameter that only wastes utility: its settings lie behind the front, the nearest first.
    contest = contest_of()
    assert {t.key for t in contest.points[: len(contest.front)]} == contest.front
    assert len(contest.points) - len(contest.front) <= 5
    assert len(contest.front) == len(SCALES), "without waste every setting is on the curve"


def test_with_a_single_seed_the_neighbors_are_those_that_only_the_front_dominates() -> None:
    record = searched(seeds=1, noise=0.0).record()
    worse = record.trials[3].outcome
    assert worse.utility is not None
    lowered = worse.model_copy(update={"utility": Score.of("auc", [worse.utility.mean - 0.01])})
    twice = lowered.model_copy(update={"utility": Score.of("auc", [worse.utility.mean - 0.02])})
    trials = [*record.trials, replace(record.trials[3], number=90, outcome=lowered)]
    trials.append(replace(record.trials[3], number=91, outcome=twice))
    contest = Contest.of(replace(record, trials=tuple(trials)), 5)
    assert [t.number for t in contest.points] == [*range(len(SCALES)), 90]


def test_from_two_seeds_on_a_neighbor_takes_part_by_its_chance_and_not_by_its_rank() -> None:
    """The farther of two settings behind the front is dominated by both others, and its seeds leave it a chance."""
    record = searched(seeds=2, noise=0.0, scales=SCALES[:1]).record()
    (best,) = record.trials

    def behind(number: int, by: float, spread: float) -> TrialRecord:
        assert best.outcome.utility is not None
        utility = Score.of(
            "auc", [v - by + s for v, s in zip(best.outcome.utility.values, (-spread, spread), strict=True)]
        )
        return replace(best, number=number, outcome=best.outcome.model_copy(update={"utility": utility}))

    trials = (best, behind(1, 0.01, 0.0), behind(2, 0.02, 0.02))
    contest = Contest.of(replace(record, trials=trials), 5)
    assert [e.number for e in contest.points] == [0, 1, 2]


def test_a_study_without_a_result_stands_beside_those_that_have_one() -> None:
    record = searched().record()
    nothing = replace(searched("nothing", defense="gaussian").record(), trials=())
    (contest,) = contests_of(campaign_of([record, nothing]), 5)
    assert {e.study for e in contest.points} == {"study"}
    assert [s.name for s in contest.studies] == ["study", "nothing"]


def test_a_study_without_a_result_has_nothing_to_confirm() -> None:
    record = replace(searched().record(), trials=())
    with pytest.raises(StudyError, match=r"nothing to confirm.*tune-vfl resume study"):
        contests_of(CampaignRecord.of(record), 10)
    with pytest.raises(UsageError, match="at least 1 seed"):
        contests_of(CampaignRecord.of(searched("another").record()), 0)


def test_every_phase_asks_for_fresh_seeds_in_order_and_the_undefended_model_has_most() -> None:
    contest = contest_of(seeds=10)
    first = contest.missing(contest.plan({}), {})
    asked = {number: [s for _, n, s in first if n == number] for number in {n for _, n, _ in first}}
    assert asked.pop(UNDEFENDED) == list(range(1000, 1020))
    assert asked == {t.number: [1000, 1001, 1002, 1003] for t in contest.points}
    few = contest_of(seeds=1)
    assert (few.common, few.most) == (2, 2), "a single seed has no spread"
    assert sum(n == UNDEFENDED for _, n, _ in few.missing(few.plan({}), {})) == 10, "never fewer than in a search"
    held = played(contest)
    for number in {n for _, n, _ in held}:
        seeds = sorted(s for _, n, s in held if n == number)
        assert seeds == list(range(1000, 1000 + len(seeds))), "no seed is left out"
    plan = contest.plan(held)
    assert plan.done
    counts = {t.number: sum(n == t.number for _, n, _ in held) for t in contest.points}
    kept = [t.number for t, kept in zip(contest.points, plan.kept, strict=True) if kept]
    assert kept
    assert all(counts[n] >= 10 for n in kept)


def test_a_setting_that_diverges_takes_no_more_seeds_and_stops_nothing() -> None:
    contest = contest_of()
    held = played(contest)
    lost = contest.points[2].number

    def find(place: tuple[str, int, int]) -> SeedRecord:
        bad = place == ("study", lost, 1001)
        return SeedRecord(outcome="diverged", reason="NaN") if bad else measure(contest, place)

    some = played_by(contest, find)
    assert sum(n == lost for _, n, _ in some) <= sum(n == lost for _, n, _ in held)
    answer = answered(contest, some)
    point = next(p for p in answer.points if p.number == lost)
    assert (point.outcome, point.reason, point.utility, point.stays, point.confirmed) == (
        "diverged", "NaN", None, None, False,
    )  # fmt: skip
    check = next(c for c in answer.checks if c.name == "measured")
    assert not check.ok
    assert f"no number for trial {lost}: NaN" in check.says
    assert json.loads(json.dumps(answer.plain(), allow_nan=False)) == answer.plain()


def test_what_failed_in_this_run_is_not_asked_again_in_it() -> None:
    contest = contest_of()
    gone = contest.points[0].key
    assert gone not in {(study, n) for study, n, _ in contest.missing(contest.plan({}, [gone]), {}, [gone])}


def test_without_noise_the_answer_is_the_curve_itself() -> None:
    contest = contest_of(noise=0.0, seeds=4)
    answer = answered(contest, played(contest, noise=0.0))
    curve = {scale: closed_form(k / 11) for k, scale in enumerate(SCALES)}
    assert len(answer.points) == len(SCALES)
    for point in answer.points:
        utility, leakage = next(v for s, v in curve.items() if point.params["scale"] == pytest.approx(s))
        assert point.utility == pytest.approx(utility)
        assert point.leakage == pytest.approx(leakage)
        assert point.utility_interval == pytest.approx((utility, utility))
        assert (point.stays, point.confirmed, point.on_front) == (1.0, True, True)
        assert point.searched == {"utility": pytest.approx(utility), "leakage": pytest.approx(leakage)}
    assert [p.utility for p in answer.points] == sorted((p.utility for p in answer.points), reverse=True)
    assert answer.gap["breast_cancer"] == {"utility": pytest.approx(0.0), "leakage": pytest.approx(0.0)}
    assert answer.undefended.utility == pytest.approx(0.95)
    assert answer.undefended.leakage == pytest.approx(1.0)
    assert [len(line.numbers) for line in answer.lines] == [1] * len(SCALES), "all can be told apart"


def test_a_search_that_was_lucky_is_found_out() -> None:
    record = searched(noise=0.0).record()
    lucky = [replace(t, outcome=_luckier(t.outcome, 0.05)) for t in record.trials]
    contest = Contest.of(replace(record, trials=tuple(lucky)), 4)
    answer = answered(contest, played(contest, noise=0.0))
    assert answer.gap["breast_cancer"]["utility"] == pytest.approx(0.05)


def _luckier(outcome: Outcome, by: float) -> Outcome:
    assert outcome.utility is not None
    return outcome.model_copy(update={"utility": Score.of("auc", [v + by for v in outcome.utility.values])})


def test_settings_that_cannot_be_told_apart_share_a_line(as_searched: None) -> None:
    near = (1e-3, 1.0001e-3, 1.0002e-3)
    contest = contest_of(scales=(1e-5, *near, 1e-1), noise=0.0, seeds=4)
    rng = np.random.default_rng(3)

    def noisy(place: tuple[str, int, int]) -> SeedRecord:
        kept, seen = measure(contest, place, noise=0.0), {}
        for name, attack in kept.attacks.items():
            moved = {v: success + rng.normal(0, 0.002) for v, success in attack.candidates.items()}
            seen[name] = attack.model_copy(update={"candidates": moved})
        return kept.model_copy(update={"utility": (kept.utility or 0.0) + rng.normal(0, 0.002), "attacks": seen})

    answer = answered(contest, played_by(contest, noisy))
    merged = [line for line in answer.lines if len(line.numbers) > 1]
    assert [sorted(line.numbers) for line in merged] == [[1, 2, 3]]
    assert merged[0].params == {"scale": [pytest.approx(min(near)), pytest.approx(max(near))]}
    assert merged[0].utility[0] <= merged[0].utility[1]


def test_data_without_a_reserve_are_said_to_have_fresh_seeds_only() -> None:
    contest = contest_of(noise=0.0, seeds=4)
    answer = answered(contest, played(contest, noise=0.0))
    reserve = next(c for c in answer.checks if c.name == "reserve")
    assert (answer.reserve["breast_cancer"], reserve.ok) == (0, False)
    assert reserve.says.startswith("no reserve: breast_cancer has 569 rows")
    assert reserve.says.endswith("the seeds are fresh, the rows are not")
    assert Confirmation.model_validate(answer.plain()) == answer


NAMES = [("norm", "a"), ("norm", "b"), ("pmc", "chosen")]


def outcome_of(norm: list[float], pmc: list[float], floor: list[float]) -> Outcome:
    return Outcome(
        outcome="ok",
        utility=Score.of("auc", [0.9] * len(norm)),
        utility_variance=[1e-4] * len(norm),
        attacks={
            "norm": AttackScore(
                **Score.of("leak_auc", norm).model_dump(), guess=0.5, floor=0.5, floors=[0.5] * len(norm),
                candidates={"a": norm, "b": [v - 0.1 for v in norm]},
            ),
            "pmc": AttackScore(
                **Score.of("leak_auc", pmc).model_dump(), guess=0.5, r_lower=float(np.mean(floor)),
                floor=float(np.mean(floor)), floors=floor, candidates={"chosen": pmc},
            ),
        },
        leakage=0.5,
        leakage_std=0.1,
    )  # fmt: skip


def test_an_outcome_is_taken_apart_by_seed_and_put_together_again() -> None:
    norm, pmc, floor = [0.8, 0.7, 0.9], [0.989, 0.923, 0.966], [0.95, 0.96, 0.967]
    outcome = outcome_of(norm, pmc, floor)
    assert names_of([outcome]) == NAMES
    kept = records_of(outcome, (1000, 1001, 1002), References(r_lower={"pmc": floor}))
    assert kept[1001] == SeedRecord(
        outcome="ok",
        utility=0.9,
        variance=1e-4,
        attacks={
            "norm": AttackOfSeed(guess=0.5, party="", candidates={"a": 0.7, "b": 0.7 - 0.1}),
            "pmc": AttackOfSeed(guess=0.5, party="", r_lower=0.96, candidates={"chosen": 0.923}),
        },
    )
    block = fresh([[kept[s] for s in (1000, 1001, 1002)]], NAMES)
    assert block.advantages[2, 0] == pytest.approx([0.949435, -0.902241, -0.022804], abs=1e-6)
    assert block.advantages == pytest.approx(search_block([outcome], NAMES).advantages)
    assert block.advantages[0, 0] == pytest.approx(advantage(norm, [0.5] * 3).by_seed)


def test_the_plan_s_advantages_do_not_move_when_seeds_arrive() -> None:
    outcome = outcome_of([0.8, 0.7], [0.9, 0.8], [0.7, 0.6])
    kept = records_of(outcome, (1000, 1001), References(r_lower={"pmc": [0.7, 0.6]}))
    # Headroom as the search found it: .5, .5 and 1 - .65.
    assert steady(kept[1000], outcome, NAMES) == pytest.approx([0.6, 0.4, 0.2 / 0.35])
    assert steady(kept[1001], outcome, NAMES) == pytest.approx([0.4, 0.2, 0.2 / 0.35])


def test_what_is_missing_beside_an_attack_is_another_of_its_candidates() -> None:
    outcome = outcome_of([0.8, 0.7], [0.9, 0.8], [0.7, 0.6])
    more = [*NAMES, ("norm", "only elsewhere")]
    block = search_block([outcome], more)
    assert block.advantages[3] == pytest.approx(block.advantages[0])


def test_a_lost_trial_is_lost_with_every_seed_it_had() -> None:
    failed = Outcome.failed("diverged", "training became non-finite with seed 1001")
    kept = records_of(failed, (1000, 1001), References())
    assert {r.outcome for r in kept.values()} == {"diverged"}
    assert sorted(kept) == [1000, 1001]


def test_an_attacker_that_was_tuned_adds_to_a_leakage_and_never_takes_from_it() -> None:
    contest = contest_of()
    held = played(contest)
    plain = {n: p for (_, n), p in answered(contest, held).by_setting.items()}
    number = next(iter(plain))
    about = {"attack": "pmc", "params": {"steps": 3}, "variant": "a", "tried": 4, "minutes": 1.0}

    def against(gain: float) -> TunedAttack:
        return TunedAttack(**about, success=(0.9,) * 5, floors=(0.5,) * 5, advantages=(gain,) * 5)

    before = plain[number]
    assert before.leakage is not None
    for gain in (-0.5, 0.0, 1.0):
        after = with_attackers(answered(contest, held), {("study", number): against(gain)})
        point = after.by_setting["study", number]
        assert point.tuned == against(gain)
        assert point.leakage == pytest.approx(max(before.leakage, gain))
        assert point.leakage_untuned == before.leakage
        assert point.leakage_upper_90 >= before.leakage_upper_90
        assert point.leakage_interval >= before.leakage_interval
        others = [p for p in answered(contest, held).points if p.number != number]
        assert [p for p in after.points if p.number != number] == others
        assert after.gap == answered(contest, held).gap, "what the search saw was not tuned either"
