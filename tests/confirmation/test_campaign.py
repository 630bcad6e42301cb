"""The confirmation of a campaign: settings of several defenses in one contest, an answer of each and one of all."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.contests import (
    SCALES,
    answered,
    campaign_of,
    confirmable,
    in_campaign,
    measure,
    played,
    played_by,
    searched,
)
from tests.helpers.simulated import closed_form
from tune_vfl.confirmation.answer import answer_of
from tune_vfl.confirmation.contest import Contest, contests_of
from tune_vfl.confirmation.jobs import cut
from tune_vfl.confirmation.kept import Kept
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.confirmation.tuning import with_attackers
from tune_vfl.errors import StudyError
from tune_vfl.ledger.confirmation_store import Confirmations, Place
from tune_vfl.ledger.reading import open_study
from tune_vfl.outcome import Score, TunedAttack
from tune_vfl.records.answers import Confirmation, PointName
from tune_vfl.records.confirmations import FIRST_SEED, UNDEFENDED, SeedRecord
from tune_vfl.records.studies import StudyRecord

pytestmark = pytest.mark.usefixtures("home")

BEFORE = json.loads((Path(__file__).parent / "before.json").read_text(encoding="utf-8"))
LOW, HIGH = SCALES[:6], SCALES[6:]
BOTH = [{"name": "norm"}, {"name": "pmc"}]


def luckier(record: StudyRecord, numbers: Iterable[int], by: float) -> StudyRecord:
    """Return a study whose search found more utility in some trials than there is."""
    trials = list(record.trials)
    for number in numbers:
        outcome = trials[number].outcome
        assert outcome.utility is not None
        utility = Score.of("auc", [v + by for v in outcome.utility.values])
        trials[number] = replace(trials[number], outcome=outcome.model_copy(update={"utility": utility}))
    return replace(record, trials=tuple(trials))


def three(lucky: Iterable[int] = (2, 6)) -> list[StudyRecord]:
    """Laplace noise has the front's useful half, Gaussian noise the safe one, and iso is behind both, save for luck."""
    parts = [
        confirmable("laplace", scales=LOW),
        confirmable("gaussian", defense="gaussian", scales=HIGH),
        confirmable("iso", defense="iso", scales=SCALES[:8]),
    ]
    return [*parts[:2], luckier(parts[2], lucky, 0.1)]


def noisily(contest: Contest, place: Place) -> SeedRecord:
    """Return what a worker would, with noise of the setting's own, which does not cancel between settings."""
    study, number, seed = place
    which = [s.name for s in contest.studies].index(study)
    rng, kept = np.random.default_rng([seed, which, number + 1]), measure(contest, place)
    attacks = {}
    for name, seen in kept.attacks.items():
        moved = {v: success + rng.normal(0, 0.004) for v, success in seen.candidates.items()}
        attacks[name] = seen.model_copy(update={"candidates": moved})
    return kept.model_copy(update={"utility": (kept.utility or 0.0) + rng.normal(0, 0.004), "attacks": attacks})


def played_noisily(contest: Contest) -> dict[Any, SeedRecord]:
    return played_by(contest, lambda place: noisily(contest, place))


def same(found: Any, before: Any) -> bool:
    """Compare plain data, numbers to twelve digits: a processor may round the thirteenth otherwise."""
    if isinstance(before, float):
        return bool(found == pytest.approx(before, rel=1e-12, abs=1e-12))
    if isinstance(before, dict):
        return list(found) == list(before) and all(same(found[k], before[k]) for k in before)
    if isinstance(before, list):
        return len(found) == len(before) and all(map(same, found, before))
    return bool(found == before)


@pytest.mark.parametrize(
    ("case", "seeds", "scales"), [("common", 5, SCALES), ("close", 4, (1e-5, 1e-3, 1.02e-3, 1.05e-3, 3e-3, 1e-1))]
)
def test_a_lone_study_is_confirmed_as_it_was_before_there_were_campaigns(
    case: str, seeds: int, scales: Any, as_searched: None
) -> None:
    ledger = searched(f"study-{case}", scales=scales)
    contest = Contest.of(ledger.record(), seeds)
    held = played(contest)
    assert sorted([number, seed] for _, number, seed in held) == BEFORE[case]["places"]
    answer = json.loads(json.dumps(answered(contest, held).plain()))
    for point in answer["points"]:
        found = point.pop("attacks")["norm"]["advantage"]  # what was not kept then; with one attack it is the leakage
        assert (found["value"], found["interval"]) == (point["leakage"], point["leakage_interval"])
    assert same(answer, BEFORE[case]["answer"])


