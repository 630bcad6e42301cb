"""A decision in sentences."""

from dataclasses import replace

from tests.helpers.campaigns import campaign_of, part_of
from tune_vfl.analysis import sentences
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Choice, Decision, Far, Reference, Rung, Strongest
from tune_vfl.analysis.formatting import short, short_span
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.evaluation.checks import Check

MARVELL = Choice(
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
    runner_up=Choice("camp-iso", "spambase", "iso", 2, {"ratio": 3.0}, 0.93, (0.925, 0.935), 0.19, None),
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


ISO = Choice("camp-iso", "spambase", "iso", 2, {"ratio": 3.0}, 0.93, (0.925, 0.935), 0.08, None, kept=0.73)
LEAKY = replace(
    MARVELL,
    leakage=0.78,
    leakage_interval=(0.7, 0.82),
    strongest=Strongest("pmc", 0.78, (0.7, 0.82)),
    lacks=("leakage is .780, with 90% confidence at most .810: not at most .500",),
)
COMPROMISE = replace(
    DEPLOY,
    verdict="compromise",
    why="the best compromise of the joint front, 9 settings of 300 measured settings",
    setting=None,
    compromise=LEAKY,
    ladder=(Rung(0.1, ISO), Rung(0.2, ISO), Rung(0.5, replace(MARVELL, number=3, leakage_interval=None, kept=None))),
    constraints={},
)


def test_a_compromise_says_what_it_gives_away_and_what_there_is_instead() -> None:
    said = sentences.sentences(COMPROMISE)
    head, limit, low, middle, high, why, *_ = said
    assert head == (
        "A compromise on spambase: marvell budget=2.1 gives away about four fifths of what an attacker could not find "
        "without the training."
    )
    assert limit == (
        "It is not recommended, as leakage is .780, with 90% confidence at most .810: not at most .500, and no "
        "constraint bounds it below 1. Limit it by `constraints: {leakage: CAP}`, or choose with `--select`."
    )
    assert low == (
        "Leakage surely at most 0.1: iso ratio=3 (camp-iso#2), AUC .930 (.925 to .935) at leakage .08, "
        "keeps 73% of what the federation brings."
    )
    assert middle == "Leakage surely at most 0.2: the same."
    assert high == (
        "Leakage surely at most 0.5: marvell budget=2.1 (camp-marvell#3), AUC .941 (.936 to .946) at leakage .20."
    )
    assert why == "The compromise is the best compromise of the joint front, 9 settings of 300 measured settings."
    assert not any("Deploy" in one or "deploy" in one for one in said)
    bare = sentences.sentences(replace(COMPROMISE, ladder=tuple(Rung(cap, None) for cap in (0.1, 0.2, 0.5))))
    assert bare[2:5] == [f"Leakage surely at most {cap}: no setting." for cap in (0.1, 0.2, 0.5)]
    ladder = (*COMPROMISE.ladder[:2], Rung(0.5, MARVELL))
    ends = sentences.sentences(replace(DEPLOY, ladder=ladder))[-3:]
    assert ends == [low, middle, "Leakage surely at most 0.5: the recommended one."]


def test_fifths_of_what_is_given_away() -> None:
    words = "hardly any", "about a fifth", "about two fifths", "about three fifths", "about four fifths", "nearly all"
    for leakage, word in zip((0.09, 0.11, 0.4, 0.69, 0.71, 0.91), words, strict=True):
        told = sentences.headline(replace(COMPROMISE, compromise=replace(LEAKY, leakage=leakage)))
        assert f"gives away {word} of what" in told
    unattacked = sentences.headline(replace(COMPROMISE, compromise=replace(LEAKY, leakage=0.0, strongest=None)))
    assert unattacked == (
        "A compromise on spambase: marvell budget=2.1 was not attacked, so nobody knows what it gives away."
    )


def test_a_setting_that_may_protect_nothing_is_said_to() -> None:
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
    said = sentences.sentences(decide(joint_of(none)))
    assert said[:2] == [
        "No setting qualifies on breast_cancer.",
        "None of 2 measured settings surely keeps leakage<=0.2 with 90% confidence.",
    ]
    assert said[2].startswith("Nearest is laplace scale=2 (camp-breast_cancer-laplace#1), AUC .800")
    failing = campaign_of(part_of("laplace", points, baseline=None))
    found = decide(joint_of(failing))
    assert sentences.sentences(found) == [
        "Nothing is recommended on breast_cancer while a check fails.",
        "The undefended model was not measured, or not to an end.",
    ]
    empty = campaign_of(part_of("laplace", []))
    assert sentences.sentences(decide(joint_of(empty))) == [
        "No answer yet on breast_cancer: no trial has come to a result."
    ]
