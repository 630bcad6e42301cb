"""A decision in sentences."""

from dataclasses import replace

from tests.helpers.campaigns import campaign_of, part_of
from tune_vfl.analysis import sentences
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision, Far, Reference, Setting, Strongest
from tune_vfl.analysis.formatting import short, short_span
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.evaluation.checks import Check

MARVELL = Setting(
    study="camp-marvell",
    dataset="spambase",
    defense="marvell",
    number=7,
    params={"budget": 2.1},
    utility=0.941,
    utility_interval=(0.936, 0.946),
    leakage=0.2,
    leakage_interval=(0.13, 0.26),
    loss=0.004,
    loss_interval=(0.001, 0.007),
    cost=1.5,
    kept=0.93,
    strongest=Strongest("pmc", 0.18, (0.12, 0.24)),
)
DEPLOY = Decision(
    dataset="spambase",
    metric="auc",
    verdict="deploy",
    why="the most useful of 12 of 300 measured settings that surely keep leakage<=0.3",
    setting=MARVELL,
    runner_up=Setting("camp-iso", "spambase", "iso", 2, {"ratio": 3.0}, 0.93, (0.925, 0.935), 0.19, None),
    undefended=Reference(0.945, (0.941, 0.949), 0.85, (0.8, 0.9)),
    alone=Reference(0.89, (0.88, 0.9)),
    far=(Far(("kdk", "cae"), 0.0131), Far(("mid",), None)),
    constraints={"leakage": 0.3},
    checks=(Check(name="useful", ok=True, says="fine"),),
)


def test_what_to_deploy_in_the_issue_s_manner() -> None:
    assert sentences.sentences(DEPLOY) == [
        "Deploy marvell budget=2.1 on spambase.",
        "It is the most useful of 12 of 300 measured settings that surely keep leakage<=0.3.",
        "marvell budget=2.1 (camp-marvell#7): AUC .941 (.936 to .946), costs .004 (.001 to .007).",
        "It keeps 93% of what the federation brings; the label party alone reaches .890 (.880 to .900).",
        "Without a defense it is .945 (.941 to .949).",
        "The strongest attack, pmc, finds .18 (.12 to .24), against .85 (.80 to .90) without a defense.",
        "Its leakage over all attacks is .20 (.13 to .26).",
        "Its training takes 1.5 times the undefended one's CPU.",
        "Runner-up: iso ratio=3 (camp-iso#2), .930 (.925 to .935) at leakage .19.",
        "No setting of kdk or cae comes within .013 AUC of it at no more leakage.",
        "No setting of mid leaks so little.",
    ]
    assert sentences.reliability(DEPLOY) == "The one check holds."


def test_a_compromise_that_may_protect_nothing_is_said_to() -> None:
    leaky = replace(MARVELL, leakage=0.82, leakage_interval=(0.7, 0.84))
    assert any("does not surely lower it" in said for said in sentences.sentences(replace(DEPLOY, setting=leaky)))
    assert not any("does not surely lower it" in said for said in sentences.sentences(DEPLOY))


def test_numbers_are_short() -> None:
    assert [short(v) for v in (0.941, -0.004, 1.0, 0.0)] == [".941", "-.004", "1.000", ".000"]
    assert short_span(0.5, (0.0, 1.0), 2) == ".50 (.00 to 1.00)"
    assert short_span(0.5, None) == ".500"


def test_every_verdict_has_words() -> None:
    points = [(0.90, 0.3), (0.80, 0.25)]
    none = campaign_of(part_of("laplace", points), constraints={"leakage": 0.2})
    said = sentences.sentences(decide(none, joint_of(none)))
    assert said[:2] == [
        "No setting qualifies on breast_cancer.",
        "None of 2 measured settings surely keeps leakage<=0.2 with 90% confidence.",
    ]
    assert said[2].startswith("Nearest is laplace scale=2 (camp-breast_cancer-laplace#1), AUC .800")
    failing = campaign_of(part_of("laplace", points, baseline=None))
    found = decide(failing, joint_of(failing))
    assert sentences.sentences(found) == [
        "Nothing is recommended on breast_cancer while a check fails.",
        "The undefended model was not measured, or not to an end.",
    ]
    assert sentences.reliability(found).startswith("1 of 1 check fails: the undefended model")
    empty = campaign_of(part_of("laplace", []))
    assert sentences.sentences(decide(empty, joint_of(empty))) == [
        "No answer yet on breast_cancer: no trial has come to a result."
    ]
