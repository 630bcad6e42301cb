"""Whatever a page shows, the point lies in its interval: random studies, floors near 1, few seeds, much noise."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.campaigns import UNDEFENDED, campaign_of, part_of, steady
from tune_vfl.analysis.bounds import UpperBounds
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Choice
from tune_vfl.analysis.describer import Describer
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.confirmation.answer import answer_of
from tune_vfl.confirmation.contest import Contest
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.evaluation.certainty import Interval, advantages_of, intervals_of, limits_of, names_of
from tune_vfl.evaluation.summarizing import summarize
from tune_vfl.outcome import AttackScore, Outcome, Score
from tune_vfl.records.confirmations import UNDEFENDED as MODEL
from tune_vfl.records.confirmations import AttackOfSeed, SeedRecord
from tune_vfl.statistics import leakage_bounds
from tune_vfl.statistics.arrays import Floats

NORM = ATTACKS["norm"]()
FLOORS = (0.5, 0.7, 0.88, 0.93, 0.98, 0.999, 1.0)
QUANTITIES = ("utility", "utility_loss", "leakage", "attacks.norm.advantage", "attacks.norm.success")


class Drawn(NamedTuple):
    """A random study: how many settings and seeds, where its floors lie, and how much everything moves."""

    settings: int
    seeds: int
    floor: float
    spread: float
    seed: int
    known: bool


studies = st.builds(
    Drawn,
    st.integers(1, 7),
    st.integers(2, 4),
    st.sampled_from(FLOORS),
    st.sampled_from((0.0, 0.002, 0.02, 0.2)),
    st.integers(0, 10**6),
    st.booleans(),
)


def holds(point: float | None, interval: Interval | None) -> bool:
    """Return whether a point lies in its interval, rounding aside; true where either is not known."""
    return point is None or interval is None or interval[0] - 1e-9 <= point <= interval[1] + 1e-9


def draw(of: Drawn, rng: np.random.Generator, luck: Floats) -> list[Outcome]:
    """Return outcomes of settings that share the luck of their seeds in utility and in the floors of one attack."""
    lower = np.clip(of.floor + of.spread * rng.normal(size=of.seeds), 0, 1).tolist()
    return [outcome_of(of, rng, lower, luck[: of.seeds]) for _ in range(of.settings)]


def outcome_of(of: Drawn, rng: np.random.Generator, lower: list[float], luck: Floats) -> Outcome:
    """Return one setting's outcome, summarized as an evaluation does it."""
    attacks = {"norm": score_of(of, rng, None, 0.5), "pmc": score_of(of, rng, lower, of.floor)}
    worst = max(attacks.values(), key=lambda s: s.advantage)
    utility = rng.uniform(0.6, 0.95) + luck + 0.2 * of.spread * rng.normal(size=of.seeds)
    return Outcome(
        outcome="ok",
        utility=Score.of("auc", np.clip(utility, 0, 1).tolist()),
        attacks=attacks,
        leakage=worst.advantage,
        leakage_std=worst.advantage_std,
    )


def score_of(of: Drawn, rng: np.random.Generator, lower: list[float] | None, floor: float) -> AttackScore:
    """Return one attack's score, of success anywhere between its floor and certainty."""
    columns = {v: {"success": successes(of, rng, floor)} for v in ("a", "b")}
    found = summarize(NORM, columns, num_classes=2, guess=0.5, r_lower=lower)
    assert found is not None
    return found.model_copy(update={"noise": [of.spread] * of.seeds if of.known else []})


def successes(of: Drawn, rng: np.random.Generator, floor: float) -> list[float]:
    mean = floor + (1 - floor) * rng.choice([0.0, rng.uniform(), 1.0])
    found: list[float] = np.clip(mean + of.spread * rng.normal(size=of.seeds), 0, 1).tolist()
    return found


def check(setting: Choice) -> None:
    """Hold every number of a described setting to its interval."""
    assert holds(setting.utility, setting.utility_interval)
    assert holds(setting.leakage, setting.leakage_interval)
    assert holds(setting.loss, setting.loss_interval)
    if setting.strongest is not None:
        assert holds(setting.strongest.advantage, setting.strongest.interval)


