"""What a campaign decides: the most useful setting that qualifies, the knee, or why nothing."""

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of, steady
from tune_vfl.analysis.decide import decide, decisions
from tune_vfl.analysis.decision import Choice, Decision, Reference
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.records.campaigns import CampaignRecord, Skipped

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.18), (0.85, 0.1), (0.945, 0.8))
KDK = ((0.91, 0.17), (0.70, 0.05))
LOW = {"leakage": 0.2}


def three(**fields: object) -> CampaignRecord:
    parts = part_of("laplace", LAPLACE), part_of("marvell", MARVELL, cost=1.25), part_of("kdk", KDK)
    return campaign_of(*parts, **fields)


def decided(campaign: CampaignRecord) -> Decision:
    return decide(joint_of(campaign))


def test_the_most_useful_setting_that_keeps_the_constraints() -> None:
    found = decided(three(constraints=LOW))
    chosen = found.setting
    assert found.verdict == "deploy"
    assert chosen is not None
    assert (chosen.defense, chosen.number, chosen.params) == ("marvell", 0, {"scale": 1.0})
    assert (chosen.utility, chosen.leakage) == pytest.approx((0.92, 0.18))
    assert chosen.loss == pytest.approx(0.03)
    assert chosen.kept == pytest.approx((0.92 - 0.75) / (0.95 - 0.75), abs=1e-3)
    assert chosen.gained == pytest.approx(0.17)
    assert chosen.cost == 1.25
    assert chosen.strongest is not None
    assert chosen.strongest.attack == "norm"
    assert chosen.strongest.advantage == pytest.approx(0.18)
    low, high = chosen.strongest.interval or (0.0, 0.0)
    assert low < 0.18 < high
    assert (found.measured, found.qualifying, found.rule) == (8, 4, "constraints")
    assert found.runner_up is not None
    assert (found.runner_up.defense, found.runner_up.number) == ("kdk", 0)


def test_who_comes_nowhere_near() -> None:
    found = decided(three(constraints=LOW))
    near, out = found.far
    assert (near.defenses, out.defenses) == (("kdk",), ("laplace",))
    assert near.within == pytest.approx(0.01)
    assert out.within is None, "laplace has no setting that leaks so little"
    close = campaign_of(part_of("marvell", MARVELL), part_of("kdk", [(0.919, 0.17)]), constraints=LOW)
    assert decided(close).far == (), ".001 is within the tolerance"


def test_without_constraints_it_is_the_joint_knee() -> None:
    campaign = three()
    joint = joint_of(campaign)
    found = decide(joint)
    assert found.rule == "knee"
    assert found.setting is not None
    assert joint.knee is not None
    assert (found.setting.study, found.setting.number) == (joint.knee.study, joint.knee.number)
    assert found.why.startswith("the best compromise of the joint front")


def place(setting: Choice | None) -> str | None:
    return None if setting is None else setting.name.removeprefix("camp-breast_cancer-")


def ladder(found: Decision) -> list[tuple[float, str | None]]:
    return [(rung.cap, place(rung.setting)) for rung in found.ladder]


def test_without_a_limit_a_compromise_that_may_leak_much_is_not_deployed() -> None:
    steep = part_of("laplace", [(0.94, 0.6), (0.80, 0.45), (0.79, 0.3)]), part_of("kdk", [(0.78, 0.15), (0.7, 0.05)])
    found = decided(campaign_of(*steep))
    assert (found.verdict, found.setting, found.rule) == ("compromise", None, "knee")
    assert found.compromise is not None
    assert found.compromise.name == "camp-breast_cancer-laplace#0"
    assert found.compromise.lacks[0].startswith("leakage is .600")
    assert found.compromise.lacks[0].endswith("not at most .500")
    assert ladder(found) == [(0.1, None), (0.2, "kdk#0"), (0.5, "laplace#1")], "kdk 1 is worse than no federation"
    assert (found.marked, found.mark) == (found.compromise, "compromise")
    limited = decided(campaign_of(*steep, constraints={"leakage": 0.7}))
    assert limited.setting is not None
    assert (limited.verdict, limited.setting.name) == ("deploy", found.compromise.name), "a limit of one's own"
    assert (limited.ladder, limited.compromise, limited.mark) == ((), None, "recommended")


