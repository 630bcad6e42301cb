"""The texts and numbers of tables that lay defenses side by side, on made-up campaigns whose numbers are known."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reports.compared import (
    attack_table,
    cost_table,
    failure_table,
    front_table,
    history_frame,
    ranked,
)
from reports.gathered import Gathered, gather
from reports.naming import names_of
from tests.helpers.campaigns import attack_of, campaign_of, confirmed, outcome_of, part_of, steady
from tune_vfl.analysis.formatting import score, span
from tune_vfl.analysis.joint_front import joint_of
from tune_vfl.outcome import Outcome
from tune_vfl.records.studies import StudyRecord

LAPLACE = ((0.94, 0.6), (0.90, 0.3), (0.80, 0.25))
MARVELL = ((0.92, 0.18), (0.85, 0.1), (0.945, 0.8))
LOW = {"leakage": 0.2}


def gathered(*parts: StudyRecord, **fields: Any) -> Gathered:
    (data,) = gather(campaign_of(*parts, **fields))
    return data


def two(**fields: Any) -> Gathered:
    return gathered(part_of("laplace", LAPLACE), part_of("marvell", MARVELL), **{"constraints": LOW, **fields})


def test_the_front_stands_by_rising_leakage_under_what_it_is_compared_with() -> None:
    data = two()
    table = front_table(data)
    assert [row.kind for row in table.rows] == ["reference", "reference", "", "chosen", "", ""]
    assert [row.cells[0] for row in table.rows] == [
        "undefended", "the label party alone", "marvell scale=2", "marvell scale=1", "laplace scale=1",
        "marvell scale=3",
    ]  # fmt: skip
    assert data.found.undefended is not None
    sure = data.found.undefended.sure
    assert sure is not None
    undefended, alone, _, chosen, _, last = (row.cells for row in table.rows)
    assert undefended[1] == span(0.95, sure.utility_interval)
    assert undefended[2:5] == ("100%", span(0.9, sure.leakage_interval), "norm")
    assert alone[:4] == ("the label party alone", span(0.75, (0.75, 0.75)), "0%", "–")
    point = data.found.point("camp-breast_cancer-marvell", 0)
    assert chosen[1] == span(0.92, point.sure.utility_interval)
    assert chosen[2:5] == ("85%", span(0.18, point.sure.leakage_interval), "norm")
    assert (chosen[5], chosen[6], chosen[7]) == (f"{point.chance:.0%}", "recommended", "camp-breast_cancer-marvell#0")
    assert last[6] == ""
    assert table.head[:3] == ("setting ", "AUC", "gain kept")
    assert "what the federation adds to what the label party reaches alone" in table.note


def test_the_front_s_file_has_the_same_in_full() -> None:
    data = two()
    frame = front_table(data).frame
    assert frame["number"].tolist() == [1, 0, 0, 2]
    assert frame["defense"].tolist() == ["marvell", "marvell", "laplace", "marvell"]
    assert frame["defense.scale"].tolist() == [2.0, 1.0, 1.0, 3.0]
    assert frame["recommended"].tolist() == [False, True, False, False]
    assert frame["leakage"].tolist() == pytest.approx([0.1, 0.18, 0.6, 0.8])
    assert frame["utility"].tolist() == pytest.approx([0.85, 0.92, 0.94, 0.945])
    assert frame["attack.norm"].tolist() == pytest.approx([0.55, 0.59, 0.8, 0.9])
    assert frame["attack.pmc"].tolist() == pytest.approx([0.525, 0.545, 0.65, 0.7])
    assert frame["confirmed"].tolist() == [False] * 4
    point = data.found.point("camp-breast_cancer-marvell", 0)
    ends = [*(point.sure.utility_interval or ()), *(point.sure.leakage_interval or ())]
    row = frame.iloc[1]
    assert [row[n] for n in ("utility_low", "utility_high", "leakage_low", "leakage_high")] == pytest.approx(ends)
    assert row["chance"] == pytest.approx(point.chance)


def test_a_single_seed_has_no_interval_in_the_file() -> None:
    once = [outcome_of([u], {"norm": [x]}) for u, x in LAPLACE]
    frame = front_table(gathered(part_of("laplace", once, attacks=["norm"]))).frame
    assert frame["utility"].notna().all()
    assert frame[["utility_low", "utility_high", "leakage_low", "leakage_high"]].isna().all(axis=None)


def test_marks_have_a_column_where_there_are_any() -> None:
    lone = front_table(gathered(part_of("laplace", LAPLACE), constraints={"leakage": 0.01}))
    assert lone.head == ("setting ", "AUC", "gain kept", "leakage", "strongest attack ", "on the front", "--select ")
    assert {len(row.cells) for row in lone.rows} == {7}
    assert lone.rows[-1].cells[0] == "scale=1", "a lone defense is not named in every row"
    assert lone.rows[-1].cells[-1] == "camp-breast_cancer-laplace#0"
    again = confirmed(part_of("laplace", LAPLACE), {1: (0.9, 0.3, True)})
    marked = front_table(gathered(again))
    assert marked.head[6] == " "
    assert [row.cells[6] for row in marked.rows if row.cells[0] == "scale=2"] == ["recommended, confirmed"]
    assert "confirmed" not in marked.rows[-1].cells[6]


def test_a_compromise_is_marked_and_not_recommended() -> None:
    table = front_table(gathered(part_of("laplace", [(0.94, 0.6), (0.80, 0.45)])))
    assert [(row.cells[6], row.kind) for row in table.rows[2:]] == [("", ""), ("compromise", "chosen")]
    assert table.frame["recommended"].tolist() == [False, False]


def test_without_references_there_are_the_settings_alone_and_a_weak_attack_is_called_so() -> None:
    weak = outcome_of([0.9, 0.9, 0.9], {})
    weak = weak.model_copy(
        update={"attacks": {"norm": attack_of([0.0, 0.0, 0.0]).model_copy(update={"weak_attack": True})}}
    )
    table = front_table(gathered(part_of("laplace", [weak], attacks=["norm"], baseline=None, alone=())))
    (row,) = table.rows
    assert row.cells[2] == "–"
    assert row.cells[4] == "norm (too weak)"
    bare = front_table(gathered(part_of("laplace", [steady(0.9, 0.0, ())], attacks=())))
    assert bare.rows[-1].cells[4] == ""


def test_defenses_are_ranked_below_caps() -> None:
    low, middle, high = ranked(two())
    assert [low.cap, middle.cap, high.cap] == [0.1, 0.2, 0.5]
    assert middle.table.head == ("", "setting ", "AUC", "leakage under", "best")
    ((place, setting, utility, bound, best),) = (row.cells for row in middle.table.rows)
    data = two()
    rank = data.rankings[1].rows[0]
    assert (place, setting) == ("1", "marvell scale=1")
    assert utility == span(0.92, rank.utility_interval)
    assert bound == score(rank.leakage_upper, digits=2) == "0.18"
    assert best == "100%"
    least = data.rankings[1].rows[1].least
    assert least == pytest.approx(0.25, abs=0.01)
    assert middle.rest == (
        f"None of their settings surely leaks so little (in parentheses the least bound): laplace ({least:.2f})."
    )
    assert high.rest == ""
    assert [row.cells[:2] for row in high.table.rows] == [("1", "marvell scale=1"), ("2", "laplace scale=2")]
    frame = middle.table.frame
    assert frame["defense"].tolist() == ["marvell", "laplace"]
    assert frame["number"].tolist()[0] == 0
    assert frame["number"].isna().tolist() == [False, True]
    assert frame["utility_low"].tolist()[0] == pytest.approx((rank.utility_interval or (0.0, 0.0))[0])
    assert frame["utility_high"].tolist()[0] == pytest.approx((rank.utility_interval or (0.0, 0.0))[1])
    assert frame["cap"].tolist() == [0.2, 0.2]
    assert frame["least"].isna().tolist() == [True, False]
    nothing = ranked(gathered(part_of("laplace", []), part_of("kdk", [(0.9, 0.9)])))[0]
    assert nothing.rest.endswith(": kdk (0.90) and laplace."), "of what showed nothing no bound is known"


def test_what_each_attack_finds_is_shaded_by_it_and_the_strongest_is_marked() -> None:
    missing = [outcome_of([0.9, 0.901, 0.902], {"norm": [0.1, 0.1, 0.1]})]
    data = gathered(part_of("laplace", LAPLACE[1:2]), part_of("kdk", missing, attacks=["norm"]))
    table = attack_table(data)
    assert table.head == ("defense ", "best setting ", "norm", "pmc")
    assert [row.cells for row in table.rows] == [
        ("laplace", "scale=1", "0.30 ◂", "0.15"),
        ("kdk", "scale=1", "0.10 ◂", "–"),
    ]
    assert table.heat[0] == pytest.approx((0.0, 0.0, 0.3, 0.15))
    assert table.heat[1] == pytest.approx((0.0, 0.0, 0.1, 0.0))
    assert table.frame["advantage"].tolist() == pytest.approx([0.3, 0.15, 0.1])
    assert table.frame["attack"].tolist() == ["norm", "pmc", "norm"]
    assert table.frame["worst"].tolist() == [True, False, True]
    assert table.frame["share"].tolist() == [1.0, 0.0, 1.0]
    (point,) = data.found.of("laplace")
    ends = table.frame["low"].tolist()[0], table.frame["high"].tolist()[0]
    assert ends == data.found.settings.advantage_interval(point.place, "norm")
    assert ends[0] < 0.3 < ends[1]
    nothing = attack_of([0.0, 0.0, 0.0]).model_copy(update={"weak_attack": True})
    none = outcome_of([0.9, 0.9, 0.9], {}).model_copy(update={"attacks": {"norm": nothing}})
    weak = attack_table(gathered(part_of("laplace", [none], attacks=["norm"])))
    assert weak.rows[0].cells[2] == "0.00 (weak)", "what finds nothing is not the strongest"


def test_each_defense_stands_for_itself_with_its_best_compromise() -> None:
    """Of kdk the second: .02 of utility is a tenth of the federation's gain, .3 of leakage a third of all."""
    second = steady(0.91, 0.2)
    weak = attack_of([0.0, 0.0, 0.0]).model_copy(update={"weak_attack": True})
    second = second.model_copy(update={"attacks": {**second.attacks, "direct": weak}})
    first = outcome_of([0.93, 0.931, 0.932], {"norm": [0.1, 0.12, 0.11], "pmc": [0.5, 0.52, 0.51]})
    data = gathered(part_of("kdk", [first, second], attacks=["norm", "pmc", "direct"]), part_of("iso", []))
    (row,) = attack_table(data).rows
    assert row.cells == ("kdk", "scale=2", "0.20 ◂", "0.10", "0.00 (weak)")
    frame = attack_table(data).frame
    assert dict(zip(frame["attack"], frame["share"], strict=True)) == {"norm": 0.5, "pmc": 0.5, "direct": 0.0}
    assert frame["weak"].tolist() == [False, False, True]


