"""An attack that was left out is shown as not needed, with what makes it so, wherever attacks are shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reports.compared import attack_table
from reports.rows import study_rows
from reports.story import story
from reports.tables import attacks_frame, trials_frame
from tests.helpers.campaigns import campaign_of, part_of, steady
from tests.reports.test_tables_side_by_side import gathered
from tune_vfl.analysis.summary import frontier, study_summary
from tune_vfl.cli.studies import front_table
from tune_vfl.outcome import Outcome
from tune_vfl.records.campaigns import CampaignRecord
from tune_vfl.records.studies import StudyRecord
from tune_vfl.tracking.payload import trial_content

WHY = "norm found .995 of the way"


def without_pmc(utility: float, leakage: float) -> Outcome:
    return steady(utility, leakage, ("norm",)).model_copy(update={"not_needed": {"pmc": WHY}})


@pytest.fixture
def record() -> StudyRecord:
    return part_of("laplace", [without_pmc(0.94, 0.9), steady(0.90, 0.3), steady(0.85, 0.5)])


def test_a_front_against_it_is_of_the_settings_that_met_it(record: StudyRecord) -> None:
    lone = CampaignRecord.of(record)
    assert [p["number"] for p in frontier(lone)] == [0, 1]
    assert [p["number"] for p in frontier(lone, "pmc")] == [1]
    campaign = campaign_of(record, part_of("ppdl", [without_pmc(0.95, 0.9)]))
    assert [p["number"] for p in frontier(campaign, "pmc")] == [1]


def test_json_says_why(record: StudyRecord) -> None:
    first, second = json.loads(json.dumps(study_summary(record)))["front"]
    assert first["not_needed"] == {"pmc": WHY}
    assert "not_needed" not in second
    assert set(first["attacks"]) == {"norm"}


def test_the_terminal_says_so_and_no_number(record: StudyRecord, capsys: pytest.CaptureFixture[str]) -> None:
    front_table(frontier(CampaignRecord.of(record)))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "not needed" in line]
    assert "scale=1" in line


def test_pages_say_so(record: StudyRecord) -> None:
    rows = study_rows(story(record))
    assert rows.attacks == ["norm", "pmc"]
    texts = {row["number"]: row["attacks"]["pmc"] for row in rows.front}
    assert texts[0] == "not needed"
    assert texts[1][0].isdigit()
    (row,) = attack_table(gathered(part_of("laplace", [without_pmc(0.94, 0.9)], attacks=["norm", "pmc"]))).rows
    assert row.cells[-1] == "not needed"


def test_files_say_why(record: StudyRecord) -> None:
    trials = trials_frame([record]).set_index("number")["not_needed"]
    assert trials[0] == f"pmc: {WHY}"
    assert trials.isna().tolist() == [False, True, True]
    of_attacks = attacks_frame([record])
    (row,) = of_attacks[of_attacks["not_needed"].notna()].to_dict("records")
    assert (row["number"], row["attack"], row["not_needed"]) == (0, "pmc", WHY)


def test_mlflow_has_a_tag_and_no_metric(record: StudyRecord) -> None:
    left_out, met = (trial_content(record.name, record.cell, t) for t in record.trials[:2])
    assert left_out.tags["tune_vfl.not_needed.pmc"] == WHY
    assert not [name for name in met.tags if "not_needed" in name]
    assert "attack.pmc" in met.metrics
    assert "attack.pmc" not in left_out.metrics


def test_an_outcome_of_before_is_one_that_met_all() -> None:
    kept = steady(0.9, 0.3).model_dump()
    del kept["not_needed"]
    assert Outcome.model_validate(kept) == steady(0.9, 0.3)
    assert replace(part_of("laplace", [steady(0.9, 0.3)])).ok[0].outcome.not_needed == {}
