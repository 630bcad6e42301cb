"""Every way in which a decision can be said, and what a summary and unexamined attacks say."""

from dataclasses import replace
from typing import Any

import pytest

from tests.analysis.test_sentences import DEPLOY, MARVELL
from tests.helpers.campaigns import campaign_of, outcome_of, part_of, steady
from tune_vfl.analysis import sentences
from tune_vfl.analysis.decide import decide
from tune_vfl.analysis.decision import Decision, Reference, Strongest
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.analysis.not_examined import checks_together, unexamined
from tune_vfl.analysis.rankings import rankings
from tune_vfl.analysis.select import select
from tune_vfl.analysis.summary import summary
from tune_vfl.errors import SelectionError, UsageError
from tune_vfl.evaluation.checks import Check
from tune_vfl.records.campaigns import Skipped

CHOSEN = MARVELL


def said(**fields: Any) -> list[str]:
    setting = replace(CHOSEN, **fields.pop("setting", {}))
    return sentences.sentences(replace(DEPLOY, setting=setting, **fields))


def test_a_setting_by_what_is_known_of_it() -> None:
    assert said(setting={"confirmed": True})[2].endswith("costs .004 (.001 to .007), on fresh seeds.")
    assert said(setting={"loss": None})[2] == "marvell budget=2.1 (camp-marvell#7): AUC .941 (.936 to .946)."
    assert said(setting={"loss": 0.0, "loss_interval": None})[2].endswith("(.936 to .946), costs nothing.")
    assert said(setting={"loss": -0.01, "loss_interval": (-0.02, 0.001)})[2].endswith("costs nothing (-.020 to .001).")
    assert said(setting={"params": {}})[0] == "Deploy marvell on spambase."
    without = said(setting={"cost": None, "strongest": None})
    assert not any("times the undefended" in s or "strongest attack" in s for s in without)


def test_an_attacker_that_was_tuned_is_said_to_be() -> None:
    tuned = said(setting={"strongest": Strongest("pmc", 0.5, None, tuned=True)})
    beside = "against .85 (.80 to .90) without a defense."
    assert f"The strongest attack, pmc, tuned against it, finds .50, {beside}" in tuned


def test_what_it_is_laid_beside_or_not() -> None:
    nothing = said(setting={"kept": None})
    assert nothing[3] == "The label party alone reaches .890 (.880 to .900): the federation adds nothing that is sure."
    client = said(alone=Reference(0.89, None, who="a client"))
    assert client[3] == "It keeps 93% of what the federation brings; a client alone reaches .890."
    fresh = said(setting={"confirmed": True})
    assert fresh[3].endswith("the label party alone reaches .890 (.880 to .900) in the search.")
    lone = said(alone=None, undefended=None)
    assert lone[3] == "The strongest attack, pmc, finds .18 (.12 to .24)."
    assert not any("Without a defense" in s or "alone" in s for s in lone)
    unattacked = said(undefended=Reference(0.945, None))
    assert "Without a defense it is .945." in unattacked
    assert "The strongest attack, pmc, finds .18 (.12 to .24)." in unattacked
    warned = "Its leakage over all attacks is .20 (.13 to .80). It does not surely lower it."
    assert warned in said(setting={"leakage_interval": (0.13, 0.8)}), "up to where the undefended one's begins"
    assert any(s.endswith("is .20 (.13 to .79).") for s in said(setting={"leakage_interval": (0.13, 0.79)}))
    assert "Its leakage over all attacks is .20." in said(setting={"leakage_interval": None})


def test_nothing_to_deploy_in_words() -> None:
    about: dict[str, Any] = {"dataset": "wine", "metric": "accuracy"}
    none = Decision(
        **about, verdict="none_qualifies", why="none of 2 keeps it", nearest=replace(MARVELL, lacks=("a", "b"))
    )
    assert sentences.sentences(none) == [
        "No setting qualifies on wine.",
        "None of 2 keeps it.",
        "Nearest is marvell budget=2.1 (camp-marvell#7), accuracy .941 (.936 to .946) at leakage .20 (.13 to .26): a; b.",  # noqa: E501
    ]
    bare = Decision(**about, verdict="none_qualifies", why="nothing", nearest=replace(MARVELL, lacks=()))
    assert sentences.sentences(bare)[-1].endswith("at leakage .20 (.13 to .26).")
    assert len(sentences.sentences(replace(bare, nearest=None))) == 2
    two = (Check(name="a", ok=False, says="x"), Check(name="b", ok=True, says="y"), Check(name="c", ok=False, says="z"))
    failing = Decision(**about, verdict="not_trusted", why="w", checks=two)
    assert sentences.sentences(failing) == ["Nothing is recommended on wine while a check fails.", "X.", "Z."]