def test_what_the_search_took() -> None:
    timed = [
        steady(0.9, 0.3).model_copy(update={"seconds": {"train": t, "attack": a, "setup": 9.0}})
        for t, a in ((1.0, 0.5), (3.0, 1.5))
    ]
    lost = Outcome.failed("oom", "full")
    part = part_of("laplace", [*timed, lost], cost=1.234)
    longer = tuple(replace(t, finished=t.started + timedelta(seconds=50 * (k + 1))) for k, t in enumerate(part.trials))
    table = cost_table(gathered(replace(part, trials=longer), part_of("kdk", [])))
    assert [row.cells for row in table.rows] == [
        ("laplace", "1.23", "3", "2.0", "1.0", "5.0"),
        ("kdk", "–", "0", "–", "–", "0.0"),
    ]
    assert table.frame["cost"].tolist()[0] == 1.234
    assert table.frame["trials"].tolist() == [3, 0]
    assert table.frame["train_seconds"].tolist()[0] == 2.0
    assert table.frame["attack_seconds"].tolist()[0] == 1.0
    assert table.frame["minutes"].tolist() == [5.0, 0.0]


def test_failures_and_the_history() -> None:
    lost = [Outcome.failed("diverged", f"loss is NaN at step {n}\nand a long trace") for n in (12, 900)]
    lost += [Outcome.failed("oom", "full"), Outcome.failed("preempted", "gone")]
    parts = part_of("laplace", [*LAPLACE, *lost[:2]]), part_of("kdk", [(0.7, 0.9), lost[0], *lost[2:]])
    data = gathered(*parts)
    table = failure_table(data)
    assert [row.cells for row in table.rows] == [
        ("diverged", "3", "laplace 2, kdk 1", "loss is NaN at step 12"),
        ("oom", "1", "kdk 1", "full"),
    ]
    assert table.frame["trials"].tolist() == [2, 1, 1]
    assert table.frame["study"].tolist() == [
        "camp-breast_cancer-laplace", "camp-breast_cancer-kdk", "camp-breast_cancer-kdk",
    ]  # fmt: skip
    history = history_frame(data)
    assert history["trial"].tolist() == list(range(1, 9))
    assert history["hypervolume"].tolist() == [s.hypervolume for s in data.found.history]
    assert history["study"].tolist()[0] == data.found.history[0].study