def test_without_a_limit_a_compromise_that_surely_leaks_less_than_half_is_deployed() -> None:
    found = decided(three())
    assert (found.verdict, found.compromise) == ("deploy", None)
    assert ladder(found) == [(0.1, None), (0.2, "marvell#0"), (0.5, "marvell#0")]
    edge = outcome_of([0.9, 0.901, 0.899], {"norm": [0.45, 0.5, 0.475]})
    assert decided(campaign_of(part_of("laplace", [edge], attacks=["norm"]))).verdict == "compromise", "not surely"


@pytest.mark.parametrize("given", [{"leakage": 1.0}, {"leakage": 20.0}, {"attacks.pmc.advantage": 0.4}, {"cost": 9.0}])
def test_what_limits_the_leakage_is_a_limit_below_one_on_all_attacks(given: dict[str, float]) -> None:
    """A limit of 20, for 20%, or on one of two attacks leaves the leakage where it is."""
    steep = part_of("laplace", [(0.94, 0.6), (0.90, 0.58), (0.8, 0.4)], cost=1.0)
    found = decided(campaign_of(steep, constraints=given))
    assert (found.verdict, found.rule) == ("compromise", "knee")
    assert ladder(found)[-1] == (0.5, "laplace#2")


def test_constraints_without_a_limit_hold_for_the_compromise_and_the_ladder() -> None:
    """Among settings that may lose so much utility, the most useful one would be the one that protects least."""
    found = decided(three(constraints={"utility_loss": 0.12}))
    assert found.setting is not None
    assert (found.setting.name, found.rule) == ("camp-breast_cancer-marvell#0", "knee")
    assert found.why == "the best compromise of 6 of 8 measured settings that surely keep utility_loss<=0.12"
    assert ladder(found) == [(0.1, None), (0.2, "marvell#0"), (0.5, "marvell#0")]
    strict = decided(three(constraints={"utility_loss": 0.02}))
    assert strict.verdict == "compromise"
    assert ladder(strict) == [(0.1, None), (0.2, None), (0.5, None)]


def test_the_ladder_after_a_confirmation_is_of_fresh_seeds() -> None:
    laplace, marvell, kdk = three().studies
    again = (
        confirmed(marvell, {0: (0.90, 0.23, True), 2: (0.94, 0.8, False)}),
        confirmed(kdk, {0: (0.905, 0.16, False)}),
    )
    found = decided(campaign_of(laplace, *again))
    assert ladder(found) == [(0.1, None), (0.2, "kdk#0"), (0.5, "marvell#0")], "of a rung, those that stay go first"


def test_nothing_is_known_of_what_nobody_attacked() -> None:
    found = decided(
        campaign_of(part_of("laplace", [steady(0.9, 0.0, ())], attacks=(), baseline=steady(0.95, 0.9, seeds=10)))
    )
    assert (found.verdict, [rung.setting for rung in found.ladder]) == ("compromise", [None] * 3)
    assert found.compromise is not None
    assert found.compromise.lacks == ("leakage: no attack was run on it",)


def test_none_qualifies_is_an_answer_with_the_nearest_and_what_it_lacks() -> None:
    found = decided(three(constraints={"leakage": 0.2, "utility_loss": 0.02}))
    assert (found.verdict, found.setting, found.qualifying) == ("none_qualifies", None, 0)
    assert found.nearest is not None
    assert (found.nearest.defense, found.nearest.number) == ("marvell", 0)
    (lacks,) = found.nearest.lacks
    assert lacks.startswith("utility_loss is .030")
    assert lacks.endswith("not at most .020")
    unknown = decided(campaign_of(part_of("marvell", MARVELL), constraints={"cost": 2.0}))
    assert unknown.nearest is not None
    assert "was not measured" in unknown.nearest.lacks[0]


def test_what_needs_no_federation_is_not_recommended() -> None:
    campaign = campaign_of(part_of("laplace", [(0.74, 0.1), (0.93, 0.7)]), constraints=LOW)
    found = decided(campaign)
    assert found.verdict == "none_qualifies"
    assert "more useful than what the label party reaches alone" in found.why
    assert found.nearest is not None
    assert found.nearest.number == 0
    assert found.nearest.lacks == ()