@settings(deadline=None, max_examples=80)
@given(studies)
def test_of_a_search_side_by_side_and_in_a_decision(of: Drawn) -> None:
    rng = np.random.default_rng(of.seed)
    luck, model = of.spread * rng.normal(size=10), steady(*UNDEFENDED, seeds=10)
    outcomes = draw(of, rng, luck)
    undefended = Score.of("auc", np.clip(0.95 + luck, 0, 1).tolist())
    part = part_of("laplace", outcomes, baseline=model.model_copy(update={"utility": undefended}))
    names = names_of(outcomes)
    for outcome, bounds in zip(
        outcomes, leakage_bounds(advantages_of(outcomes, names), limits_of(outcomes, names)), strict=True
    ):
        assert holds(outcome.leakage, (bounds.lower, bounds.upper)), "before anything is made to reach to it"
        for score in outcome.attacks.values():
            own = intervals_of(score)
            assert holds(score.mean, own["interval"])
            assert holds(score.advantage, own["advantage_interval"])
    campaign = campaign_of(part)
    joint = joint_of(campaign)
    for point in joint.points:
        assert holds(point.objectives[0], point.intervals[0])
        assert holds(point.objectives[1], point.intervals[1])
        check(Describer(joint).setting(joint.settings.place[point.study, point.number]))
    chosen = decide(joint)
    for setting in (chosen.setting, chosen.runner_up, chosen.nearest):
        if setting is not None:
            check(setting)
    bounds_hold(UpperBounds(SettingsTable(campaign), 0.6), of.settings)
    bounds_hold(UpperBounds(SettingsTable(campaign)), of.settings)


def bounds_hold(bounds: UpperBounds, count: int) -> None:
    """Hold bounds to the right side of their estimates."""
    for name in QUANTITIES:
        value, bound = bounds.of(name)
        assert len(value) == count
        assert (bound <= value + 1e-9 if name == "utility" else bound >= value - 1e-9).all(), name


@settings(deadline=None, max_examples=15)
@given(studies)
@pytest.mark.usefixtures("home")
def test_of_a_confirmation_and_of_what_is_bounded_by_it(of: Drawn) -> None:
    rng = np.random.default_rng(of.seed)
    part = part_of("laplace", draw(of, rng, np.zeros(of.seeds)))
    contest = Contest.of(part, 5)
    fresh = of._replace(seeds=1)
    held = {}
    for number in (MODEL, *(e.number for e in contest.points)):
        for seed in range(1000, 1000 + max(20, contest.most)):
            attacks = {
                name: AttackOfSeed(
                    guess=0.5,
                    r_lower=successes(fresh, rng, floor)[0] if name == "pmc" else None,
                    noise=of.spread if of.known else None,
                    candidates={v: successes(fresh, rng, floor)[0] for v in ("a", "b")},
                )
                for name, floor in (("norm", 0.5), ("pmc", of.floor))
            }
            utility = float(np.clip(0.8 + of.spread * rng.normal(), 0, 1))
            held[part.name, number, seed] = SeedRecord(outcome="ok", utility=utility, attacks=attacks)
    table = ContestTable(contest, held)
    for point in table.points:
        assert holds(point.utility, point.utility_interval)
        assert holds(point.leakage, point.leakage_interval)
        assert set(point.attacks) == {"norm", "pmc"}
        for attack in point.attacks.values():
            assert holds(attack.advantage.value, attack.advantage.interval)
            assert holds(attack.success.value, attack.success.interval)
    seen = campaign_of(replace(part, confirmation=answer_of(part, [table])))
    joint = joint_of(seen)
    for point in joint.points:
        check(Describer(joint).setting(joint.settings.place[point.study, point.number]))
    bounds_hold(UpperBounds(joint.settings, 0.6), of.settings)
    bounds_hold(UpperBounds(joint.settings), of.settings)
    model = table.undefended(part.name)
    assert holds(model.utility, model.utility_interval)
    assert holds(model.leakage, model.leakage_interval)