def test_a_summary_key_by_key() -> None:
    left = (Skipped("camp-wine-cae", "pmc", ("no labels", "none")),)
    parts = part_of("laplace", [(0.94, 0.6), (0.90, 0.3)]), part_of("kdk", [(0.9, 0.2)], dataset="wine")
    whole = campaign_of(*parts, skipped=left, trials=9)
    found = summary(whole)
    assert found["trials"] == {"asked": 9, "counted": 3}
    assert found["hypervolume"] == pytest.approx({d: joint_of(whole, d).hypervolume for d in ("breast_cancer", "wine")})
    assert [p["dataset"] for p in found["front"]] == ["breast_cancer", "breast_cancer", "wine"]
    assert found["skipped"] == [{"study": "camp-wine-cae", "attack": "pmc", "problems": ["no labels", "none"]}]
    assert {check["dataset"] for check in found["checks"]} == {"breast_cancer", "wine"}
    decision = decide(joint_of(whole, "wine"))
    assert found["decisions"]["wine"]["says"] == sentences.sentences(decision)
    assert found["decisions"]["wine"]["verdict"] == decision.verdict
    one = summary(campaign_of(parts[0]))
    assert all("dataset" not in check for check in one["checks"]), "of one there is nothing to tell apart"


def test_checks_that_differ_name_their_studies() -> None:
    ok, bad = Check(name="a", ok=True, says="fine"), Check(name="a", ok=False, says="bad")
    found = checks_together({"x": (ok,), "y": (ok, bad), "z": (ok, bad)})
    assert [(c.ok, c.says) for c in found] == [(True, "fine"), (False, "bad (y and z)")]
    assert checks_together({"x": (bad,)}) == (bad,)


def test_pairs_that_cannot_be_are_told_by_their_reason() -> None:
    parts = part_of("laplace", [(0.9, 0.3)]), part_of("kdk", [(0.9, 0.3)])
    left = [Skipped(p.name, "direct", ("no logits",)) for p in parts] + [
        Skipped("camp-breast_cancer-cae", None, ("a", "b"))
    ]
    whole = campaign_of(*parts, skipped=tuple(left))
    told = unexamined(joint_of(whole))
    assert told[:2] == ("Skipped: direct on laplace and kdk (no logits).", "Skipped: camp-breast_cancer-cae (a; b).")
    few = part_of("laplace", [(0.9, 0.3)], default=False), part_of("kdk", [(0.9, 0.3)])
    missing = [s for s in unexamined(joint_of(campaign_of(*few))) if "not tried" in s]
    assert len(missing) == 1
    assert missing[0].startswith("Attacks that were not tried on laplace: ")


def test_ranks_of_equal_utility_and_of_no_attack() -> None:
    same = part_of("kdk", [(0.9, 0.08), (0.9, 0.05)]), part_of("cae", [(0.9, 0.05)])
    (low, *_) = rankings(joint_of(campaign_of(*same)))
    assert [(r.defense, r.point and r.point.number) for r in low.rows] == [("cae", 0), ("kdk", 1)], "the least leaky"
    assert [r.best for r in low.rows] == pytest.approx([0.5, 0.5], abs=0.01)
    bare = part_of("iso", [steady(0.99, 0.0, ())], attacks=())
    (first, *_) = rankings(joint_of(campaign_of(*same, bare)))
    assert (first.rows[-1].defense, first.rows[-1].least) == ("iso", None), "nothing is known of its leakage"
    assert first.rows[-1].best == 0.0


def test_what_is_selected_where_nothing_is_said_and_what_is_said_where_nothing_is() -> None:
    part = part_of("laplace", [(0.94, 0.6), (0.90, 0.3)])
    empty = campaign_of(part_of("laplace", []), part_of("kdk", []))
    with pytest.raises(SelectionError, match="'camp' has no point to select from"):
        select(empty, "knee")
    with pytest.raises(
        UsageError, match=r"'x#1': expected one of the studies camp-breast_cancer-laplace, .*laplace#1'"
    ):
        select(empty, "x#1")
    wild = outcome_of([0.9, 0.9, 0.9], {"norm": [0.0, 0.9, 0.3]})
    with pytest.raises(SelectionError, match=r"--select 'camp-breast_cancer-laplace#0'  takes one all the same$"):
        select(campaign_of(part_of("laplace", [wild])), "decision")
    assert select(campaign_of(part), "trial=1").name == "camp-breast_cancer-laplace#1"