def test_studies_are_called_by_their_defenses_and_those_near_the_front_stand_out() -> None:
    """A setting is near that .01 more utility, or .05 less leakage, would put on the front: kdk lacks more of both."""
    parts = (
        part_of("laplace", [(0.90, 0.3), (0.80, 0.1)]),
        part_of("iso", [(0.891, 0.36)]),
        part_of("kdk", [(0.889, 0.36)]),
        part_of("mid", [(0.889, 0.34)]),
    )
    names = names_of(joint_of(campaign_of(*parts)))
    assert list(names.called.values()) == ["laplace", "iso", "kdk", "mid"]
    assert [name for name, look in names.looks.items() if look.color is not None] == ["laplace", "iso", "mid"]
    points = joint_of(campaign_of(*parts)).points[1:]
    assert names.setting(points[1]) == "iso scale=1"
    assert names.short(points[1]) == "1"
    both = replace(points[1], trial=replace(points[1].trial, params={"scale": 1.0, "k": 3}))
    wider = names._replace(moved={**names.moved, points[1].study: ["scale", "k"]})
    assert wider.short(both) == "scale=1, k=3"
    again = part_of("laplace", [(0.8, 0.2)])
    renamed = replace(again, spec=again.spec.model_copy(update={"study": "second"}))
    called = names_of(joint_of(campaign_of(parts[0], renamed))).called
    assert list(called.values()) == ["camp-breast_cancer-laplace", "second"], "of one defense by their own names"


def test_every_data_set_is_gathered_with_its_own() -> None:
    lost = Outcome.failed("oom", "full")
    parts = part_of("laplace", [*LAPLACE, lost]), part_of("kdk", MARVELL, dataset="wine")
    campaign = campaign_of(*parts)
    here, there = gather(campaign)
    assert (here.found.dataset, there.found.dataset) == ("breast_cancer", "wine")
    assert (here.decision.dataset, there.decision.dataset) == ("breast_cancer", "wine")
    assert (len(failure_table(here).rows), len(failure_table(there).rows)) == (1, 0)
    assert [p.name for p in here.found.parts] == ["camp-breast_cancer-laplace"]
    assert [row.cells[0] for row in attack_table(here).rows] == ["laplace"]
    assert len(here.rankings) == 3
