"""Where a campaign's trials go while it runs: to all alike, or to those that can still change the front."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_vfl.campaign.allocation import ALLOCATORS, FIRST, Allocation, Allocator, PartState, even, race
from tune_vfl.campaign.shares import filled
from tune_vfl.metrics.pareto import hypervolume
from tune_vfl.outcome import AttackScore, Outcome, Score

REFERENCE = (0.5, 1.0)
NOISE = np.asarray([-1.0, 0.0, 1.0])


def part(name: str, points: list[tuple[float, float]] | None = None, **fields: object) -> PartState:
    """Return a study that showed these utilities and leakages with three seeds of little noise."""
    objectives = np.asarray(points or [], dtype=np.float64).reshape(-1, 2)
    base = PartState(
        name=name,
        defense=name.upper(),
        due=0,
        objectives=objectives,
        utility=objectives[:, :1] + 0.001 * NOISE,
        leakage=objectives[:, 1:] + 0.01 * NOISE,
        pack=4,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def carried_out(
    allocate: Allocator, parts: list[PartState], total: int, worth: dict[str, list[tuple[float, float]]] | None = None
) -> tuple[dict[str, int], list[Allocation]]:
    """Do what an allocator says, one pack at a time, until nobody is next; the trials show what ``worth`` holds."""
    standing, asked = {p.name: p for p in parts}, dict.fromkeys((p.name for p in parts), 0)
    said: list[Allocation] = []
    while True:
        found = allocate(list(standing.values()), total - sum(asked.values()), REFERENCE)
        said.append(found)
        if found.part is None:
            return asked, said
        assert found.trials >= 1
        state = standing[found.part]
        asked[state.name] += found.trials
        shown = (worth or {}).get(state.name, [(0.8, 0.3)] * asked[state.name])[: asked[state.name]]
        standing[state.name] = part(
            state.name,
            shown,
            due=max(0, state.due - found.trials),
            left=state.left - found.trials,
            pack=state.pack,
        )


# Both allocators


spaces = st.tuples(st.integers(0, 6), st.one_of(st.integers(1, 12), st.just(float("inf"))))


@given(st.lists(spaces, min_size=1, max_size=6), st.integers(0, 60), st.sampled_from(sorted(ALLOCATORS)))
@settings(deadline=None, max_examples=60)
def test_published_settings_come_first_and_the_total_is_met_and_never_exceeded(
    sizes: list[tuple[int, float]], extra: int, name: str
) -> None:
    parts = [part(f"p{i}", due=int(min(due, left)), left=left) for i, (due, left) in enumerate(sizes)]
    published = sum(p.due for p in parts)
    asked, said = carried_out(ALLOCATORS[name], parts, published + extra)
    assert sum(asked.values()) == min(published + extra, sum(p.left for p in parts))
    assert all(p.due <= asked[p.name] <= p.left for p in parts)
    first = [a.part for a in said][: sum(-(-p.due // p.pack) for p in parts)]
    assert first == [p.name for p in parts for _ in range(-(-p.due // p.pack))]
    if name == "even":
        shares = filled([p.due for p in parts], [p.left for p in parts], published + extra)
        assert list(asked.values()) == shares


def test_even_hands_out_full_packs_in_turn() -> None:
    _, said = carried_out(even, [part("a", due=2), part("b")], 18)
    assert [(a.part, a.trials) for a in said[:-1]] == [("a", 2), ("b", 4), ("a", 4), ("b", 4), ("a", 3), ("b", 1)]


def test_a_lost_trial_is_asked_again_before_anything_else() -> None:
    seen = [(0.9, 0.5)] * 4
    assert even([part("a", seen), part("b", seen, due=1)], 9, REFERENCE)[:2] == ("b", 1)
    assert race([part("a", seen), part("b", seen, due=1)], 9, REFERENCE)[:2] == ("b", 1)


# Racing

GOOD = [(0.95, 0.9), (0.94, 0.5), (0.93, 0.3), (0.92, 0.15), (0.90, 0.05), (0.945, 0.6), (0.925, 0.2), (0.91, 0.1)]
BAD = [(u - 0.05, min(1.0, x + 0.1)) for u, x in GOOD]


def test_packs_go_to_the_study_that_makes_the_front() -> None:
    worth = {"good": GOOD * 9, "bad": BAD * 9, "worse": [(u - 0.2, x) for u, x in BAD] * 9}
    asked, said = carried_out(race, [part(name, due=4) for name in worth], 36, worth)
    assert asked == {"good": 28, "bad": 4, "worse": 4}
    assert said[-1].retired == {
        "bad": "dominated at every leakage by GOOD; the chance that one of its settings is on the front is under 3%",
        "worse": "dominated at every leakage by GOOD; the chance that one of its settings is on the front is under 3%",
    }


def test_a_retired_study_comes_back_when_the_front_moves() -> None:
    rival = part("rival", BAD[:4])
    assert list(race([part("good", GOOD), rival], 9, REFERENCE).retired) == ["rival"]
    # Other seeds, or a trial that is thrown out: what dominated it is not there any more.
    assert race([part("good", [(0.6, 0.9)] * 4), rival], 9, REFERENCE).retired.keys() == {"good"}


def test_no_study_is_judged_by_fewer_than_the_first_trials() -> None:
    for seen in range(FIRST):
        assert race([part("good", GOOD), part("new", BAD[:seen])], 9, REFERENCE) == Allocation(
            "new", FIRST - seen, None
        )
    found = race([part("good", GOOD), part("new", BAD[:1], flying=FIRST - 1)], 9, REFERENCE)
    assert found == Allocation("good", 4, {})
    used_up = part("new", BAD[:1], left=0)
    assert race([part("good", GOOD), used_up], 9, REFERENCE).retired.keys() == {"new"}


def test_a_study_that_has_shown_nothing_yet_is_waited_for_and_others_go_on() -> None:
    flying = part("new", flying=3)
    assert race([part("good", GOOD[:4]), flying], 9, REFERENCE)[:2] == ("good", 4)
    assert race([flying], 9, REFERENCE) == Allocation(None, 0, {})


def test_packs_that_fly_share_what_is_promised() -> None:
    shifted = [(u - 0.001, x) for u, x in GOOD[:4]]
    both = [part("one", GOOD[:4]), part("two", shifted)]
    first = race(both, 99, REFERENCE).part
    busy = [replace(p, flying=40) if p.name == first else p for p in both]
    assert {first, race(busy, 99, REFERENCE).part} == {"one", "two"}


def test_trials_without_a_result_make_a_study_less_promising() -> None:
    one, two = part("one", GOOD[:4]), part("two", [(u - 0.001, x) for u, x in GOOD[:4]])
    first = race([one, two], 9, REFERENCE).part
    often = [replace(p, failed=40) if p.name == first else p for p in (one, two)]
    assert {first, race(often, 9, REFERENCE).part} == {"one", "two"}


def test_a_study_without_a_result_is_retired_in_its_own_words() -> None:
    found = race([part("good", GOOD[:4]), part("broken", failed=3)], 9, REFERENCE)
    assert found == Allocation("good", 4, {"broken": "none of its 3 trials came to a result"})


def test_trials_go_to_retired_studies_only_when_no_other_has_any_left() -> None:
    good, bad = part("good", GOOD, left=2), part("bad", BAD[:4])
    assert race([good, bad], 9, REFERENCE)[:2] == ("good", 2)
    used_up = replace(good, left=0)
    assert race([used_up, bad], 7, REFERENCE)[:2] == ("bad", 4)
    assert race([replace(used_up, flying=2), bad], 7, REFERENCE)[:2] == (None, 0)


def test_noise_keeps_a_study_that_may_be_on_the_front() -> None:
    quiet = [part("good", GOOD), part("near", BAD[:4])]
    signs = [np.asarray([1, -1] * (len(p.objectives) // 2))[:, None] for p in quiet]
    loud = [replace(p, utility=p.utility + 0.2 * NOISE * sign) for p, sign in zip(quiet, signs, strict=True)]
    assert list(race(quiet, 9, REFERENCE).retired) == ["near"]
    assert race(loud, 9, REFERENCE).retired == {}


def test_one_seed_is_enough_to_race() -> None:
    parts = [part(n, p) for n, p in (("good", GOOD[:4]), ("bad", BAD[:4]))]
    alone = [replace(p, utility=p.utility[:, :1], leakage=p.leakage[:, :1]) for p in parts]
    assert race(alone, 9, REFERENCE).part == "good"


def test_the_same_trials_give_the_same_answer() -> None:
    parts = [part(n, p) for n, p in (("good", GOOD[:4]), ("bad", BAD[:4]))]
    assert race(parts, 9, REFERENCE) == race(parts, 9, REFERENCE)


def test_racing_reaches_the_front_of_even_shares_in_half_of_the_trials() -> None:
    rng = np.random.default_rng(0)
    worth = {}
    for k in range(8):
        strength = rng.uniform(size=40)
        # Only one study's settings protect at little cost; the others stop short of it on the way.
        cost, least = (0.02, 0.0) if k == 5 else (0.1, 0.2)
        worth[f"p{k}"] = list(zip(0.95 - cost * strength, least + 0.7 * (1 - strength), strict=True))
    parts = [part(name, due=3, left=40) for name in worth]
    fronts = {}
    for name, total in (("even", 120), ("race", 60)):
        asked, _ = carried_out(ALLOCATORS[name], parts, total, worth)
        fronts[name] = hypervolume([x for n, count in asked.items() for x in worth[n][:count]], REFERENCE)
    assert fronts["race"] >= fronts["even"]


# Constraints


def test_under_constraints_packs_go_where_the_answer_may_change() -> None:
    # By leakage .2: all of the second study's settings leak more, and the first one's are less useful than the third's.
    useful = [(0.93, 0.15), (0.92, 0.12), (0.925, 0.3), (0.91, 0.1)]
    parts = [part("low", [(u - 0.1, x) for u, x in useful]), part("leaks", [(0.95, 0.9)] * 4), part("best", useful)]
    constrained = [replace(p, misses=p.objectives[:, 1] - 0.2) for p in parts]
    found = race(constrained, 9, REFERENCE)
    assert found[:2] == ("best", 4)
    assert found.retired["low"] == (
        "behind BEST under the constraints; the chance that one of its settings becomes the answer is under 3%"
    )
    assert "leaks" in found.retired
    assert "leaks" not in race(parts, 9, REFERENCE).retired  # the most useful one is on the front


def test_while_nothing_qualifies_packs_go_to_what_comes_nearest() -> None:
    parts = [part("far", [(0.95, 0.9), (0.94, 0.8), (0.93, 0.85)]), part("near", [(0.8, 0.3), (0.81, 0.4), (0.8, 0.5)])]
    constrained = [replace(p, misses=p.objectives[:, 1] - 0.1) for p in parts]
    assert race(constrained, 9, REFERENCE).part == "near"


# From outcomes


def test_a_state_takes_its_numbers_from_outcomes() -> None:
    def score(*advantages: float) -> AttackScore:
        """An attack without a floor: its success is its advantage."""
        mean = float(np.mean(advantages))
        return AttackScore(
            metric="leak_auc", mean=mean, std=0.0, values=list(advantages), advantages=list(advantages), advantage=mean
        )

    ok = [
        Outcome(
            outcome="ok",
            utility=Score.of("auc", [0.9, 0.8]),
            leakage=0.4,
            attacks={"norm": score(0.1, 0.2), "pmc": score(0.5, 0.3)},
        ),
        Outcome(
            outcome="ok",
            utility=Score.of("auc", [0.7, 0.6]),
            leakage=0.2,
            attacks={"norm": score(0.3, 0.1), "pmc": score(0.0, -0.2)},
        ),
    ]
    state = PartState.of("study", "laplace", ok, due=1, failed=2, flying=3)
    np.testing.assert_allclose(state.objectives, [[0.85, 0.4], [0.65, 0.2]])
    np.testing.assert_allclose(state.leakage, [[0.5, 0.3], [0.3, 0.1]])
    assert (state.finished, state.asked) == (4, 7)
    assert PartState.of("study", "laplace", [], due=1).objectives.shape == (0, 2)
