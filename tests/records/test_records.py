"""Settings side by side, and what the ledger's records are written, read, told and exported as."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.campaigns import campaign_of, confirmed, outcome_of, part_of, steady
from tune_vfl.analysis.exporting import exported
from tune_vfl.analysis.reliability import local_baseline_of, scale_of
from tune_vfl.analysis.settings_table import SettingsTable
from tune_vfl.errors import StudyError
from tune_vfl.ledger.trials import not_repeated, repeats
from tune_vfl.outcome import Outcome, Score, drop_non_finite, read_outcome
from tune_vfl.records.campaigns import CampaignRecord, Skipped
from tune_vfl.records.measure import refuse_another, refuse_mixed
from tune_vfl.records.rows import TrialRow
from tune_vfl.records.studies import StudyRecord
from tune_vfl.statistics import levels

POINTS = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25), (0.85, 0.5))


def study(**fields: Any) -> StudyRecord:
    return part_of("laplace", POINTS, **fields)


# Side by side


def test_settings_with_one_undefended_model_and_as_many_seeds_are_one_block() -> None:
    other = part_of("gafm", [(0.93, 0.7)], baseline=steady(0.94, 0.85, seeds=10))
    few = part_of("kdk", [outcome_of([0.9, 0.91], {"norm": [0.2, 0.3]})], attacks=["norm"])
    bare = part_of("iso", [steady(0.9, 0.0, ())], attacks=())
    once = part_of("mid", [outcome_of([0.9], {"norm": [0.3]})])
    settings = SettingsTable(campaign_of(study(), other, few, bare, once))
    assert [block.rows.tolist() for block in settings.blocks] == [[0, 1, 2, 3], [4], [5], [6], [7]]
    assert [block.certain for block in settings.blocks] == [True, True, True, True, False]
    assert settings.whole is None, "seeds of other numbers cannot be laid side by side"
    assert settings.own is None
    together = SettingsTable(campaign_of(study(), other))
    assert together.whole is not None
    assert together.whole.utilities.shape == (5, 3)
    assert together.own is not None, "five settings are enough"
    assert SettingsTable(campaign_of(study())).own is None, "four are few"
    assert SettingsTable(campaign_of(study(), bare)).whole is None, "one has met no attack"
    single = part_of("laplace", [outcome_of([u], {"norm": [x]}) for u, x in POINTS])
    assert SettingsTable(campaign_of(single)).whole is None
    assert SettingsTable(campaign_of(single)).sure[0].utility_interval is None


def test_what_is_known_is_that_of_a_confirmation_where_there_is_one() -> None:
    settings = SettingsTable(campaign_of(confirmed(study(), {1: (0.89, 0.35, True), 3: (0.84, 0.55, False)})))
    assert settings.searched.tolist() == [pytest.approx(p) for p in POINTS]
    assert settings.known.tolist() == [pytest.approx(p) for p in (POINTS[0], (0.89, 0.35), POINTS[2], (0.84, 0.55))]
    assert settings.confirmed == [False, True, False, False]
    assert settings.place["camp-breast_cancer-laplace", 3] == 3
    assert settings.rows[0].again is None
    assert settings.rows[3].again is not None


def test_the_undefended_model_is_the_one_that_most_studies_share() -> None:
    rare = part_of("gafm", [(0.93, 0.7)], baseline=steady(0.94, 0.85, seeds=10))
    settings = SettingsTable(campaign_of(rare, study(), part_of("kdk", [(0.9, 0.3)])))
    assert settings.undefended == study().baseline
    lost = part_of("iso", [(0.9, 0.3)], baseline=Outcome.failed("oom", "x"))
    assert SettingsTable(campaign_of(lost, study())).undefended == study().baseline
    assert SettingsTable(campaign_of(lost)).undefended is None
    assert SettingsTable(campaign_of(lost)).scale is None
    assert SettingsTable(campaign_of(lost)).alone is None
    assert settings.scale == scale_of(study())
    assert settings.alone == local_baseline_of(study())


def test_one_attack_s_interval_is_that_of_its_best_candidate() -> None:
    rough = [outcome_of([0.9, 0.91, 0.92], {"norm": [0.2, 0.3, 0.25], "pmc": [0.0, 0.02, 0.01]})] * 2
    settings = SettingsTable(campaign_of(part_of("laplace", rough)))
    level = levels([[0.2, 0.3, 0.25]] * 2)
    low, high = (float(end[0]) for end in level.interval())
    assert settings.advantage_interval(0, "norm") == pytest.approx((low, high))
    pmc = settings.advantage_interval(1, "pmc")
    assert pmc is not None
    assert pmc[0] == 0.0, "an advantage is never below none"
    left = Skipped("camp-breast_cancer-laplace", "direct", ("no logits", "none at all"))
    skipped = SettingsTable(campaign_of(part_of("laplace", rough), skipped=(left,)))
    assert skipped.not_fitting("camp-breast_cancer-laplace", "direct") == "no logits; none at all"
    assert skipped.not_fitting("camp-breast_cancer-laplace", "pmc") is None


# What is written, read, told and exported


def test_numbers_that_are_not_finite_never_pass() -> None:
    good = steady(0.9, 0.3).model_copy(update={"logged": {"kl": math.nan, "n": 2.0}})
    assert drop_non_finite(good).logged == {"n": 2.0}
    assert drop_non_finite(good).outcome == "ok"
    assert good.utility is not None
    broken = good.model_copy(update={"utility": good.utility.model_copy(update={"mean": math.inf})})
    found = drop_non_finite(broken)
    assert (found.outcome, found.reason) == ("diverged", "a score is not finite: auc inf")
    assert (found.leakage, found.utility) == (None, None)
    nonsense = read_outcome("nonsense")
    assert nonsense.outcome == "error"
    assert nonsense.reason.startswith("Input should be a valid dictionary")
    missing = read_outcome(good.model_dump() | {"leakage": None})
    assert missing.outcome == "error"
    assert missing.reason.startswith("an ok outcome needs a utility and a leakage, got (0.9")
    endless = read_outcome(good.model_dump() | {"leakage": math.inf})
    assert (endless.outcome, endless.reason[:47]) == ("diverged", "an ok outcome needs finite utility and leakage,")
    unsaid = read_outcome(Outcome.failed("oom", "full").model_dump() | {"leakage": 0.5})
    assert unsaid.outcome == "error", "it did not end ok: nothing of it diverged"
    assert read_outcome(steady(0.9, 0.3).model_dump()).objectives == pytest.approx((0.9, 0.3))


@pytest.mark.parametrize("field", ["mean", "std", "advantage", "advantage_std", "floor", "values"])
def test_a_score_of_an_attack_or_of_a_party_must_be_finite_in_everything(field: str) -> None:
    good = steady(0.9, 0.3, ("norm",))
    worse = good.attacks["norm"].model_copy(update={field: [0.1, math.nan] if field == "values" else math.nan})
    for attack in (worse, good.attacks["norm"].model_copy(update={"parties": {"bank": worse}})):
        found = drop_non_finite(good.model_copy(update={"attacks": {"norm": attack}}))
        assert (found.outcome, found.attacks, found.leakage_std) == ("diverged", {}, None)
        assert found.reason.startswith("a score is not finite: leak_auc")
    lost = Outcome.failed("timeout", "too long").model_copy(update={"attacks": {"norm": worse}})
    assert (drop_non_finite(lost).outcome, drop_non_finite(lost).reason) == ("timeout", "too long"), (
        "how it ended is not said anew"
    )


def test_what_is_logged_beside_scores_is_kept_as_far_as_it_is_finite() -> None:
    good = steady(0.9, 0.3, ("norm",))
    beside = {"variants": {"v": {"values": [0.6, math.nan], "f1": math.inf, "n": 3}}, "extra": {"top1": math.nan}}
    found = drop_non_finite(
        good.model_copy(update={"attacks": {"norm": good.attacks["norm"].model_copy(update=beside)}})
    )
    assert found.outcome == "ok"
    assert found.attacks["norm"].variants == {"v": {"values": [0.6, None], "f1": None, "n": 3}}
    assert found.attacks["norm"].extra == {}
    hole = good.model_dump() | {"utility_variance": [1e-4, math.nan, 1e-4]}
    assert read_outcome(hole).outcome == "error", "a hole among the seeds is no smaller list"


def test_an_export_has_the_confirmed_numbers_where_there_are_some() -> None:
    record = study()
    plain = exported(record, record.trials[1], "knee")
    assert plain.measured is not None
    assert (plain.trial, plain.select, plain.measured.metric) == (1, "knee", "auc")
    assert (plain.measured.utility, plain.measured.leakage) == pytest.approx((0.90, 0.3))
    assert (plain.measured.utility_std, plain.measured.leakage_std) == pytest.approx((0.001, 0.001))
    assert plain.measured.attacks == pytest.approx({"norm": 0.65, "pmc": 0.575})
    assert plain.measured.confirmed is None
    again = confirmed(record, {1: (0.89, 0.35, True), 2: (0.7, 0.2, False)})
    measured = exported(again, again.trials[1], "knee").measured
    assert measured is not None
    assert (measured.utility, measured.leakage) == (0.89, 0.35)
    assert measured.confirmed is not None
    assert measured.confirmed.utility_interval == pytest.approx((0.886, 0.894))
    gone = exported(again, again.trials[2], "trial=2").measured
    assert gone is not None
    assert gone.utility == pytest.approx(0.80), "what did not stay is exported as the search saw it"


def test_studies_of_other_measures_are_refused() -> None:
    refuse_another("s", study().measure)
    with pytest.raises(StudyError, match=r"'s' has measure 1, and what is run today has measure \d+.*--name NEW"):
        refuse_another("s", 1)
    refuse_mixed({"a": 1, "b": 1})
    refuse_mixed({})
    with pytest.raises(StudyError, match="a has measure 1, b has measure 2"):
        refuse_mixed({"a": 1, "b": 2})


def test_a_campaign_owes_what_its_studies_do() -> None:
    one, two = study(running=1, waiting=2), part_of("kdk", [(0.9, 0.3)])
    whole = campaign_of(one, two, trials=12)
    assert whole.owed == 3
    lone = CampaignRecord.of(one)
    assert (lone.lone, lone.owed, lone.name) == (True, 3, one.name)
    assert CampaignRecord.of(whole) is whole
    assert not whole.lone
    assert str(Skipped("s", None, ("a", "b"))) == "s: a; b"
    assert str(Skipped("s", "pmc", ("a",))) == "attack pmc in s: a"
    assert one.by_outcome() == {"ok": 4, "running": 1, "waiting": 2}
    several = campaign_of(study(), part_of("laplace", [(0.9, 0.1)], dataset="wine"))
    assert several.datasets == ("breast_cancer", "wine")
    assert [s.name for s in several.on("wine").studies] == ["camp-wine-laplace"]


def test_a_study_grows_by_trials_that_finished_since() -> None:
    record = study(running=1, waiting=1)
    before = replace(record, trials=record.trials[:2], running=2, waiting=2)
    now = before.with_trials(record.trials[3:])
    assert [t.number for t in now.trials] == [0, 1, 3]
    assert (now.running, now.waiting) == (0, 3), "of two counted and four owed three are left"
    assert before.with_trials(record.trials).waiting == 2
    more = part_of("laplace", [(0.9, 0.3)] * 9).trials
    assert before.with_trials(more).waiting == 0, "never less than none"


def test_lost_trials_are_followed_back_and_known_as_asked_again() -> None:
    lost, ok = Outcome.failed("preempted", "died"), Outcome(outcome="ok", utility=Score.of("auc", [0.9]), leakage=0.1)
    ends = [(lost, None), (lost, 0), (None, 1), (lost, None), (ok, None)]
    held = [
        TrialRow(study="s", number=n, params={}, asked=0.0, retry_of=before, result=result)
        for n, (result, before) in enumerate(ends)
    ]
    retry_of = {trial.number: trial.retry_of for trial in held}
    assert repeats(retry_of, 2) == [1, 0], "the latest first"
    assert repeats(retry_of, 4) == []
    assert [t.number for t in not_repeated(held)] == [3]
