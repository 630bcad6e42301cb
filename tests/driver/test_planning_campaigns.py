"""A campaign as it is planned: who takes part, which attacks are left out and why, and how trials are shared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tune_vfl.defenses.base import DEFENSES
from tune_vfl.driver import planning
from tune_vfl.driver.planning import (
    changed,
    plan,
    planned_campaign,
    refuse_mistakes,
    with_all_defenses,
    with_more,
)
from tune_vfl.errors import SpecError
from tune_vfl.records.campaigns import PlannedCampaign, Skipped
from tune_vfl.records.plans import PlannedStudy
from tune_vfl.spec import StudySpec, parse

RAW: dict[str, Any] = {
    "study": "s",
    "dataset": "breast_cancer",
    "defense": "laplace",
    "attacks": ["norm", "mean", "pmc"],
    "budget": {"seeds": 1},
}
TWO = {**RAW, "defense": ["laplace", "iso"], "attacks": ["norm"]}


@pytest.fixture(scope="module")
def study() -> PlannedStudy:
    return planned_campaign(RAW).studies[0]


class Resolving:
    """Stands for the plan of one study: refuses what it was told of a defense, by attack or altogether."""

    def __init__(self, study: PlannedStudy) -> None:
        self.study = study
        self.attacks: dict[str, dict[str, Sequence[str]]] = {}
        self.others: dict[str, list[str]] = {}

    def __call__(self, spec: StudySpec) -> PlannedStudy:
        told: Mapping[str, Sequence[str]] = self.attacks.get(spec.defense.name, {})
        unfit = {a.name: told[a.name] for a in spec.attacks if a.name in told}
        first = dict(list(unfit.items())[:1])  # a second one is found when the first is gone
        problems = [p for why in first.values() for p in why] + self.others.get(spec.defense.name, [])
        if problems:
            raise SpecError(problems, first)
        return replace(self.study, spec=spec)


@pytest.fixture
def resolving(study: PlannedStudy, monkeypatch: pytest.MonkeyPatch) -> Resolving:
    found = Resolving(study)
    monkeypatch.setattr(planning, "plan_study", found)
    return found


def matrix(*defenses: str) -> dict[str, Any]:
    return {**RAW, "defense": list(defenses)}


def test_attacks_that_do_not_go_with_a_study_are_left_out_of_it_and_each_says_why(resolving: Resolving) -> None:
    resolving.attacks["iso"] = {"pmc": ["pmc: no bottom model"], "mean": ["mean: no mean", "mean: nowhere"]}
    found = plan(matrix("laplace", "iso"))
    assert {s.name: [a.name for a in s.spec.attacks] for s in found.studies} == {
        "s-breast_cancer-laplace": ["norm", "mean", "pmc"],
        "s-breast_cancer-iso": ["norm"],
    }
    assert set(found.skipped) == {
        Skipped("s-breast_cancer-iso", "pmc", ("pmc: no bottom model",)),
        Skipped("s-breast_cancer-iso", "mean", ("mean: no mean", "mean: nowhere")),
    }


def test_a_study_that_cannot_be_is_left_out_for_what_stands_against_every_attack(resolving: Resolving) -> None:
    resolving.attacks["iso"] = {"pmc": ["pmc: no bottom model"]}
    resolving.others["iso"] = ["iso: needs two classes"]
    found = plan(matrix("laplace", "iso"))
    assert [s.name for s in found.studies] == ["s-breast_cancer-laplace"]
    assert found.skipped == (Skipped("s-breast_cancer-iso", None, ("iso: needs two classes",)),)


def test_a_study_without_an_attack_that_fits_is_left_out_for_what_is_said_of_the_last(resolving: Resolving) -> None:
    why = {name: [f"{name}: no"] for name in ("norm", "mean", "pmc")}
    resolving.attacks["iso"] = why
    left = plan(matrix("laplace", "iso")).skipped
    assert {(entry.study, entry.attack) for entry in left} == {
        ("s-breast_cancer-iso", attack) for attack in ("norm", "mean", None)
    }
    assert next(entry.problems for entry in left if entry.attack is None) == ("pmc: no",)
    resolving.attacks["laplace"] = why
    with pytest.raises(SpecError) as refused:
        plan(matrix("laplace", "iso"))
    assert "s-breast_cancer-laplace: pmc: no" in refused.value.problems
    assert "attack norm in s-breast_cancer-iso: norm: no" in refused.value.problems


def test_trials_are_asked_for_together_or_else_each_study_has_its_usual_number(resolving: Resolving) -> None:
    usual = parse({**RAW}).budget.trials
    found = plan(matrix("laplace", "iso"))
    assert found.trials == 2 * usual
    assert [s.spec.budget.trials for s in found.studies] == [usual, usual]
    asked = plan({**matrix("laplace", "iso"), "budget": {"trials": 21, "seeds": 1}})
    assert (asked.trials, [s.spec.budget.trials for s in asked.studies]) == (21, [11, 10])
    assert {s.campaign for s in asked.studies} == {asked.name} == {"s"}
    assert (asked.spec["defense"], asked.lone) == (["laplace", "iso"], False)


def test_all_defenses_are_those_that_defend() -> None:
    everyone = [name for name in DEFENSES.names() if name != "none"]
    for raw, expected in (
        ({"defense": "all"}, {"defense": everyone}),
        ({"matrix": {"defense": "all", "dataset": ["wine"]}}, {"matrix": {"defense": everyone, "dataset": ["wine"]}}),
        ({"matrix": {"defense": ["iso"]}, "defense": "kdk"}, {"matrix": {"defense": ["iso"]}, "defense": "kdk"}),
        ({"study": "s"}, {"study": "s"}),
    ):
        before = repr(raw)
        assert with_all_defenses(raw) == expected
        assert repr(raw) == before, "what somebody wrote stays as it is"


def test_another_name_or_budget_is_that_of_the_whole(resolving: Resolving, study: PlannedStudy) -> None:
    found = plan({**TWO, "budget": {"trials": 20, "seeds": 1}})
    assert changed(found) is found
    named = changed(found, name="t")
    assert [s.name for s in named.studies] == ["t-breast_cancer-laplace", "t-breast_cancer-iso"]
    assert (named.name, named.trials) == ("t", 20)
    more = changed(found, trials=30)
    assert (more.name, more.trials, [s.spec.budget.trials for s in more.studies]) == ("s", 30, [15, 15])
    assert {s.spec.budget.seeds for s in more.studies} == {1}, "the rest of the budget stays"
    lone = changed(PlannedCampaign.of(study), trials=9, name="t")
    assert (lone.name, lone.trials, lone.lone) == ("t", 9, True)
    assert lone.studies[0].cell is study.cell, "it is not resolved anew"


def test_a_campaign_of_the_ledger_goes_on_with_what_it_was_given_or_with_shares_of_more(study: PlannedStudy) -> None:
    parts = tuple(study.changed(trials=t, name=n) for t, n in ((7, "a"), (5, "b")))
    left = (Skipped("s", "pmc", ("no",)),)
    before = PlannedCampaign("c", parts, 12, {"study": "c"}, left)
    for trials in (None, 12, 3):
        assert with_more(before, trials) == before
    more = with_more(before, 20)
    assert [s.spec.budget.trials for s in more.studies] == [10, 10]
    assert (more.trials, more.skipped) == (20, left)
    with pytest.raises(SpecError, match="are fewer than"):
        with_more(replace(before, trials=0), 1)


def test_whatever_describes_a_campaign_becomes_one(study: PlannedStudy, tmp_path: Path) -> None:
    lone = planned_campaign(study)
    assert (lone.studies, lone.name, lone.lone) == ((study,), "s", True)
    assert planned_campaign(lone) is lone
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(RAW), encoding="utf-8")
    for described in (parse(RAW), RAW, tmp_path / "s.yaml", str(tmp_path / "s.yaml")):
        assert planned_campaign(described) == lone


def test_wrong_options_are_mistakes_wherever_they_stand() -> None:
    wrong = {
        **RAW,
        "dataset": {"name": "breast_cancer", "metric": "auc", "rowz": 3},
        "defense": {"name": "laplace", "params": {"scle": 1.0}},
        "attacks": ["default", {"name": "pmc", "varian": ["logreg"]}],
        "model": {"name": "mlp", "wdth": 3},
        "sampler": "tpee",
    }
    with pytest.raises(SpecError) as refused:
        refuse_mistakes([wrong])
    said = "\n".join(refused.value.problems)
    for place in ("rowz", "scle", "varian", "wdth", "tpee"):
        assert place in said
    assert "metric: no such field" not in said, "a data set takes it beside its own options"
    assert len(refused.value.problems) == len(set(refused.value.problems))
    (fine,) = refuse_mistakes([RAW])
    assert fine == parse(RAW)
