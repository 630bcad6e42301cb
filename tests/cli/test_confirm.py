"""``tune-vfl confirm`` that cannot go on, and what it prints; whole confirmations are in tests/confirmation."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.helpers.contests import SCALES, campaign_of, confirmable, played, searched
from tests.helpers.contests import answered as answer_to
from tune_vfl.analysis.decide import decisions
from tune_vfl.analysis.sentences import sentences
from tune_vfl.confirmation.answer import answer_of
from tune_vfl.confirmation.contest import Contest, contests_of
from tune_vfl.confirmation.run import Confirmed
from tune_vfl.confirmation.table import ContestTable
from tune_vfl.confirmation.tuning import with_tuned
from tune_vfl.ledger.confirmation_store import Confirmations
from tune_vfl.ledger.ledger import Ledger
from tune_vfl.outcome import TunedAttack
from tune_vfl.records.answers import Confirmation
from tune_vfl.records.confirmations import ConfirmedPoint
from tune_vfl.service import projecting, studies
from tune_vfl.spec.cell import MEASURE

pytestmark = pytest.mark.usefixtures("home")


def test_a_study_that_is_not_there_is_named_with_the_nearest(run: Run) -> None:
    code, out, err = run("confirm", "study")
    assert (code, out) == (2, "")
    assert "no study 'study': there is no ledger" in err
    searched("study-1").close()
    code, out, err = run("confirm", "study")
    assert (code, out) == (2, "")
    assert "Did you mean 'study-1'?" in err


def test_a_study_without_a_result_has_nothing_to_confirm(run: Run) -> None:
    from tests.helpers.ledgers import open_ledger

    open_ledger("empty").close()
    code, out, err = run("confirm", "empty")
    assert (code, out) == (2, "")
    assert "'empty' has nothing to confirm: none of its trials ended ok" in err
    assert "tune-vfl resume empty" in err


@pytest.mark.parametrize("seeds", [0, -3, "many"])
def test_no_seeds_are_a_usage_error(run: Run, seeds: Any) -> None:
    code, out, err = run("confirm", "study", "--seeds", seeds)
    assert (code, out) == (2, "")
    assert "--seeds" in err


def test_a_study_of_another_measure_is_refused(run: Run) -> None:
    ledger = searched()
    ledger._set(measure=1)
    ledger.close()
    code, out, err = run("confirm", "study")
    assert (code, out) == (2, "")
    assert "study 'study' has measure 1" in err
    assert "--name NEW" in err


def answered(ledger: Ledger, *, noise: float = 0.02) -> Confirmation:
    """Confirm without Ray, and keep the answer."""
    contest = Contest.of(ledger.record(), 4)
    answer = answer_to(contest, played(contest, noise=noise))
    Confirmations(ledger.place, None).set_answer(answer)
    return answer


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Confirmed:
    """What a confirmation ended with, which the verb is made to get."""
    ledger = searched()
    ended = Confirmed(answered(ledger))
    ledger.close()
    monkeypatch.setattr(projecting, "confirm_named", lambda *_, **__: ended)
    return ended


def test_it_answers_in_its_schema(run: Run, ended: Confirmed) -> None:
    code, out, _ = run("confirm", "study", "--json")
    assert code == 0
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert ended.answer is not None
    assert answer == ended.answer.plain()
    assert (answer["schema"], answer["name"], answer["measure"]) == ("tune-vfl/confirmation/1", "study", MEASURE)
    assert answer["seeds"] == [1000, 1001, 1002, 1003]
    told = {"study", "dataset", "defense", "number", "params", "utility", "utility_interval", "leakage", "stays"}
    told |= {"leakage_interval", "leakage_untuned", "searched"}
    assert all(told <= set(point) for point in answer["points"])
    for point in (*answer["points"], answer["baseline"]):
        assert point["utility_interval"][0] <= point["utility"] <= point["utility_interval"][1]
        assert 0 <= point["leakage_interval"][0] <= point["leakage_interval"][1] <= 1
    assert {c["name"] for c in answer["checks"]} == {"finished", "reserve", "rows", "measured", "decided"}


def test_it_prints_a_table_what_is_merged_and_what_to_know(run: Run, ended: Confirmed) -> None:
    code, out, err = run("confirm", "study")
    assert code == 0
    assert ended.answer is not None
    stay = sum(p.confirmed and p.on_front for p in ended.answer.points)
    assert f"study: {stay} of 12 points of the front stay, on 4 fresh seeds" in out, "there is no neighbor to join"
    assert "no defense" in out
    assert "note: no reserve: breast_cancer has 569 rows" in err
    for line in ended.answer.lines:
        shared = f"cannot be told apart: trials {', '.join(map(str, line.numbers))}"
        assert (shared in out) == (len(line.numbers) > 1)


@pytest.fixture
def joint(monkeypatch: pytest.MonkeyPatch) -> Confirmation:
    """What a campaign's confirmation ended with, on two data sets."""
    parts = [
        confirmable("laplace", scales=SCALES[:6]),
        confirmable("gaussian", defense="gaussian", scales=SCALES[6:]),
        confirmable("on-wine", dataset={"name": "wine"}, scales=(1e-5, 1e-4, 1.0001e-4)),
    ]
    campaign = campaign_of(parts)
    tables = [ContestTable(contest, played(contest)) for contest in contests_of(campaign, 4)]
    answer = answer_of(campaign, tables)
    monkeypatch.setattr(projecting, "confirm_named", lambda *_, **__: Confirmed(answer))
    monkeypatch.setattr(studies, "campaign_record", lambda *_: replace(campaign, confirmation=answer))
    return answer