def test_the_true_joint_front_is_found_and_a_defense_that_was_lucky_goes() -> None:
    parts = three()
    contest = Contest.of(campaign_of(parts), 6)
    assert {("iso", 2), ("iso", 6)} <= contest.front, "the search was deceived"
    assert len(contest.points) - len(contest.front) <= 5, "neighbors of the joint front, not of each study's own"
    held = played_noisily(contest)
    table = ContestTable(contest, held)
    campaign = campaign_of(parts)
    joint = answer_of(campaign, [table])
    truth = {(study, number) for study in ("laplace", "gaussian") for number in range(6)}
    assert set(joint.by_setting) == truth
    for point in joint.points:
        scale = next(iter(point.params.values()))
        t = (np.log10(scale) + 5) / 4
        utility, leakage = closed_form(t, 0.3 if point.study == "iso" else 0.0)
        assert point.utility == pytest.approx(utility, abs=0.03)
        assert point.leakage == pytest.approx(leakage, abs=0.03)
        assert (point.stays or 0.0) < 0.5 or point.study != "iso"
    of = {name: answer_of(table.contest.study(name), [table]) for name in ("laplace", "gaussian", "iso")}
    assert {(s, n) for s, answer in of.items() for _, n in answer.by_setting} == truth
    luck = (
        of["iso"].gap["breast_cancer"]["utility"] - of["laplace"].gap["breast_cancer"]["utility"]
    )  # what seeds do to all of them is in both
    assert luck == pytest.approx(0.1, abs=0.02)
    assert {p.study for p in of["iso"].points} == {"iso"}
    # Utility and leakage weigh most together at t = .68, between the second and the third of Gaussian noise.
    assert joint.knee["breast_cancer"] in (PointName(study="gaussian", number=1), PointName(study="gaussian", number=2))
    assert of["gaussian"].knee == joint.knee
    assert of["laplace"].plain()["knee"] == 5, "a study's own compromise is the best of its own"
    assert of["iso"].plain()["knee"] is None


def test_a_setting_that_was_settled_early_shows_its_chance_of_then_whatever_is_known_later() -> None:
    contest = Contest.of(campaign_of(three()), 6)
    held = played_noisily(contest)
    plan = contest.plan(held)
    settled = [i for i, kept in enumerate(plan.kept) if not kept]
    assert settled
    all_seeds = range(FIRST_SEED, FIRST_SEED + contest.most)
    more = {(*e.key, seed): noisily(contest, (*e.key, seed)) for e in contest.points for seed in all_seeds}
    for records in (held, held | more):
        points = ContestTable(contest, records).points
        assert [points[i].stays for i in settled] == [plan.member[i] for i in settled]
    assert all(points[i].stays < 0.5 for i in settled)


def test_of_thousands_of_settings_the_same_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = np.geomspace(1e-5, 1e-1, 36)
    luck = np.random.default_rng(5)
    parts = [confirmable("laplace", scales=scales), confirmable("gaussian", defense="gaussian", scales=scales)]
    for number in range(len(scales)):
        parts = [luckier(record, [number], luck.normal(0, 0.02)) for record in parts]
    few = Contest.of(campaign_of(parts), 5)
    monkeypatch.setattr("tune_vfl.confirmation.contest.MANY", 10)
    many = Contest.of(campaign_of(parts), 5)
    assert len(many.points) == len(many.front) + 10, "there are enough neighbors to choose from"
    assert [p.key for p in many.points] == [p.key for p in few.points]


def test_settings_of_all_studies_share_their_seeds_and_one_undefended_model() -> None:
    contest = Contest.of(campaign_of(three()), 5)
    held = played(contest)
    for setting in {(study, number) for study, number, _ in held}:
        seeds = sorted(s for study, n, s in held if (study, n) == setting)
        assert seeds == list(range(1000, 1000 + len(seeds)))
    trained = Counter(study for study, number, _ in held if number == UNDEFENDED)
    assert trained == {"laplace": 10}, "once for three defenses, not thrice"
    table = ContestTable(contest, held)
    baselines = {answer_of(table.contest.study(s.name), [table]).undefended for s in contest.studies}
    assert len(baselines) == 1
    assert answer_of(campaign_of(contest.studies), [table]).baseline == {"breast_cancer": baselines.pop()}


