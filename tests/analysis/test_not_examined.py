"""What a study did not look at."""

import subprocess
import sys
from dataclasses import replace

from tests.helpers.campaigns import campaign_of, part_of
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.not_examined import checks_by_study, checks_together, coverage, unexamined, untried
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.driver.planning import planned_campaign
from tune_vfl.evaluation.coverage import Coverage, coverage_of
from tune_vfl.records.campaigns import Skipped
from tune_vfl.spec.cell import MEASURE

POINTS = ((0.9, 0.3), (0.8, 0.2))


def test_attacks_of_a_competent_adversary_that_were_not_run() -> None:
    few = part_of("laplace", POINTS, default=False)
    missing = untried(few)
    assert "direction" in missing
    assert "pmc" not in missing, "it was run"
    assert all(ATTACKS[name].in_default is not None for name in missing)
    assert not any(ATTACKS[name].capabilities.acts for name in missing)
    assert untried(part_of("laplace", POINTS)) == (), "the portfolio holds them all"
    assert untried(part_of("laplace", POINTS, default=False, attacks=["somebody_s_own"])) == ()
    assert untried(part_of("somebody_s_own", POINTS, default=False)) == ()


def test_numbers_of_an_earlier_measure_are_said_to_be_so() -> None:
    for measure, says in ((MEASURE, 0), (MEASURE - 1, 1)):
        campaign = campaign_of(replace(part_of("laplace", POINTS), measure=measure))
        found = unexamined(joint_of(campaign))
        assert sum(f"this is measure {measure}, and today's is {MEASURE}" in one for one in found) == says


def test_checks_of_all_studies_stand_once() -> None:
    parts = part_of("laplace", POINTS), part_of("kdk", POINTS), part_of("iso", POINTS, default=False)
    joint = joint_of(campaign_of(*parts))
    found = checks_together(checks_by_study(joint))
    assert len({(c.name, c.says) for c in found}) == len(found)
    names = [c.name for c in found]
    assert names.count("seeds") == 1
    (failing,) = [c for c in found if not c.ok]
    assert failing.says.endswith("(camp-breast_cancer-iso)")


def test_listed_attackers_are_looked_at_and_named_no_more() -> None:
    acting = next(name for name in ATTACKS if ATTACKS[name].capabilities.acts)
    plain, more = part_of("laplace", POINTS), part_of("laplace", POINTS, default=False, attacks=[acting, "norm"])
    said = [" ".join(unexamined(joint_of(campaign_of(p)))) for p in (plain, more)]
    assert ["Attackers who act" in s for s in said] == [True, False]


def test_a_decision_needs_no_torch() -> None:
    code = (
        "import sys; from tests.helpers.campaigns import campaign_of, part_of; "
        "from tune_vfl.analysis.summary import summary; from tune_vfl.evaluation.coverage import Coverage; "
        "part = part_of('laplace', [(0.9, 0.3), (0.8, 0.2)], coverage=Coverage(goals=('labels',))); "
        "campaign = campaign_of(part, constraints={'leakage': 0.25}); "
        "found = summary(campaign); "
        "assert found['decisions']['breast_cancer']['number'] == 1; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_skipped_studies_stand_with_their_own_data_set() -> None:
    parts = part_of("laplace", POINTS), part_of("laplace", POINTS, dataset="digits")
    left = (
        Skipped("camp-digits-kdk", None, ("kdk needs two classes",)),
        Skipped("camp-breast_cancer-mid", None, ("no reason",)),
    )
    campaign = campaign_of(*parts, skipped=left)
    here, there = (" ".join(unexamined(joint_of(campaign, name))) for name in ("breast_cancer", "digits"))
    assert "kdk" not in here
    assert "kdk needs two classes" in there
    assert "no reason" in here
    assert "no reason" not in there
    for name, said in (("breast_cancer", here), ("digits", there)):
        alone = campaign.on(name)
        assert " ".join(unexamined(joint_of(alone))) == said, "a notebook looks at one data set's studies alone"


def test_what_was_kept_when_it_was_planned_is_not_worked_out_again() -> None:
    few = part_of("laplace", POINTS, default=False)
    kept = Coverage(untried=("spectral",), acts=True, goals=("labels",))
    assert untried(replace(few, coverage=kept)) == ("spectral",)
    assert coverage(replace(few, coverage=kept)) is kept
    assert coverage(few) == coverage_of(few.spec, few.cell)


def test_a_planned_study_keeps_which_attackers_it_stands_for() -> None:
    plain = {"study": "s", "dataset": "breast_cancer", "defense": "laplace", "attacks": ["norm"]}
    study = planned_campaign(plain).studies[0]
    assert study.coverage == coverage_of(study.spec, study.cell)
    assert study.as_held().coverage == study.coverage
    assert study.coverage is not None
    assert "pmc" in study.coverage.untried