def test_a_campaign_answers_in_the_same_schema_and_by_data_set(run: Run, joint: Confirmation) -> None:
    code, out, _ = run("confirm", "campaign", "--json")
    assert (code, out.count("\n")) == (0, 1)
    answer = json.loads(out)
    assert answer == joint.plain()
    assert (answer["schema"], answer["name"], answer["seeds"][0]) == ("tune-vfl/confirmation/1", "campaign", 1000)
    assert {(p["dataset"], p["study"], p["defense"]) for p in answer["points"]} == {
        ("breast_cancer", "laplace", "laplace"),
        ("breast_cancer", "gaussian", "gaussian"),
        ("wine", "on-wine", "laplace"),
    }
    assert set(answer["baseline"]) == set(answer["knee"]) == {"breast_cancer", "wine"}


def test_a_campaign_is_shown_data_set_by_data_set(run: Run, joint: Confirmation) -> None:
    code, out, err = run("confirm", "campaign")
    assert code == 0
    several, alone = out.split("campaign on wine: ")
    assert several.startswith("campaign on breast_cancer: 12 of 12 points of the joint front stay, on 4 fresh seeds")
    assert alone.startswith("3 of 3 points of the joint front stay, on 4 fresh seeds")
    assert "on-wine#2" in alone
    for name in ("laplace#0", "gaussian#5"):
        assert name in several
    for dataset, decision in decisions(studies.campaign_record("campaign")).items():
        assert "\n".join([f"{dataset}:", *sentences(decision)]) in out, "what it leads to stands at the end"
    assert out.count("no defense") == 2
    assert err.count("note: wine: no reserve") == err.count("note: breast_cancer: no reserve") == 1
    for line in joint.lines:
        shared = f"cannot be told apart: trials {', '.join(map(str, line.points))}"
        assert (shared in out) == (len(line.numbers) > 1)