def test_nothing_is_recommended_while_a_check_fails() -> None:
    useless = steady(0.499, 0.9, seeds=10)
    parts = [replace(p, baseline=useless, alone=()) for p in three().studies]
    found = decided(campaign_of(*parts, constraints=LOW))
    assert (found.verdict, found.setting) == ("not_trusted", None)
    assert [c.name for c in found.failing] == ["useful"]
    assert "while a check fails" in found.why


def test_a_study_whose_own_check_fails_is_left_out_and_the_others_are_not() -> None:
    parts = list(three().studies)
    parts[1] = part_of("marvell", MARVELL, default=False)  # with norm and pmc alone, and not the portfolio
    found = decided(campaign_of(*parts, constraints=LOW))
    assert found.setting is not None
    assert found.setting.defense == "kdk"
    (failing,) = found.failing
    assert failing.name == "untried"
    assert failing.says.endswith("(camp-breast_cancer-marvell)")
    assert any("marvell" in says and "check" in says for says in found.changes)
    assert any(says.startswith("Attacks that were not tried on marvell") for says in found.unexamined)


def test_an_undecided_leakage_recommends_nothing() -> None:
    wild = [outcome_of([0.9, 0.9, 0.9], {"norm": [0.0, 0.9, 0.3]}) for _ in range(2)]
    found = decided(campaign_of(part_of("laplace", wild)))
    assert found.verdict == "none_qualifies"
    assert "undecided" in found.why


def test_fresh_seeds_decide_what_was_undecided() -> None:
    wild = [outcome_of([0.9, 0.901, 0.9], {"norm": [0.0, 0.9, 0.3]}) for _ in range(2)]
    found = decided(campaign_of(confirmed(part_of("laplace", wild), {0: (0.9, 0.3, True)})))
    assert found.setting is not None
    assert (found.setting.number, found.setting.undecided) == (0, False)


def test_confirmed_settings_go_first_by_what_fresh_seeds_say() -> None:
    laplace, marvell, kdk = three().studies
    again = confirmed(marvell, {0: (0.90, 0.23, False)}), confirmed(kdk, {0: (0.905, 0.16, True)})
    found = decided(campaign_of(laplace, *again, constraints=LOW))
    assert found.setting is not None
    assert (found.setting.defense, found.setting.number, found.setting.confirmed) == ("kdk", 0, True)
    assert (found.setting.utility, found.setting.leakage) == (0.905, 0.16)
    assert found.setting.leakage_interval == pytest.approx((0.14, 0.18))
    assert found.setting.kept == pytest.approx(1 - 0.045 / 0.2, abs=1e-3)
    assert not any("fresh seeds" in says for says in found.changes)
    # The undefended model that it is compared with has the same seeds; what the label party reaches is the search's.
    assert found.setting.loss == pytest.approx(0.95 - 0.905)
    assert found.undefended == Reference(0.95, (0.947, 0.953), 0.9, None)
    searched = decided(campaign_of(laplace, marvell, kdk, constraints=LOW))
    assert found.alone == searched.alone
    assert searched.undefended not in (None, found.undefended)


def test_after_a_confirmation_the_searchs_own_numbers_recommend_nothing() -> None:
    """What nobody measured on fresh seeds looks better than it is: it is named, and not recommended."""
    laplace, marvell, kdk = three().studies
    assert decided(campaign_of(laplace, marvell, kdk, constraints=LOW)).setting is not None
    again = confirmed(marvell, {0: (0.90, 0.45, True)}), confirmed(kdk, {0: (0.905, 0.5, True)})
    found = decided(campaign_of(laplace, *again, constraints=LOW))
    assert found.verdict == "none_qualifies"
    assert found.nearest is not None
    assert found.nearest.confirmed
    assert "were not measured on fresh seeds" in found.changes[0]


def test_what_would_change_it() -> None:
    behind = (0.6, 0.05, 0.01), (0.7, 0.07, 0.009)
    noisy = [
        outcome_of([u - d, u + d, u], {"norm": [x - 2 * d, x, x + 2 * d]})
        for u, x, d in ((0.91, 0.1, 0.01), (0.90, 0.1, -0.01), (0.93, 0.19, 0.012), *behind)
    ]
    parts = part_of("laplace", noisy[:1], running=1, waiting=2), part_of("kdk", noisy[1:])
    found = decided(campaign_of(*parts, constraints=LOW))
    assert found.setting is not None
    assert found.setting.defense == "laplace"
    owed, challenger, close, fresh = found.changes
    assert owed.startswith("3 trials are still owed")
    assert challenger.startswith("kdk scale=1 (camp-breast_cancer-kdk#0) is more useful with chance 0.")
    assert close.startswith("kdk scale=2 (camp-breast_cancer-kdk#1) (.930) would do by its means, but not surely")
    assert "tune-vfl confirm camp --seeds 10" in fresh