def test_an_undefended_model_is_measured_again_for_other_attacks_where_such_a_setting_takes_part() -> None:
    laplace, gaussian = three()[:2]
    lucky = luckier(confirmable("other", defense="iso", scales=SCALES[:8], attacks=BOTH), [2], 0.1)
    contest = Contest.of(campaign_of([laplace, gaussian, lucky]), 5)
    assert contest.measured_undefended == ("laplace", "other")
    table = ContestTable(contest, played(contest))
    assert (table.reference, table.undefended("other").seeds) == ("laplace", 10)
    behind = confirmable("behind", defense="iso", scales=SCALES[:8], attacks=BOTH)
    contest = Contest.of(campaign_of([laplace, gaussian, behind]), 5)
    assert {e.study for e in contest.points} == {"laplace", "gaussian"}
    assert contest.measured_undefended == ("laplace",), "nobody asks what a defense far behind is compared with"
    answer = answer_of(contest.study("behind"), [ContestTable(contest, played(contest))])
    assert (answer.points, answer.lines, answer.gap, answer.knee) == ((), (), {"breast_cancer": {}}, {})
    assert answer.undefended.outcome == "error"
    assert "none of the study's settings took part" in answer.undefended.reason
    check = next(c for c in answer.checks if c.name == "measured")
    assert (check.ok, check.says) == (True, "no setting is near the joint front: none was measured again")


def test_a_setting_is_measured_by_the_attacks_that_it_met_whatever_others_met(as_searched: None) -> None:
    gaussian = confirmable("gaussian", defense="gaussian", scales=HIGH)
    answers = []
    for attacks in ([{"name": "norm"}], [{"name": "pmc"}, {"name": "norm"}]):
        laplace = confirmable(f"laplace-{len(attacks)}", scales=LOW, attacks=attacks)
        contest = Contest.of(campaign_of([laplace, gaussian]), 5)
        answers.append(answer_of(contest.study("gaussian"), [ContestTable(contest, played_noisily(contest))]))
    few, many = answers
    assert {p.attack for p in many.points} == {"norm"}
    for before, after in zip(few.points, many.points, strict=True):
        assert (after.leakage, after.leakage_worst_seed) == (before.leakage, before.leakage_worst_seed)
        # What spread is usual is learned from all settings, and those of laplace have other noise here.
        assert after.leakage_interval == pytest.approx(before.leakage_interval, abs=0.01)
        assert after.leakage_upper_90 == pytest.approx(before.leakage_upper_90, abs=0.01)


@pytest.mark.parametrize("most", [0, 3, 17, 60])
def test_a_stopped_confirmation_of_a_campaign_goes_on_to_the_same_end(most: int) -> None:
    contest = Contest.of(campaign_of(three()), 5)
    straight = played(contest)
    half = played(contest, most=most)
    assert len(half) == most
    assert played(contest, half) == straight, "nothing more and nothing else is run than without the stop"


def test_what_is_trained_together_is_of_one_study() -> None:
    parts = three()
    contest = Contest.of(campaign_of(parts), 5)
    places = contest.missing(contest.plan({}), {})
    jobs = cut(parts, places, workers=2, stacks=bool)
    assert Counter((*setting, s) for job in jobs for setting in job.settings for s in job.cell.seeds) == Counter(places)
    defense = {"laplace": "laplace", "gaussian": "gaussian", "iso": "iso"}
    for job in jobs:
        ((study, number), *_) = job.settings
        assert job.cell.defense == ("none" if number == UNDEFENDED else defense[study])


def test_each_data_set_has_a_contest_of_its_own_and_they_are_answered_together() -> None:
    parts = [*three(), confirmable("on-wine", dataset={"name": "wine"}, scales=LOW)]
    hopeless = replace(parts[3], trials=(), spec=parts[3].spec.model_copy(update={"study": "on-digits"}))
    digits = parts[3].cell.dataset.model_copy(update={"name": "digits"})
    parts.append(replace(hopeless, cell=hopeless.cell.model_copy(update={"dataset": digits})))
    campaign = campaign_of(parts)
    contests = contests_of(campaign, 4)
    assert [c.dataset for c in contests] == ["breast_cancer", "wine"]
    tables = [ContestTable(c, played(c)) for c in contests]
    joint = answer_of(campaign, tables)
    assert {p.study for p in joint.on("wine")} == {"on-wine"}
    assert (
        list(joint.baseline) == list(joint.gap) == list(joint.reserve) == list(joint.knee) == ["breast_cancer", "wine"]
    )
    assert all(line.dataset == "wine" for line in joint.lines if "on-wine" in line.studies)
    says = [c.says for c in joint.checks if not c.ok]
    assert "digits: nothing to confirm, none of its trials ended ok" in says
    assert any(s.startswith("wine: no reserve") for s in says)
    pair = answer_of(campaign_of(parts[:4]), tables)
    assert all(c.says.startswith(("breast_cancer: ", "wine: ")) for c in pair.checks), "two are several"
    alone = answer_of(campaign_of(parts[:3]), tables[:1])
    assert not any("breast_cancer: " in c.says for c in alone.checks)
    plain = joint.plain()
    assert plain["schema"] == "tune-vfl/confirmation/1"
    assert Confirmation.model_validate(json.loads(json.dumps(plain, allow_nan=False))) == joint
    with pytest.raises(StudyError, match=r"'none' has nothing to confirm.*tune-vfl resume none"):
        contests_of(campaign_of([parts[4]], "none"), 4)