def test_it_names_the_attacker_that_was_tuned(run: Run, ended: Confirmed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended.answer is not None
    tuned = TunedAttack(
        attack="pmc",
        params={"variants": ("head_only",)},
        variant="head_only",
        success=(1.0,) * 5,
        floors=(0.5,) * 5,
        advantages=(1.0,) * 5,
        tried=31,
        minutes=2.0,
    )
    points = [with_tuned(p, tuned if p.number == 0 else None) for p in ended.answer.points]
    asked: list[dict[str, Any]] = []
    found = Confirmed(ended.answer.model_copy(update={"points": tuple(points)}))
    monkeypatch.setattr(projecting, "confirm_named", lambda *_, **given: asked.append(given) or found)
    code, out, _ = run("confirm", "study", "--adaptive", "2")
    assert (code, asked[0]["adaptive"]) == (0, 2.0)
    (line,) = [line for line in out.splitlines() if line.startswith("tuned against")]
    untuned = next(p for p in points if p.number == 0).leakage_untuned
    assert line.startswith("tuned against trial 0: pmc variants=")
    assert line.endswith(f"leaks 1.000, others {untuned:.3f} (31 tried)")
    assert run("confirm", "study", "--adaptive", "-1")[0] == 2


def test_stopped_is_130_and_what_could_not_be_measured_is_3(
    run: Run, ended: Confirmed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projecting, "confirm_named", lambda *_, **__: Confirmed(None, {}, 7))
    code, out, _ = run("confirm", "study", "--json")
    assert (code, out) == (130, "")
    failed = Confirmed(ended.answer, {("study", 3): "RuntimeError: broken"})
    monkeypatch.setattr(projecting, "confirm_named", lambda *_, **__: failed)
    code, out, _ = run("confirm", "study", "--json")
    assert code == 3
    assert json.loads(out)["name"] == "study"


def test_frontier_and_status_say_which_points_are_confirmed(run: Run) -> None:
    ledger = searched()
    front = json.loads(run("frontier", "study", "--json")[1])
    assert not any(point["confirmed"] for point in front)
    answer = answered(ledger)
    ledger.close()
    front = json.loads(run("frontier", "study", "--json")[1])
    stay = {p.number: p for p in answer.points if p.confirmed}
    assert {p["number"] for p in front if p["confirmed"]} == {n for n, p in stay.items() if p.on_front}
    point = next(p for p in front if p["confirmed"])
    assert point["confirmation"]["leakage"] == stay[point["number"]].leakage
    assert point["confirmation"]["utility_interval"] == list(stay[point["number"]].utility_interval or ())
    assert json.loads(run("status", "study", "--json")[1])["front"] == front


def test_an_export_prefers_what_was_confirmed_and_says_so(run: Run, tmp_path: Path) -> None:
    ledger = searched(noise=0.0)
    code, _, err = run("export", "study", "--select", "leakage<=0.5", "-o", tmp_path / "before.json")
    assert code == 0
    assert "note: not confirmed: `tune-vfl confirm study`" in err
    before = json.loads((tmp_path / "before.json").read_text(encoding="utf-8"))
    assert "confirmed" not in before["measured"]
    answer = answered(ledger, noise=0.0)
    bounds = {p.number: 0.6 if p.number == before["trial"] else p.leakage_upper_90 for p in answer.points}
    raised = [_with_bound(p, max(0.1, bounds[p.number] or 0.0)) for p in answer.points]
    Confirmations(ledger.place, None).set_answer(answer.model_copy(update={"points": tuple(raised)}))
    ledger.close()
    code, _, err = run("export", "study", "--select", "leakage<=0.5", "-o", tmp_path / "after.json")
    assert code == 0
    assert "not confirmed" not in err
    after = json.loads((tmp_path / "after.json").read_text(encoding="utf-8"))
    assert after["trial"] == before["trial"] + 1, "the next one: the bound of the first is above"
    chosen = next(p for p in answer.points if p.number == after["trial"])
    assert after["measured"]["utility"] == chosen.utility
    assert after["measured"]["confirmed"]["leakage_upper_90"] <= 0.5
    assert after["measured"]["confirmed"]["searched"] == chosen.searched
    code, _, err = run("export", "study", "--select", "leakage<=0.05", "-o", tmp_path / "none.json")
    assert code == 2
    assert "leakage must be below with 90% confidence, which holds from 0.1000 up" in err


def _with_bound(point: ConfirmedPoint, bound: float) -> ConfirmedPoint:
    return point.model_copy(update={"leakage_upper_90": bound})