def test_what_was_not_examined() -> None:
    whole = Skipped("camp-breast_cancer-cae", None, ("no labels",))
    left = whole, Skipped("camp-breast_cancer-kdk", "direct", ("no logits",))
    says = decided(three(skipped=left)).unexamined
    assert "Skipped: camp-breast_cancer-cae (no labels)." in says
    assert "Skipped: direct on kdk (no logits)." in says
    assert any(s.startswith("Attackers who act") for s in says)
    assert any("another source" in s for s in says)


def test_a_campaign_decides_for_each_of_its_data_sets() -> None:
    campaign = campaign_of(part_of("laplace", LAPLACE), part_of("kdk", KDK, dataset="wine"), constraints=LOW)
    found = decisions(campaign)
    assert {name: d.verdict for name, d in found.items()} == {"breast_cancer": "none_qualifies", "wine": "deploy"}
    empty = decided(campaign_of(part_of("laplace", []), constraints=LOW))
    assert empty.verdict == "nothing_measured"


def test_it_is_plain_data() -> None:
    for campaign in (three(constraints=LOW), three(constraints={"leakage": 0.001}), three()):
        found = decided(campaign)
        plain = found.plain()
        assert json.loads(json.dumps(plain, allow_nan=False))["why"] == found.why
        assert plain["study"] == (found.setting.study if found.setting else None)
        assert ("params" in plain) == (found.setting is not None)


POINTS = st.lists(
    st.tuples(st.integers(78, 94), st.integers(5, 80)).map(lambda p: (p[0] / 100, p[1] / 100)), min_size=1, max_size=5
)
CAPS = st.dictionaries(
    st.sampled_from(["leakage", "utility_loss", "attacks.pmc.advantage", "utility"]), st.integers(2, 90), max_size=3
)


@settings(max_examples=40, deadline=None)
@given(first=POINTS, second=POINTS, loss=st.none() | st.integers(5, 60))
def test_a_rung_is_what_its_limit_would_choose(
    first: list[tuple[float, float]], second: list[tuple[float, float]], loss: int | None
) -> None:
    parts, asked = (
        (part_of("laplace", first), part_of("kdk", second)),
        {} if loss is None else {"utility_loss": loss / 100},
    )
    found = decided(campaign_of(*parts, constraints=asked))
    for cap, chosen in ladder(found):
        limited = decided(campaign_of(*parts, constraints={**asked, "leakage": cap}))
        assert chosen == place(limited.setting)
    assert (found.verdict == "deploy") == (found.setting is not None)
    if found.setting is not None:
        assert found.ladder[-1].setting is not None, "what is deployed stands on the last rung, or something better"


@settings(max_examples=40, deadline=None)
@given(first=POINTS, second=POINTS, caps=CAPS, cap=st.integers(5, 60))
def test_a_constraint_never_makes_the_answer_better(
    first: list[tuple[float, float]], second: list[tuple[float, float]], caps: dict[str, int], cap: int
) -> None:
    parts = part_of("laplace", first), part_of("kdk", second)
    loose = {"leakage": 0.9} | {name: value / 100 for name, value in caps.items()}
    tight = {**loose, "utility_loss": min(loose.get("utility_loss", 1.0), cap / 100)}
    before, after = (decided(campaign_of(*parts, constraints=asked)) for asked in (loose, tight))
    assert after.qualifying <= before.qualifying
    if after.setting is not None:
        assert before.setting is not None
        assert before.setting.utility >= after.setting.utility


def test_the_order_of_the_studies_decides_nothing() -> None:
    for asked in ({}, LOW):
        found = [decided(replace(three(constraints=asked), studies=o)) for o in permutations(three().studies)]
        assert len({(d.setting and d.setting.study, d.setting and d.setting.number) for d in found}) == 1
        assert len({d.runner_up and d.runner_up.study for d in found}) == 1
        assert len({frozenset(far.within for far in d.far) for d in found}) == 1
