"""``--select`` of campaigns, and ``tune-vfl/campaign/1``."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.campaigns import campaign_of, confirmed, part_of
from tune_vfl.analysis.exporting import export
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.select import select
from tune_vfl.analysis.summary import frontier, summary
from tune_vfl.config import load_config
from tune_vfl.errors import SelectionError, UnknownNameError, UsageError
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.18), (0.85, 0.1), (0.945, 0.8))


def two(**fields: object) -> CampaignRecord:
    return campaign_of(part_of("laplace", LAPLACE, cost=1.1), part_of("marvell", MARVELL, cost=3.0), **fields)


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("max-utility", "marvell#2"),
        ("min-leakage", "marvell#1"),
        ("leakage<=0.2", "marvell#0"),
        ("leakage <= 0.35 and cost<=2", "laplace#1"),
        ("utility_loss<=0.04", "marvell#2"),
        ("utility_loss<=0.04 and leakage<=.65", "laplace#0"),
        ("utility>=0.84", "marvell#1"),
        ("attacks.pmc.advantage<=0.14", "marvell#0"),
        ("attacks.norm.success<0.56 and utility>0.8", "marvell#1"),
        ("camp-breast_cancer-laplace#2", "laplace#2"),
        (" trial = 1 ", None),
    ],
)
def test_selecting_from_a_campaign(by: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(UsageError, match="camp-breast_cancer-laplace#1"):
            select(two(), by)
    else:
        assert select(two(), by).name == f"camp-breast_cancer-{name}"


def test_a_defense_s_name_is_its_own_best_by_the_campaign_s_rule() -> None:
    assert select(two(constraints={"leakage": 0.35}), "laplace").name.endswith("laplace#1")
    own = joint_of(campaign_of(part_of("laplace", LAPLACE)))
    assert own.knee is not None
    assert select(two(), "laplace").name == own.knee.name
    assert select(two(), "camp-breast_cancer-marvell").defense == "marvell"
    with pytest.raises(UsageError, match="one of laplace, marvell"):
        select(two(), "laplce")


def test_what_is_deployed_is_selected_and_nothing_else_is() -> None:
    assert select(two(constraints={"leakage": 0.2})).name.endswith("marvell#0")
    joint = joint_of(two())
    assert joint.knee is not None
    assert select(two()).name == joint.knee.name, "it surely leaks less than a half"
    with pytest.raises(SelectionError) as refused:
        select(two(constraints={"leakage": 0.05}))
    says, choice = str(refused.value).splitlines()
    assert says.startswith("No setting qualifies on breast_cancer.")
    assert "Nearest is marvell scale=2" in says
    assert choice == "  --select 'camp-breast_cancer-marvell#1'  takes one all the same"


def test_a_compromise_that_leaks_much_is_not_exported_unless_it_is_chosen() -> None:
    steep = campaign_of(part_of("laplace", [(0.94, 0.6), (0.80, 0.45)]), part_of("kdk", [(0.78, 0.15)]))
    with pytest.raises(SelectionError) as refused:
        select(steep)
    says, *choices = str(refused.value).splitlines()
    assert says.startswith("A compromise on breast_cancer: laplace scale=1 gives away about three fifths of what")
    assert "Limit it by `constraints: {leakage: CAP}`, or choose with `--select`." in says
    assert choices == [
        "  --select 'camp-breast_cancer-kdk#0'  leakage surely at most 0.2: kdk scale=1",
        "  --select 'camp-breast_cancer-laplace#1'  leakage surely at most 0.5: laplace scale=2",
        "  --select knee  takes the compromise all the same: laplace scale=1",
    ]
    for choice in choices:
        by = choice.split()[1].strip("'")
        assert select(steep, by).name in choice or by == "knee"
    lone = CampaignRecord.of(steep.studies[0])
    with pytest.raises(SelectionError, match=r"--select 'camp-breast_cancer-laplace#1' .*\n  --select knee "):
        export(lone)
    assert export(lone, "knee").trial == 0


def test_a_defense_s_compromise_is_not_called_the_campaign_s_knee() -> None:
    parts = part_of("laplace", [(0.94, 0.6)]), part_of("kdk", [(0.93, 0.15)])
    with pytest.raises(SelectionError, match=r"\n  --select 'camp-breast_cancer-laplace#0'  takes the compromise"):
        select(campaign_of(*parts, constraints={"utility_loss": 0.1}), "laplace")


def test_several_data_sets_ask_for_one() -> None:
    campaign = campaign_of(part_of("laplace", LAPLACE), part_of("laplace", MARVELL, dataset="wine"))
    with pytest.raises(UsageError, match=r"2 data sets \(breast_cancer, wine\); say which"):
        select(campaign, "knee")
    assert select(campaign, "max-utility", "wine").name == "camp-wine-laplace#2"
    assert select(campaign, "camp-wine-laplace#1").trial.number == 1
    with pytest.raises(UnknownNameError, match="unknown data set of 'camp' 'win'"):
        select(campaign, "knee", "win")


def test_what_is_not_there_is_said() -> None:
    lost = part_of("laplace", [*LAPLACE, Outcome.failed("diverged", "NaN")])
    lone = campaign_of(lost)
    wrong = ("trial=9", "no such trial"), ("trial=3", "it ended as diverged"), ("x#1", "expected one of the")
    for by, message in wrong:
        with pytest.raises((SelectionError, UsageError), match=message):
            select(lone, by)
    assert select(lone, "trial=1").trial is lost.trials[1]
    with pytest.raises(SelectionError, match=r"must be below with 90% confidence|goes from utility"):
        select(lone, "leakage<=0.2")
    with pytest.raises(SelectionError, match="cost is not known: the cost of laplace was not measured"):
        select(lone, "cost<=2")
    with pytest.raises(SelectionError, match="none of its trials ended ok"):
        select(campaign_of(part_of("laplace", [])), "knee")
    for by in ("leakage", "utility=>1", "loss<=1 and leakage<=1", "attacks.pmc<=1"):
        with pytest.raises(UsageError):
            select(lone, by)


def test_confirmed_settings_are_taken_where_any_meets_the_conditions() -> None:
    laplace, marvell = two().studies
    campaign = campaign_of(laplace, confirmed(marvell, {1: (0.84, 0.11, True), 0: (0.93, 0.1, False)}))
    assert select(campaign, "leakage<=0.2").name.endswith("marvell#1"), "the other did not stay"
    assert select(campaign, "max-utility").name.endswith("marvell#1")
    assert select(campaign, "utility>=0.93 and leakage<=0.7").name.endswith("laplace#0"), "none of those that stayed"


def test_the_summary_is_plain_and_has_what_the_interface_names() -> None:
    campaign = two(constraints={"leakage": 0.2})
    found = summary(campaign)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["schema"] == "tune-vfl/campaign/1"
    assert {"campaign", "studies", "front", "decisions", "checks", "mlflow"} <= set(found)
    assert [s["study"] for s in found["studies"]] == [p.name for p in campaign.studies]
    assert found["mlflow"]["experiment"] == "camp"
    assert found["front"] == frontier(campaign)
    assert [p["utility"] for p in found["front"]] == sorted((p["utility"] for p in found["front"]), reverse=True)
    chosen = found["decisions"]["breast_cancer"]
    assert {k: chosen[k] for k in ("study", "number", "defense")} == {
        "study": "camp-breast_cancer-marvell",
        "number": 0,
        "defense": "marvell",
    }
    none = summary(two(constraints={"leakage": 0.05}))["decisions"]
    assert none["breast_cancer"]["study"] is None
    assert none["breast_cancer"]["nearest"]["number"] == 1


def test_a_single_study_s_summary_has_its_decision() -> None:
    lone = CampaignRecord.of(part_of("laplace", [(0.94, 0.6), (0.80, 0.45)]))
    found = summary(lone)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["schema"] == "tune-vfl/study/1"
    decision = found["decision"]
    assert (decision["verdict"], decision["study"]) == ("compromise", None)
    assert decision["says"][0].startswith("A compromise on breast_cancer: laplace")
    assert [(rung["cap"], rung["setting"] and rung["setting"]["number"]) for rung in decision["ladder"]] == [
        (0.1, None),
        (0.2, None),
        (0.5, 1),
    ]
    assert decision["compromise"]["number"] == found["knee"]
    limited = summary(replace(lone, spec={"constraints": {"leakage": 0.48}}))["decision"]
    assert (limited["verdict"], limited["number"]) == ("deploy", 1)


def test_an_export_says_how_it_was_chosen(tmp_path: Path) -> None:
    campaign = campaign_of(part_of("kdk", MARVELL[2:]), part_of("laplace", LAPLACE), constraints={"leakage": 0.35})
    config = export(campaign, None, tmp_path / "best.json")
    assert (config.study, config.trial, config.select) == ("camp-breast_cancer-laplace", 1, "decision")
    assert load_config(tmp_path / "best.json") == config
    assert export(campaign, "min-leakage").trial == 2
    assert export(CampaignRecord.of(part_of("laplace", LAPLACE)), "knee").select == "knee"
