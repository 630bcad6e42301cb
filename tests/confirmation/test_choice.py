"""Which attack a confirmed leakage is that of: the search's seeds and the other fresh ones choose it, seed by seed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.contests import Held, Place, answered, measure, played, played_by, searched
from tune_vfl.confirmation.contest import Contest
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.records.confirmations import UNDEFENDED, SeedRecord

pytestmark = pytest.mark.usefixtures("home", "as_searched")

GUESS = 0.5
SCALES = (1e-5, 1e-3, 1e-1)
TRIAL = 1
"""Of these, the one whose numbers are made up here."""
UP_AND_DOWN = (-0.1, 0.1, -0.05, 0.05, 0.0)


def scored(gains: list[float]) -> AttackScore:
    success = [GUESS + (1 - GUESS) * gain for gain in gains]
    spread = Score.of("advantage", gains)
    score = Score.of("leak_auc", success).model_dump()
    return AttackScore(**score, guess=GUESS, floor=GUESS, advantage=spread.mean, advantage_std=spread.std)


def contest_of(norm: float, pmc: float, seeds: int = 5) -> Contest:
    """A contest of a study whose second trial gave two attacks these advantages with each of its seeds."""
    ledger = searched(scales=SCALES, attacks=["norm", "pmc"])
    ledger.close()
    record = ledger.record()
    trials = [replace(t, outcome=_with(t.outcome, norm, pmc)) if t.number == TRIAL else t for t in record.trials]
    return Contest.of(replace(record, trials=tuple(trials)), seeds)


def _with(outcome: Outcome, norm: float, pmc: float) -> Outcome:
    attacks = {"norm": scored([norm] * 3), "pmc": scored([pmc] * 3)}
    return outcome.model_copy(update={"attacks": attacks, "leakage": max(norm, pmc), "leakage_std": 0.0})


def fresh(contest: Contest, norm: float, pmc: float) -> Held:
    """Measure what is missing; with fresh seeds the two attacks find about this much in the second trial."""

    def find(place: Place) -> SeedRecord:
        kept, moved = measure(contest, place), UP_AND_DOWN[place[2] % len(UP_AND_DOWN)]
        return _found(kept, norm + moved, pmc - moved) if place[1] == TRIAL else kept

    return played_by(contest, find)


def _found(record: SeedRecord, *gains: float) -> SeedRecord:
    attacks = {
        name: seen.model_copy(update={"candidates": dict.fromkeys(seen.candidates, GUESS + (1 - GUESS) * gain)})
        for (name, seen), gain in zip(record.attacks.items(), gains, strict=True)
    }
    return record.model_copy(update={"attacks": attacks})


@pytest.mark.parametrize(
    ("in_search", "leakage"), [((0.6, 0.1), 0.32), ((0.1, 0.6), 0.36)], ids=["norm was best", "pmc was best"]
)
def test_the_search_s_seeds_choose_too_and_are_not_scored(in_search: tuple[float, float], leakage: float) -> None:
    """On fresh seeds the two are close: the search's say which one an attacker would take, and add nothing to it."""
    contest = contest_of(*in_search)
    answer = answered(contest, fresh(contest, 0.32, 0.36))
    point = answer.by_setting[answer.name, TRIAL]
    assert point.leakage == pytest.approx(leakage)
    assert point.leakage_untuned == point.leakage
    assert point.searched["leakage"] == 0.6


def test_without_a_preference_of_the_search_other_fresh_seeds_choose() -> None:
    contest = contest_of(0.3, 0.3)
    answer = answered(contest, fresh(contest, 0.32, 0.36))
    point = answer.by_setting[answer.name, TRIAL]
    both = np.asarray([[g + s * UP_AND_DOWN[seed % 5] for seed in answer.seeds] for g, s in ((0.32, 1), (0.36, -1))])
    others = both.sum(1, keepdims=True) - both  # to each seed, its own left out
    expected = both[others.argmax(0), np.arange(both.shape[1])].mean()
    assert point.leakage == pytest.approx(expected)
    assert point.leakage != pytest.approx(both.max(0).mean()), "no seed chooses the attack that it is scored with"
    assert point.leakage_worst_seed == pytest.approx(both.max(0).mean())
    assert point.attack == "pmc"


def test_an_interval_of_utility_holds_for_other_rows_as_far_as_seeds_say_nothing_of_them() -> None:
    """Without noise over seeds it is that over rows alone: of its mean variance the share that one seed tests on."""
    ledger = searched(scales=SCALES, noise=0.0)
    ledger.close()
    contest = Contest.of(ledger.record(), 5)

    def find(place: Place) -> SeedRecord:
        return measure(contest, place, noise=0.0).model_copy(update={"variance": 1e-4 * (1 + place[2] % 2)})

    held = played_by(contest, find)
    answer = answered(contest, held)
    share = ContestTable(contest, held).facts.share
    assert 0 < share < 1
    measured = [*(p for p in answer.points if p.outcome == "ok"), answer.undefended]
    for point, seeds in zip(
        measured, (*[len(answer.seeds)] * (len(measured) - 1), answer.undefended.seeds), strict=True
    ):
        variances = [1e-4 * (1 + s % 2) for s in range(1000, 1000 + seeds)]
        half = 1.6448536 * math.sqrt(share * sum(variances) / seeds)
        assert point.utility is not None
        assert point.utility_interval == pytest.approx((point.utility - half, point.utility + half))
    assert next(c for c in answer.checks if c.name == "rows").ok


def test_a_setting_whose_spread_over_rows_is_not_known_of_every_seed_is_given_that_over_seeds_alone() -> None:
    ledger = searched(scales=SCALES, noise=0.0)
    ledger.close()
    contest = Contest.of(ledger.record(), 2)

    def find(place: Place) -> SeedRecord:
        known = {} if place[1:] == (TRIAL, 1000) else {"variance": 1e-4}
        return measure(contest, place, noise=0.0).model_copy(update=known)

    answer = answered(contest, played_by(contest, find))
    for point in answer.points:
        low, high = point.utility_interval or (0.0, 0.0)
        assert (low == pytest.approx(high)) == (point.number == TRIAL)
    assert not next(c for c in answer.checks if c.name == "rows").ok


@pytest.mark.parametrize(("seeds", "outcome"), [(1, "error"), (2, "ok"), (3, "ok")])
def test_an_undefended_model_has_numbers_from_two_seeds_on(seeds: int, outcome: str) -> None:
    ledger = searched(scales=SCALES, noise=0.0)
    ledger.close()
    contest = Contest.of(ledger.record(), 1)
    held = played(contest, noise=0.0)
    few = {place: kept for place, kept in held.items() if place[1] != UNDEFENDED or place[2] < 1000 + seeds}
    found = ContestTable(contest, few).undefended("study")
    assert (found.seeds, found.outcome) == (seeds, outcome)
    assert found.reason == ("it was not measured" if outcome == "error" else "")
    assert found.utility == (None if outcome == "error" else pytest.approx(0.95))