def test_settings_of_two_defenses_may_share_a_line() -> None:
    near = (1e-3, 1.0001e-3)
    contest = Contest.of(
        campaign_of(
            [
                confirmable("laplace", scales=(1e-5, 1e-4, near[0])),
                confirmable("gaussian", defense="gaussian", scales=(near[1], 1e-2, 1e-1)),
            ]
        ),
        4,
    )
    table = ContestTable(contest, played_noisily(contest))
    joint = answer_of(campaign_of(contest.studies), [table])
    (shared,) = [line for line in joint.lines if len(line.numbers) > 1]
    assert sorted(map(str, shared.points)) == ["gaussian#0", "laplace#2"]
    assert shared.params == {}, "scales of two defenses make no range"
    assert shared.utility[0] <= shared.utility[1]
    of = answer_of(table.contest.study("gaussian"), [table])
    assert [line.numbers for line in of.lines] == [(0,), (1,), (2,)], "by itself nothing of it is alike"


def test_what_studies_share_is_kept_with_each_and_an_earlier_confirmation_of_one_counts() -> None:
    ledgers = {
        "laplace": searched("laplace", scales=LOW),
        "gaussian": searched("gaussian", defense="gaussian", scales=HIGH),
    }
    records = [ledger.record() for ledger in ledgers.values()]
    alone = Contest.of(campaign_of(records[1:]), 3)
    earlier = played(alone)
    store = Confirmations(ledgers["gaussian"].place, None)
    for place, record in earlier.items():
        store.keep(place, record)
    kept = Kept(campaign_of(records), store)
    contest = Contest.of(campaign_of(records), 3)
    held = kept.records
    assert sum(n == UNDEFENDED for _, n, _ in held) == 10
    owed = contest.missing(contest.plan(held), held)
    assert {study for study, *_ in owed} == {"laplace"}
    assert not any(number == UNDEFENDED for _, number, _ in owed)
    shared = {p: r for p, r in store.records("laplace").items() if p[1] == UNDEFENDED}
    assert len(shared) == 10, "what was measured in the name of one is given to the other"
    kept.keep(("laplace", UNDEFENDED, 1010), SeedRecord(outcome="diverged", reason="NaN"))
    assert all((name, UNDEFENDED, 1010) in store.records(name) for name in ledgers)
    kept.keep(("laplace", 0, 1000), SeedRecord(outcome="diverged", reason="NaN"))
    assert ("laplace", 0, 1000) in store.records("laplace")
    assert store.records("gaussian")["gaussian", 0, 1000].outcome == "ok"


def test_an_attacker_is_tuned_against_a_study_s_trial_and_not_against_another_s_of_that_number() -> None:
    parts = three()
    contest = Contest.of(campaign_of(parts), 4)
    table = ContestTable(contest, played(contest))
    joint = answer_of(campaign_of(parts), [table])
    assert table.settings_kept == list(joint.by_setting)
    found = TunedAttack(
        attack="pmc", params={}, variant="a", success=(1.0,) * 5, floors=(0.5,) * 5, advantages=(1.0,) * 5, tried=4,
        minutes=1.0,
    )  # fmt: skip
    after = with_attackers(joint, {("gaussian", 3): found})
    assert [(p.study, p.number) for p in after.points if p.tuned] == [("gaussian", 3)]
    assert after.by_setting["gaussian", 3].leakage == 1.0
    assert after.by_setting["laplace", 3] == joint.by_setting["laplace", 3]
    assert after.knee == joint.knee


def test_the_campaign_s_answer_is_kept_in_its_own_row_and_the_studies_in_theirs() -> None:
    ledgers = [searched("laplace", scales=LOW), searched("gaussian", defense="gaussian", scales=HIGH)]
    records = [ledger.record() for ledger in ledgers]
    contest = Contest.of(campaign_of(records), 3)
    table = ContestTable(contest, played(contest))
    joint = answer_of(campaign_of(records), [table])
    in_campaign(ledgers)
    campaign = open_study("campaign")
    assert campaign.record().confirmation is None
    store = Confirmations(ledgers[1].place, None)
    store.set_answer(joint)
    assert campaign.record().confirmation == joint
    answer = answer_of(table.contest.study("gaussian"), [table])
    store.set_answer(answer)
    record = ledgers[1].record()
    assert record.confirmation == answer
    assert Confirmation.model_validate(answer.plain()) == answer
    assert set(record.confirmed) == {number for study, number in joint.by_setting if study == "gaussian"}
